-- Tests lock:wait() (lock/contended.lua), which waits until the current holder releases a key, and does not take the
-- key.

local expect, fixture, keep, pack, process, waits =
    require "spec.support" ("expect", "fixture", "keep", "pack", "process", "waits")
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local semaphore = require "resty.semaphore"

local now, sleep, spawn = scheduler.now, scheduler.sleep, scheduler.spawn

-- In seconds: far longer than a wake-up takes, and far shorter than a wait without a wake-up.
local AT_ONCE = 0.5

-- A process with the given number of waiters. It reports that they wait, and then how many of them failed and when the
-- last waiter continued.
local WATCHERS = [[
    local scheduler = require "resty.holdfast.scheduler"
    local resty_lock = require "resty.lock"
    local bad, last = 0, 0
    for _ = 1, %d do
        scheduler.spawn(function ()
            local elapsed = resty_lock:new("spec_wait", { timeout = 60 }):wait("key")
            last = scheduler.now()
            if not elapsed then bad = bad + 1 end
        end)
    end
    scheduler.spawn(function () scheduler.sleep(0); say("waiting") end)
    scheduler.run()
    say(bad, ("%%.6f"):format(last))
]]


describe("lock:wait", function ()
    local dict, new = fixture.locks(resty_lock, "spec_wait", { size = "4m" })

    local function run(...)
        for i = 1, select("#", ...) do
            spawn((select(i, ...)))
        end
        assert.is_true(scheduler.run())
    end

    local function await_waiters(count)
        assert(waits.await(function () return dict:waiters("key") == count end))
    end

    -- Returns the results of a wait that `release` ends, and the number of seconds from the release to the wait's end.
    local function wait_until(release, lock)
        local results, over, released
        run(function ()
            results = pack((lock or new { timeout = 10 }):wait("key"))
            over = now()
        end, function ()
            sleep(0.05)
            assert.is_nil(over)
            released = now()
            release()
        end)
        return results, over - released
    end

    describe("for a key that nobody holds", function ()
        it("returns 0 immediately, and takes nothing", function ()
            assert.same(pack(0), pack(new():wait("key")))
            assert.is_true(new():trylock("key"))
        end)

        it("returns immediately if the key was held before, or if the holder's lease has expired", function ()
            local lock = new()
            lock:lock("key")
            lock:unlock()
            assert.equal(0, new():wait("key"))
            keep(new { exptime = 0.01 }):lock("key")
            waits.sleep(0.02)
            assert.equal(0, new():wait("key"))
        end)
    end)

    it("returns the seconds until the release, and takes nothing", function ()
        expect.in_time(function ()
            local holder, next_one = new(), new()
            holder:lock("key")
            local results, late = wait_until(function () holder:unlock() end)
            assert.equal(1, results.n)
            assert.is_true(results[1] >= 0.04)
            assert.is_true(next_one:trylock("key"))
            next_one:unlock()
            return late < AT_ONCE
        end)
    end)

    it("ends after its own timeout, or the object's", function ()
        keep(new()):lock("key")
        run(function ()
            assert.same(pack(nil, "timeout"), pack(new { timeout = 10 }:wait("key", { timeout = 0.02 })))
            assert.same(pack(nil, "timeout"), pack(new { timeout = 0.02 }:wait("key")))
            assert.same(pack(nil, "timeout"), pack(new():wait("key", { timeout = 0 })))
        end)
        assert.equal(0, dict:waiters("key"))
    end)

    it("ends with each release, even if the lock is taken again immediately", function ()
        expect.in_time(function ()
            local holder, over, in_time = new(), 0, nil
            holder:lock("key")
            for _ = 1, 20 do
                spawn(function ()
                    assert.is_number((new { timeout = 10 }:wait("key")))
                    over = over + 1
                end)
            end
            run(function ()
                sleep(0.03)
                holder:unlock()
                holder:lock("key")
                local deadline = now() + AT_ONCE
                repeat sleep(0.002) until over == 20 or now() > deadline
                in_time = over == 20
                holder:unlock()
            end)
            return in_time
        end)
    end)

    it("does not affect a different key that its object holds", function ()
        local lock, holder = new { timeout = 10 }, new()
        lock:lock("own")
        holder:lock("key")
        local results = wait_until(function () holder:unlock() end, lock)
        assert.is_number(results[1])
        assert.is_true(lock:valid())
    end)

    it("waits for a key that the object itself holds until another coroutine releases it", function ()
        local lock = new { timeout = 10 }
        expect.in_time(function ()
            lock:lock("key")
            local results, late = wait_until(function () lock:unlock() end, lock)
            return results[1] > 0 and late < AT_ONCE
        end)
        lock:lock("key")
        run(function ()
            assert.same(pack(nil, "timeout"), pack(lock:wait("key", { timeout = 0.02 })))
        end)
    end)

    describe("also ends when the lock", function ()
        local ends = {
            ["expires"] = function (holder) holder:expire(0.001) end,
            ["is deleted"] = function () dict:delete("key") end,
            ["is flushed"] = function () dict:flush_all() end,
            ["is replaced by a value that is deleted"] = function () dict:set("key", 1); dict:delete("key") end,
        }
        for what, finish in pairs(ends) do
            it(what, function ()
                expect.in_time(function ()
                    local holder = new { exptime = 60 }
                    holder:lock("key")
                    local results, late = wait_until(function () finish(holder) end)
                    assert.is_number(results[1])
                    return late < AT_ONCE
                end)
            end)
        end

        it("expires", function ()
            expect.in_time(function ()
                local elapsed
                keep(new { exptime = 0.1 }):lock("key")
                run(function () elapsed = new { timeout = 10 }:wait("key") end)
                return elapsed >= 0.05 and elapsed < 0.1 + AT_ONCE
            end)
        end)
    end)

    it("polls if the object polls", function ()
        local holder = new()
        holder:lock("key")
        local results = wait_until(function () holder:unlock() end, new { timeout = 10, wait = "poll" })
        assert.is_true(results[1] > 0) -- the sum of the steps, each of which may have lasted longer
        holder:lock("key")
        run(function ()
            assert.same(pack(nil, "timeout"), pack(new { timeout = 0.02, wait = "poll" }:wait("key")))
        end)
    end)

    it("is refused if the caller cannot wait, or blocks the process if the object has block", function ()
        require("resty.holdfast.host").set_host {
            name = "callback",
            sleep = function () return nil, "never" end,
            is_yieldable = function () return false, "in a callback" end,
        }
        assert.equal(0, new():wait("key"))
        keep(new { exptime = 0.1 }):lock("key")
        assert.same(pack(nil, "cannot wait here (host callback): in a callback"), pack(new():wait("key")))
        assert.is_number((new { block = true }:wait("key")))
    end)

    it("waits for the callers that hold permits when the wait begins, and for the removal of a value", function ()
        local sem = assert(semaphore:new("spec_wait", { permits = 2 }))
        sem:wait("key")
        local later = assert(semaphore:new("spec_wait", { permits = 2 }))
        local results = wait_until(function ()
            later:wait("key")
            sem:post("key")
        end)
        assert.is_number(results[1])
        later:post("key")
        local rw = assert(require("resty.rwlock"):new("spec_wait"))
        rw:rdlock("key")
        assert.is_number(wait_until(function () rw:unlock() end)[1])
        dict:set("key", "value")
        assert.is_number(wait_until(function () dict:delete("key") end)[1])
    end)

    it("reports a deadlock as lock does", function ()
        local a, b = new { timeout = 10 }, new { timeout = 10 }
        local results
        run(function ()
            a:lock("a")
            sleep(0.02)
            assert.is_number((a.lock(new { timeout = 10 }, "b")))
        end, function ()
            b:lock("b")
            sleep(0.05)
            results = pack(new { timeout = 10 }:wait("a"))
            b:unlock()
            a:unlock()
        end)
        assert.same({ nil, "deadlock", { "a", "b" } }, { results[1], results[2], results[3] })
    end)

    it("raises errors that report the caller's line", function ()
        local lock = new()
        assert.same(pack(nil, "nil key"), pack(lock:wait()))
        assert.same(pack(nil, "empty key"), pack(lock:wait("")))
        assert.equal('bad option "timeout" to wait: expected a number, 0 or more, got "5"',
                     expect.blamed(function () lock:wait("key", { timeout = "5" }) end))
        assert.equal('unknown option "exptime" to wait: expected timeout',
                     expect.blamed(function () lock:wait("key", { exptime = 5 }) end))
        assert.equal("bad receiver of wait: expected a lock object, got nil; call it as obj:wait(...)",
                     expect.blamed(function () lock.wait(nil, "key") end))
    end)

    describe("across processes", function ()
        it("all of ten waiting processes continue when the holder releases the lock", function ()
            expect.in_time(function ()
                local children = {}
                local holder = new { exptime = 600 }
                holder:lock("key")
                for i = 1, 10 do
                    children[i] = process.start(WATCHERS:format(20))
                end
                await_waiters(200)
                local released, latest = now(), 0
                holder:unlock()
                for i = 1, 10 do
                    assert.equal("waiting", children[i]:hear())
                    local bad, last = children[i]:hear():match("(%S+)\t(%S+)")
                    assert.equal("0", bad)
                    latest = math.max(latest, tonumber(last))
                end
                assert.equal(0, dict:waiters("key"))
                return latest - released < AT_ONCE
            end)
        end)

        it("all of them continue when the holder is killed", function ()
            expect.in_time(function ()
                local holder = process.start_holder('require("resty.lock"):new("spec_wait", { exptime = 0 })',
                                                    "lock", "unlock")
                local child = process.start(WATCHERS:format(20))
                await_waiters(20)
                local killed = now()
                holder:kill()
                assert.equal("waiting", child:hear())
                local bad, last = child:hear():match("(%S+)\t(%S+)")
                assert.equal("0", bad)
                return tonumber(last) - killed < AT_ONCE
            end)
        end)
    end)
end)
