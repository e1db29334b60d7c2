-- Tests resty.rwlock: readers and writers, in one process and in several.

local expect, fixture, keep, pack, process, tasks =
    require "spec.support" ("expect", "fixture", "keep", "pack", "process", "tasks")
local hosts = require "resty.holdfast.host"
local none = require "resty.holdfast.host.none"
local rwlock = require "resty.rwlock"
local scheduler = require "resty.holdfast.scheduler"


describe("rwlock", function ()
    local dict, new = fixture.locks(rwlock, "spec_rwlock")

    it("leaves a reader's share to the parent of a forked child", function ()
        local text = process.run(process.FORK .. [[
            local rwlock = require "resty.rwlock"
            local reader, lost = rwlock:new("spec_rwlock"), rwlock:new("spec_rwlock")
            reader:rdlock("key")
            lost:rdlock("another")
            in_child(function ()
                say("child", reader:valid(), select(2, reader:unlock()),
                    select(2, rwlock:new("spec_rwlock"):trywrlock("key")))
                reader, lost = nil, nil
                collectgarbage()
                collectgarbage()
                os.exit(0, true)
            end)
            say("parent", reader:valid(), lost:valid(), reader:unlock(), lost:unlock())
        ]])
        assert.equal("child\tfalse\tnot owner\theld\nparent\ttrue\ttrue\t1\t1\n", text)
    end)

    describe("new", function ()
        it("refuses unknown options and bad values, and reports the caller's line", function ()
            local message = expect.refusal_of(rwlock, "spec_rwlock")
            assert.equal("bad options to new: expected a table, got number", message(5))
            assert.equal('unknown option "exptiem" to new: expected block, deadlock, exptime, fair, log_timeouts, '
                         .. "max_step, on_lost, ratio, renew, step, timeout or wait", message { exptiem = 5 })
            for _, name in ipairs { "exptime", "timeout", "step", "ratio", "max_step" } do
                local accepted = name == "max_step" and "a number greater than 0" or "a number, 0 or more"
                for _, value in ipairs { -1, "1", {}, false } do
                    assert.matches('bad option "' .. name .. '" to new: expected ' .. accepted .. ", got ",
                                   message { [name] = value }, 1, true)
                end
            end
            for name, accepted in pairs { block = "a boolean", fair = "a boolean", renew = "a boolean",
                                          on_lost = "a function", wait = '"wake" or "poll"' } do
                assert.equal('bad option "' .. name .. '" to new: expected ' .. accepted .. ", got 1",
                             message { [name] = 1 })
            end
        end)

        it("sets the timeout of calls that do not have their own", function ()
            keep(new()):wrlock("key")
            local function fail() error("this must not wait") end
            hosts.set_host { name = "forbidden", sleep = fail, wait = fail }
            assert.same(pack(nil, "timeout"), pack(new():rdlock("key", { timeout = 0 })))
            assert.same(pack(nil, "timeout"), pack(new({ timeout = 0 }):wrlock("key")))
            assert.error_matches(function () new({ timeout = 0 }):wrlock("key", { timeout = 1 }) end, "must not wait")
        end)

        it("does not limit the timeout to exptime", function ()
            expect.in_time(function ()
                local first, second = new(), new { exptime = 0.001, timeout = 10 }
                first:wrlock("key", { exptime = 0.1 })
                local elapsed = assert(second:rdlock("key"))
                second:unlock()
                return elapsed > 0.001
            end)
        end)
    end)

    describe("readers and writers", function ()
        it("readers share the lock, and a writer excludes all others", function ()
            local readers = { new(), new(), new() }
            for _, reader in ipairs(readers) do
                assert.same(pack(0), pack(reader:rdlock("key")))
            end
            assert.same(pack(nil, "held"), pack(new():trywrlock("key")))
            assert.same(pack(nil, "timeout"), pack(new({ timeout = 0.01 }):wrlock("key")))
            for _, reader in ipairs(readers) do
                assert.same(pack(1), pack(reader:unlock()))
            end
            local writer = new()
            assert.same(pack(true), pack(writer:trywrlock("key")))
            assert.same(pack(nil, "held"), pack(new():tryrdlock("key")))
            assert.same(pack(nil, "held"), pack(new():trywrlock("key")))
            assert.same(pack(nil, "timeout"), pack(new({ timeout = 0 }):rdlock("key")))
            assert.same(pack(true), pack(new():tryrdlock("another")))
            assert.equal(1, writer:unlock())
            assert.same(pack(true), pack(readers[1]:tryrdlock("key")))
        end)

        it("an object holds one share at a time", function ()
            local lock = new()
            lock:rdlock("key")
            for _, method in ipairs { "rdlock", "wrlock", "tryrdlock", "trywrlock" } do
                assert.same(pack(nil, "locked"), pack(lock[method](lock, "key")))
                assert.same(pack(nil, "locked"), pack(lock[method](lock, "another")))
            end
            assert.equal(1, lock:unlock())
            assert.same(pack(nil, "unlocked"), pack(lock:unlock()))
        end)

        it("downgrade lets readers in and keeps writers out", function ()
            local writer = new()
            assert.same(pack(nil, "unlocked"), pack(writer:downgrade()))
            writer:wrlock("key", { exptime = 100 })
            local token = writer:token()
            local got
            tasks.run(function ()
                scheduler.spawn(function ()
                    local reader = new()
                    got = reader:rdlock("key")
                end)
                scheduler.sleep(0.01)
                assert.is_nil(got)
                assert.same(pack(true), pack(writer:downgrade()))
            end)
            assert.is_true(got > 0)
            assert.equal(token, writer:token())
            assert.is_true(writer:remaining() > 50)
            assert.is_true(keep(new()):tryrdlock("key"))
            assert.same(pack(nil, "held"), pack(new():trywrlock("key")))
            assert.same(pack(true), pack(writer:downgrade()))
            assert.equal(1, writer:unlock())
        end)

        it("tryrdlock does not overtake a waiting writer, and a reader does not get a second share", function ()
            tasks.run(function ()
                local reader = new()
                reader:rdlock("key")
                scheduler.spawn(function ()
                    local writer = new()
                    assert.is_true(writer:wrlock("key") > 0)
                    writer:unlock()
                end)
                scheduler.sleep(0.005)
                assert.same(pack(nil, "held"), pack(new():tryrdlock("key")))
                assert.equal(1, reader:holder("key").waiters)
                reader:unlock()
            end)
            assert.is_true(new():tryrdlock("key"))
        end)
    end)

    describe("upgrade", function ()
        it("makes the only reader the writer at once, and keeps its lock", function ()
            local lock = new()
            assert.same(pack(nil, "unlocked"), pack(lock:upgrade()))
            lock:rdlock("key", { exptime = 100, why = "reads" })
            local token = lock:token()
            assert.same(pack(0), pack(lock:upgrade { why = "writes" }))
            assert.equal(token, lock:token())
            assert.is_true(lock:remaining() > 50)
            assert.is_true(lock:holder("key").writes)
            assert.equal("writes", lock:holder("key").why)
            assert.same(pack(nil, "held"), pack(new():tryrdlock("key")))
            assert.same(pack(0), pack(lock:upgrade()))
            assert.is_true(lock:downgrade())
            assert.is_true(keep(new()):tryrdlock("key"))
            assert.equal(1, lock:unlock())
        end)

        it("waits for other readers, comes before writers, and lets no reader in", function ()
            local order = {}
            tasks.run(function ()
                local reader, other = new(), new()
                reader:rdlock("key")
                other:rdlock("key")
                local function take(name, method)
                    scheduler.spawn(function ()
                        local lock = new()
                        assert(lock[method](lock, "key"))
                        order[#order + 1] = name
                        lock:unlock()
                    end)
                    scheduler.sleep(0.005)
                end
                take("writer", "wrlock")
                take("earlier", "rdlock")
                scheduler.spawn(function ()
                    assert.is_true(reader:upgrade() > 0)
                    order[#order + 1] = "upgraded"
                    scheduler.sleep(0.01)
                    reader:unlock()
                end)
                scheduler.sleep(0.005)
                take("later", "rdlock")
                assert.same(pack(nil, "held"), pack(new():tryrdlock("key")))
                assert.same({}, order)
                other:unlock()
            end)
            assert.same({ "upgraded", "writer", "earlier", "later" }, order)
        end)

        for _, wait in ipairs { "wake", "poll" } do
            it("reports a deadlock to the second of two readers: " .. wait, function ()
                tasks.run(function ()
                    local first, second = new { wait = wait }, new { wait = wait, timeout = 10 }
                    first:rdlock("key")
                    second:rdlock("key")
                    local elapsed
                    scheduler.spawn(function () elapsed = first:upgrade() end)
                    scheduler.sleep(0.005)
                    assert.same(pack(nil, "deadlock", { "key", "key" }), pack(second:upgrade()))
                    assert.same(pack(nil, "deadlock", { "key", "key" }), pack(second:upgrade { timeout = 0 }))
                    assert.is_true(second:valid())
                    assert.is_nil(elapsed)
                    second:unlock()
                    scheduler.sleep(0.1)
                    assert.is_true(elapsed > 0)
                    first:unlock()
                end)
            end)
        end

        it("keeps the read lock after its timeout, and logs the timeout", function ()
            local lines = {}
            local lock = new { timeout = 0.01, log_timeouts = function (line) lines[#lines + 1] = line end }
            local other = new()
            lock:rdlock("key", { exptime = 100 })
            other:rdlock("key")
            assert.same(pack(nil, "timeout"), pack(lock:upgrade()))
            assert.matches('^rwlock "key" of dictionary "spec_rwlock": timeout after 0.010 s; held by ', lines[1])
            assert.same(pack(nil, "timeout"), pack(lock:upgrade { timeout = 0 }))
            assert.is_true(lock:remaining() > 50)
            assert.equal(0, lock:waiters("key"))
            assert.is_true(keep(new()):tryrdlock("key"))
        end)

        it("ends when the read lock is lost, and reports the loss", function ()
            tasks.run(function ()
                local lost = 0
                local lock, other = new { on_lost = function () lost = lost + 1 end }, new()
                lock:rdlock("key")
                other:rdlock("key")
                local result
                scheduler.spawn(function () result = pack(lock:upgrade { timeout = 20 }) end)
                scheduler.sleep(0.005)
                dict:delete("key")
                scheduler.sleep(0.2)
                assert.same(pack(nil, "not owner"), result)
                assert.equal(1, lost)
                assert.same(pack(nil, "not owner"), pack(lock:upgrade()))
                lock:unlock()

                local mine = new()
                mine:rdlock("key")
                assert.is_true(other:unlock() == nil)
                other:rdlock("key")
                scheduler.spawn(function () result = pack(mine:upgrade { timeout = 20 }) end)
                scheduler.sleep(0.005)
                mine:unlock()  -- called by another task, which then takes another lock with the object
                mine:rdlock("another")
                other:unlock()
                scheduler.sleep(1.5)
                assert.same(pack(nil, "not owner"), result)
                assert.is_nil(mine:holder("another").writes)
            end)
        end)

        it("finds a cycle with another lock", function ()
            tasks.run(function ()
                local reader, other, a, b = new(), new(), new(), new { timeout = 20 }
                local result
                reader:rdlock("key")
                scheduler.spawn(function ()
                    other:rdlock("key")
                    assert(b:wrlock("second"))
                    other:unlock()
                    b:unlock()
                end)
                a:wrlock("second")
                scheduler.sleep(0.005)
                result = pack(reader:upgrade { timeout = 20 })
                assert.same(pack(nil, "deadlock", { "key", "second" }), result)
                assert.is_true(reader:valid())
                a:unlock()
                assert.is_true(reader:upgrade() >= 0)
                reader:unlock()
            end)
        end)

        it("inside with_rd takes a write lock that with_rd releases", function ()
            local lock = new()
            assert.equal("written", lock:with_rd("key", function ()
                assert.equal(0, lock:upgrade())
                assert.same(pack(nil, "held"), pack(new():tryrdlock("key")))
                return "written"
            end))
            assert.is_true(new():trywrlock("key"))
        end)

        it("continues when other readers are killed or their locks expire", function ()
            local lock, expiring = new { timeout = 20 }, new()
            lock:rdlock("key")
            local child = process.start_holder('require("resty.rwlock"):new("spec_rwlock")', "rdlock", "unlock")
            expiring:rdlock("key", { exptime = 0.1 })
            assert.same(pack(nil, "timeout"), pack(lock:upgrade { timeout = 0 }))
            child:kill(process.KILL)
            assert.is_number((lock:upgrade()))
            assert.is_true(lock:holder("key").writes)
        end)

        it("leaves nothing behind when its process is killed", function ()
            local lock = new { timeout = 20 }
            lock:rdlock("key")
            local child = process.start [[
                local lock = require("resty.rwlock"):new("spec_rwlock")
                say(lock:rdlock("key"))
                lock:upgrade { timeout = 100 }
            ]]
            assert.equal("0", child:hear())
            expect.in_time(function ()
                none.sleep(0.02)
                return lock:waiters("key") == 1
            end)
            assert.same(pack(nil, "deadlock", { "key", "key" }), pack(lock:upgrade()))
            child:kill(process.KILL)
            expect.in_time(function ()
                none.sleep(0.02)
                return lock:upgrade() ~= nil
            end)
            assert.equal(1, lock:unlock())
            assert.is_true(lock:tryrdlock("key"))
            assert.equal(0, lock:waiters("key"))
        end)

        it("never loses a change between the read and the write", function ()
            dict:set("count", 0)
            local counter = [[
                local lock = require("resty.rwlock"):new("spec_rwlock", { timeout = 20 })
                local dict = require("resty.shdict").shared.spec_rwlock
                local counted = 0
                while counted < 100 do
                    assert(lock:rdlock("key"))
                    local count = dict:get("count")
                    local ok, err = lock:upgrade()
                    if ok then
                        dict:set("count", count + 1)
                        counted = counted + 1
                    else
                        assert(err == "deadlock", err)
                    end
                    assert(lock:unlock())
                end
            ]]
            process.run_together { counter, counter, counter }
            assert.equal(300, dict:get("count"))
        end)

        it("raises an error for bad options, and reports the caller's line", function ()
            local lock = new()
            lock:rdlock("key")
            assert.equal('unknown option "exptime" to upgrade: expected timeout or why',
                         expect.blamed(function () lock:upgrade { exptime = 1 } end))
            assert.equal("bad options to upgrade: expected a table, got string",
                         expect.blamed(function () lock:upgrade("key") end))
            assert.equal("bad receiver of upgrade: expected a lock object, got nil; call it as obj:upgrade(...)",
                         expect.blamed(function () lock.upgrade() end))
        end)
    end)

    it("a writer that is never resumed keeps readers out for no longer than its timeout", function ()
        local reader, other = new(), new { timeout = 10 }
        assert(reader:rdlock("key"))
        -- Starts a coroutine that begins to wait and never continues.
        local function abandon(timeout)
            hosts.set_host { name = "aborting", sleep = coroutine.yield }
            local writer = coroutine.create(function () new({ timeout = timeout }):wrlock("key") end)
            assert(coroutine.resume(writer))
            hosts.set_host(nil)
            return writer
        end
        local patient = keep(abandon(60))
        assert.same(pack(nil, "held"), pack(other:tryrdlock("key")))
        assert.is_number((other:rdlock("key")))
        assert.equal("suspended", coroutine.status(patient))
        assert(other:unlock())
        keep(abandon(0.05))
        none.sleep(0.1)
        assert.is_true(other:tryrdlock("key"))
    end)

    describe("a share", function ()
        it("has its own token", function ()
            local first, second = new(), new()
            first:rdlock("key")
            second:rdlock("key")
            assert.is_true(second:token() > first:token())
        end)

        it("is renewed, and its loss is reported", function ()
            tasks.run(function ()
                expect.in_time(function ()
                    local lost = 0
                    local reader = new { exptime = 0.3, renew = true, on_lost = function () lost = lost + 1 end }
                    reader:rdlock("key")
                    scheduler.sleep(0.4)
                    local kept = reader:valid() and lost == 0
                    dict:delete("key")
                    assert.is_false(reader:valid())
                    reader:unlock()
                    assert.equal(1, lost)
                    return kept
                end)
            end)
            assert.matches("cannot renew here", select(2, new({ renew = true }):rdlock("key")), 1, true)
        end)

        it("is released by the collector", function ()
            new():rdlock("key")
            new():rdlock("key")
            new():wrlock("another")
            collectgarbage()
            collectgarbage()
            assert.is_true(new():trywrlock("key"))
            assert.is_true(new():trywrlock("another"))
        end)
    end)

    describe("with_rd and with_wr", function ()
        it("hold the lock while the function runs", function ()
            local first, second = new(), new()
            assert.equal("both", first:with_rd("key", function ()
                return second:with_rd("key", function (text) return text end, "both")
            end))
            assert.equal("alone", first:with_wr("key", { exptime = 10 }, function (text)
                assert.same(pack(nil, "held"), pack(second:tryrdlock("key")))
                return text
            end, "alone"))
            assert.is_true(second:trywrlock("key"))
            assert.same(pack(nil, "timeout"), pack(first:with_rd("key", { timeout = 0.01 }, error)))
        end)

        it("release the lock on an error, and report bad arguments and the caller's line", function ()
            local lock = new()
            assert.has_error(function () lock:with_wr("key", error, { 1 }) end, { 1 })
            assert.is_true(new():trywrlock("key"))
            assert.equal("bad function to with_rd: expected a function, got nil",
                         expect.blamed(function () lock:with_rd("key") end))
            assert.equal('bad option "timeout" to with_wr: expected a number, 0 or more, got -1',
                         expect.blamed(function () lock:with_wr("key", { timeout = -1 }, print) end))
        end)
    end)

    describe("across processes", function ()
        -- Takes a share and keeps it.
        local function start_holder(method)
            return process.start_holder('require("resty.rwlock"):new("spec_rwlock")', method, "unlock")
        end

        it("readers share the lock, and writers do not", function ()
            local child = start_holder("rdlock")
            assert.is_true(new():tryrdlock("key"))
            assert.same(pack(nil, "timeout"), pack(new({ timeout = 0.02 }):wrlock("key")))
            child:say("unlock")
            assert.equal("1", child:hear())
        end)

        for method, count in pairs { rdlock = 2, wrlock = 1 } do
            it("shares die with their processes: " .. method, function ()
                local children = {}
                for i = 1, count do
                    children[i] = start_holder(method)
                end
                for _, child in ipairs(children) do
                    assert.same(pack(nil, "held"), pack(new():trywrlock("key")))
                    child:kill(process.KILL)
                end
                local writer = new { timeout = 20 }
                assert(writer:wrlock("key"))
                assert.equal(1, writer:unlock())
            end)
        end

        it("a share of a stopped process stays until it expires", function ()
            expect.in_time(function ()
                dict:flush_all()
                local child = process.start [[
                    local lock = require("resty.rwlock"):new("spec_rwlock", { exptime = 0.3 })
                    say(lock:rdlock("key"))
                    hear()
                    say(select(2, lock:unlock()))
                    hear()
                ]]
                assert.equal("0", child:hear())
                child:kill(process.STOP)
                local is_held = select(2, new():trywrlock("key")) == "held"
                local writer = new()
                local elapsed = writer:wrlock("key")
                child:kill(process.CONT)
                child:say("unlock")
                assert.equal("not owner", child:hear())
                assert.is_true(writer:valid())
                return is_held and elapsed > 0
            end)
        end)

        it("readers see both halves of a writer's change", function ()
            dict:set("left", 0)
            dict:set("right", 0)
            local writer = [[
                local lock = require("resty.rwlock"):new("spec_rwlock", { timeout = 20 })
                local dict = require("resty.shdict").shared.spec_rwlock
                for _ = 1, 150 do
                    assert(lock:wrlock("key"))
                    dict:set("left", dict:get("left") + 1)
                    dict:set("right", dict:get("right") + 1)
                    assert(lock:unlock())
                end
            ]]
            local reader = [[
                local lock = require("resty.rwlock"):new("spec_rwlock", { timeout = 20 })
                local dict = require("resty.shdict").shared.spec_rwlock
                for _ = 1, 150 do
                    assert(lock:rdlock("key"))
                    assert(dict:get("left") == dict:get("right"))
                    assert(lock:unlock())
                end
            ]]
            process.run_together { writer, reader, writer, reader }
            assert.equal(300, dict:get("left"))
        end)
    end)

    it("raises an error for bad options of a call, and reports the caller's line", function ()
        local lock = new()
        assert.equal('unknown option "timeout" to tryrdlock: expected exptime or why',
                     expect.blamed(function () lock:tryrdlock("key", { timeout = 1 }) end))
        assert.equal('bad option "why" to wrlock: expected a string, got 5',
                     expect.blamed(function () lock:wrlock("key", { why = 5 }) end))
        assert.equal("bad options to rdlock: expected a table, got string",
                     expect.blamed(function () lock:rdlock("key", "opts") end))
        assert.equal("bad time to expire: expected a number, 0 or more, got -1", expect.blamed(function ()
            lock:rdlock("key")
            lock:expire(-1)
        end))
    end)
end)
