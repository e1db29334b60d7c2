-- Tests lock/lock_info.lua and dictionary/admin.lua: the holders of a lock, and the reasons why they hold it.

local expect, fixture, keep, pack, process = require "spec.support" ("expect", "fixture", "keep", "pack", "process")
local getpid = require("ffi").C.getpid
local rwlock = require "resty.rwlock"
local scheduler = require "resty.holdfast.scheduler"
local semaphore = require "resty.semaphore"



describe("holder", function ()
    local dict, new = fixture.locks(require "resty.lock", "spec_holder")

    -- Starts a process that takes a key, with a reason.
    local function start_holder(module, method, key)
        local child = process.start(([[
            local object = require("resty.%s"):new("spec_holder", { exptime = 0 })
            say(object:%s(%q, { why = "from afar" }))
            hear()
        ]]):format(module, method, key))
        child:expect "0"
        return child
    end

    it("is nil if nobody holds the key", function ()
        local lock = new()
        assert.same(pack(nil), pack(lock:holder("key")))
        lock:lock("key")
        lock:unlock()
        assert.same(pack(nil), pack(lock:holder("key")))
        dict:set("value", 5)
        assert.same(pack(nil), pack(lock:holder("value")))
    end)

    it("returns the process, and the start, duration and reason of its hold", function ()
        local lock = new()
        local before = scheduler.now()
        lock:lock("key", { exptime = 100, why = "to write the report" })
        local holder = new():holder("key")
        assert.equal(getpid(), holder.process)
        assert.equal("string", type(holder.program))
        assert.is_nil(holder.worker)
        assert.is_true(holder.alive)
        assert.equal("to write the report", holder.why)
        assert.equal(lock:token(), holder.token)
        assert.equal(0, holder.waiters)
        assert.is_true(math.abs(holder.since - before) < 5)
        assert.is_true(holder.held >= 0 and holder.held < 5)
        assert.is_true(holder.remaining > 50 and holder.remaining <= 101.1)
        lock:unlock()
    end)

    it("counts the waiters", function ()
        local lock = new()
        lock:lock("key", { why = "first" })
        for _ = 1, 3 do
            scheduler.spawn(function ()
                local waiting = new()
                waiting:lock("key", { why = "next" })
                assert.equal("next", waiting:holder("key").why)
                waiting:unlock()
            end)
        end
        scheduler.spawn(function ()
            scheduler.sleep(0.01)
            assert.same({ 3, "first" }, { lock:holder("key").waiters, lock:holder("key").why })
            lock:unlock()
        end)
        assert.is_true(scheduler.run())
    end)

    it("forgets the reason when the lock is released", function ()
        local lock = new()
        assert.is_true(lock:trylock("key", { why = "once" }))
        assert.equal("once", lock:holder("key").why)
        lock:unlock()
        lock:lock("key")
        assert.is_nil(lock:holder("key").why)
        lock:unlock()
        lock:with("key", { why = "in with" }, function () assert.equal("in with", lock:holder("key").why) end)
    end)

    it("may be a different process, and is reported as dead after its death", function ()
        local child = start_holder("lock", "lock", "key")
        local holder = new():holder("key")
        assert.same({ child.pid, "luajit", "from afar", true },
                    { holder.process, holder.program, holder.why, holder.alive })
        child:kill(process.KILL)
        child:wait()
        assert.is_false(new():holder("key").alive)
        assert.equal(0, keep(new()):lock("key"))
        assert.equal(getpid(), new():holder("key").process)
    end)

    describe("and holders and waiters,", function ()
        local rw, sem

        before_each(function ()
            rw = assert(rwlock:new("spec_holder", { timeout = 10 }))
            sem = assert(semaphore:new("spec_holder", { permits = 3 }))
        end)

        -- Calls every query, each of which accepts any kind of key.
        local function each(check)
            for name, asked in pairs { dictionary = dict, lock = new(), rwlock = rw, semaphore = sem } do
                check(asked, name)
            end
        end

        it("of a dictionary, a lock, an rwlock and a semaphore, agree for any key #local", function ()
            assert(keep(new()):lock("lock", { why = "alone" }))
            assert(rw:wrlock("written", { why = "to write" }))
            assert(sem:wait("permits", { why = "a permit" }))
            each(function (asked, name)
                assert.same({ "alone", 1 }, { asked:holder("lock").why, #asked:holders("lock") }, name)
                assert.same({ "to write", true }, { asked:holder("written").why, asked:holder("written").writes }, name)
                assert.equal("a permit", asked:holders("permits")[1].why, name)
                assert.equal(getpid(), asked:holders("permits")[1].process, name)
                assert.equal(0, asked:waiters("permits"), name)
            end)
        end)

        it("are nil, an empty array and 0 if nobody holds the key or if the key has a value", function ()
            dict:set("value", 5)
            local lock = new()
            lock:lock("free")
            lock:unlock()
            each(function (asked)
                for _, key in ipairs { "nothing", "value", "free" } do
                    assert.same(pack(nil), pack(asked:holder(key)))
                    assert.same(pack({}), pack(asked:holders(key)))
                    assert.same(pack(0), pack(asked:waiters(key)))
                end
            end)
        end)

        it("list all readers and all permits, oldest first, but no more than max #local", function ()
            local readers = {}
            for i = 1, 5 do
                readers[i] = assert(rwlock:new("spec_holder"))
                assert(readers[i]:rdlock("read", { why = "reader " .. i }))
            end
            local function whys(holders)
                for i, holder in ipairs(holders) do
                    holders[i] = holder.why
                end
                return holders
            end
            assert.same({ "reader 1", "reader 2", "reader 3", "reader 4", "reader 5" }, whys(dict:holders("read")))
            assert.same({ "reader 1", "reader 2" }, whys(dict:holders("read", 2)))
            assert.same({}, dict:holders("read", 0))
            assert.equal("reader 1", dict:holder("read").why)
            assert.equal(1, dict:holders("read")[5].permits)
            assert.is_nil(dict:holders("read")[5].writes)
            for i = 1, 3 do
                assert(sem:wait("permits", { why = "permit " .. i }))
            end
            assert.same({ "permit 1", "permit 2", "permit 3" }, whys(sem:holders("permits")))
        end)

        it("count all waiters, including waiters that only wait for a release #local", function ()
            local lock = new { timeout = 10 }
            lock:lock("key")
            rw:wrlock("written")
            scheduler.spawn(function () assert(new { timeout = 10 }:lock("key")) end)
            scheduler.spawn(function () assert(new { timeout = 10 }:wait("key")) end)
            for _ = 1, 2 do
                scheduler.spawn(function () assert(rwlock:new("spec_holder"):rdlock("written")) end)
            end
            scheduler.spawn(function ()
                scheduler.sleep(0.02)
                each(function (asked)
                    assert.same({ 2, 2 }, { asked:waiters("key"), asked:waiters("written") })
                    assert.equal(2, asked:holder("key").waiters)
                end)
                assert.equal(2, dict:locks("key")[1].waiters)
                lock:unlock()
                rw:unlock()
            end)
            assert.is_true(scheduler.run())
        end)

        it("take keys as lock does, and raise an error for an invalid number of holders", function ()
            each(function (asked)
                assert.same(pack(nil, "nil key"), pack(asked:holders()))
                assert.same(pack(nil, "empty key"), pack(asked:waiters("")))
                assert.same(pack(nil, "bad key type"), pack(asked:holder({})))
                assert.matches("^bad \"?max\"? .*expected .*whole number.*, got 0.5$",
                               expect.blamed(function () asked:holders("key", 0.5) end))
                assert.matches("^bad .*expected .*, got nil; call it as %a+:waiters",
                               expect.blamed(function () asked.waiters(nil, "key") end))
            end)
        end)
    end)
end)
