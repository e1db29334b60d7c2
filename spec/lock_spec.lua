-- Tests lock/options.lua, lock/settings.lua and program.lua, and the methods of resty.lock.

local expect, fixture, pack, process = require "spec.support" ("expect", "fixture", "pack", "process")
local hosts = require "resty.holdfast.host"
local none = require "resty.holdfast.host.none"
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"


-- Sets a host whose waits raise an error, for code that must not wait.
local function forbid_waiting()
    local function fail() error("this must not wait") end
    hosts.set_host { name = "forbidden", sleep = fail, wait = fail, is_yieldable = fail }
end


describe("lock", function ()
    local dict, new = fixture.locks(resty_lock, "spec_locks")

    -- Returns an object that has lost the key, and the object that holds the key now.
    local function lost_to_another()
        local first, second = new(), new()
        first:lock("key", { exptime = 0.01 })
        none.sleep(0.02)
        assert.equal(0, second:lock("key"))
        return first, second
    end

    -- Returns the log of a process that runs `source` three times.
    local function told(source)
        return (process.run([[
            require("resty.shdict").open("spec_locks", { size = "1m" })
            local resty_lock = require "resty.lock"
            local function new(opts) return assert(resty_lock:new("spec_locks", opts)) end
            for i = 1, 3 do ]] .. source .. " end", { stderr = true }))
    end

    describe("new", function ()
        it("refuses to be called with a dot, and reports the caller's line", function ()
            assert.matches("^bad call to new: call it as resty_lock:new%(", expect.blamed(function ()
                local made = resty_lock.new("spec_locks", { timeout = 1 })
                return made
            end))
        end)

        it("has the defaults of lua-resty-lock", function ()
            local lock = new()
            assert.same({ 30, 5, 0.001, 2, 0.5 }, { lock.exptime, lock.timeout, lock.step, lock.ratio, lock.max_step })
        end)

        it("clamps timeout to exptime and step to timeout, if they are given, as lua-resty-lock does", function ()
            local lock = new { exptime = 0.2, timeout = 10, step = 1 }
            assert.same({ 0.2, 0.2, 0.2 }, { lock.exptime, lock.timeout, lock.step })
            lock = new { exptime = 0.2, step = 1 }
            assert.same({ 5, 1 }, { lock.timeout, lock.step })
            lock = new { timeout = 0.0005 }
            assert.equal(0.001, lock.step)
        end)

        it("returns lua-resty-lock's error first if no dictionary can have the name", function ()
            for _, name in ipairs { "", "a\0b", ("x"):rep(300) } do
                local lock, err = resty_lock:new(name)
                assert.is_nil(lock)
                assert.matches("^dictionary not found: .*dictionary name", err)
            end
        end)

        it("accepts what lua-resty-lock accepts: numbers as text, false for nil, a negative timeout", function ()
            forbid_waiting()
            local lock = new { exptime = "20", timeout = "2.5", step = 0.01, ratio = "-1", max_step = "0x10" }
            assert.same({ 20, 2.5, 0.01, 0, 16 }, { lock.exptime, lock.timeout, lock.step, lock.ratio, lock.max_step })
            lock = new { exptime = false, timeout = false, step = false, ratio = false, max_step = false }
            assert.same({ 30, 5, 0.001, 2, 0.5 }, { lock.exptime, lock.timeout, lock.step, lock.ratio, lock.max_step })
            assert.equal(30, new({ exptime = 30LL }).exptime)
            lock = new { exptime = math.huge, timeout = math.huge }
            assert.same({ math.huge, math.huge }, { lock.exptime, lock.timeout })
            assert.equal(0, lock:lock("key"))
            assert.equal(0, dict:ttl("key"))
            assert.same({ nil, "timeout" }, { new({ timeout = -1 }):lock("key") })
            assert.equal(0, new { ratio = math.huge }:lock("other"))
            assert.equal(5, new({ step = math.huge }).step)
        end)

        it("reports once which options it ignores, and continues #local", function ()
            assert.equal([[
holdfast: bad options to new: expected a table, got number; ignored
holdfast: bad options to new: expected a table, got string; ignored
holdfast: unknown option "exptiem" to new: expected block, cluster, deadlock, exptime, fair, log_timeouts, ]]
                .. [[
max_step, on_lost, ratio, renew, step, timeout or wait
holdfast: bad option "step" to new: -1; ignored
holdfast: bad option "ratio" to new: table; ignored
holdfast: bad option "max_step" to new: 0; ignored
holdfast: bad option "timeout" to new: nan; ignored
]], told [[
                    assert(new(5):lock("one" .. i) == 0)
                    assert(new("timeout=5"):lock("two" .. i) == 0)
                    assert(new({ exptiem = 5 }):lock("three" .. i) == 0)
                    assert(new({ step = -1 }):lock("four" .. i) == 0)
                    assert(new({ ratio = {} }):lock("five" .. i) == 0)
                    assert(new({ max_step = 0 }):lock("six" .. i) == 0)
                    assert(new({ timeout = tonumber("nan") }):lock("seven" .. i) == 0)
                ]])
        end)

        it("reports once that a timeout with an exptime of 0 means no wait, as in lua-resty-lock", function ()
            local text = 'holdfast: bad option "timeout" to %s: %s is limited to exptime, which is 0, so there '
                .. "is no wait; omit timeout to wait for 5 seconds, or use exptime = math.huge, which never "
                .. "expires either\n"
            assert.equal(text:format("new", 3) .. text:format("lock", 0.5), told [[
                local holder = new()
                assert(holder:lock("key"))
                local lock = new({ exptime = 0, timeout = 3 })
                assert(lock.timeout == 0 and select(2, lock:lock("key")) == "timeout")
                assert(select(2, new({ exptime = 0 }):lock("key", { timeout = 0.5 })) == "timeout")
                new({ exptime = 0, timeout = 0 })
                new({ exptime = math.huge, timeout = 3 })
                new({ exptime = 0 }):lock("other" .. i, { timeout = 1, exptime = 5 })
                assert(holder:unlock())
            ]])
        end)

        it("refuses options of the wrong type or value, and reports the caller's line", function ()
            local message = expect.refusal_of(resty_lock, "spec_locks")
            for _, name in ipairs { "exptime", "timeout" } do
                local start = 'bad option "' .. name .. '" to new: expected a number, 0 or more, got '
                assert.equal(start .. '"soon"', message { [name] = "soon" })
                assert.equal(start .. "table", message { [name] = {} })
                assert.equal(start .. "boolean", message { [name] = true })
            end
            assert.equal('bad option "exptime" to new: expected a number, 0 or more, got -1',
                         message { exptime = -1 })
            assert.equal('bad option "wait" to new: expected "wake" or "poll", got "sleep"',
                         message { wait = "sleep" })
            assert.equal('bad option "wait" to new: expected "wake" or "poll", got 1', message { wait = 1 })
            for value, shown in pairs { yes = '"yes"', [1] = "1", [{}] = "table" } do
                assert.equal('bad option "block" to new: expected a boolean, got ' .. shown,
                             message { block = value })
            end
        end)
    end)

    describe("lock", function ()
        it("takes a free lock immediately, and returns 0 seconds as its only result", function ()
            forbid_waiting()
            assert.same(pack(0), pack(new():lock("key")))
        end)

        it("appears as true in the dictionary, with the lock's remaining time as its ttl", function ()
            local lock = new { exptime = 20 }
            lock:lock("key")
            assert.is_true(dict:get("key"))
            assert.same(pack(false, "exists", false), pack(dict:add("key", 1)))
            local left = dict:ttl("key")
            assert.is_true(left > 10 and left <= 21.1, left)
            lock:unlock()
            assert.is_nil(dict:get("key"))
        end)

        it("returns \"locked\" if the object already holds a lock, whatever the key", function ()
            local lock = new()
            lock:lock("key")
            assert.same({ nil, "locked" }, { lock:lock("key") })
            assert.same({ nil, "locked" }, { lock:lock("other") })
            assert.is_nil(dict:get("other"))
            assert.equal(1, lock:unlock())
        end)

        it("treats false as no key, as lua-resty-lock does", function ()
            assert.same(pack(nil, "nil key"), pack(new():lock(false)))
        end)

        it("never waits with timeout 0", function ()
            forbid_waiting()
            local first, second = new(), new { timeout = 0 }
            first:lock("key")
            assert.same({ nil, "timeout" }, { second:lock("key") })
        end)

        for _, wait in ipairs { "wake", "poll" } do
            it("gives up after its timeout, and not earlier (" .. wait .. ")", function ()
                local first, second = new(), new { timeout = 0.05, wait = wait }
                first:lock("key")
                local start = none.now()
                assert.same({ nil, "timeout" }, { second:lock("key") })
                assert.is_true(none.now() - start >= 0.05)
                assert.same({ nil, "unlocked" }, { second:unlock() })
                first:unlock()
                assert.equal(0, second:lock("key"))
            end)
        end

        it("accepts exptime and timeout for one call", function ()
            forbid_waiting()
            local lock = new()
            assert.equal(0, lock:lock("key", { exptime = 50 }))
            assert.is_true(dict:ttl("key") > 40)
            assert.same({ nil, "timeout" }, { new():lock("key", { timeout = 0 }) })
            lock:unlock()
            lock:lock("key")
            assert.is_true(dict:ttl("key") <= 31.1)
        end)

        it("reports unknown options of a call once, and takes the lock #local", function ()
            assert.equal([[
holdfast: bad options to lock: expected a table, got number; ignored
holdfast: unknown option "what" to lock: expected exptime, timeout or why
]], told [[
                assert(new():lock("one" .. i, 5) == 0)
                assert(new():lock("two" .. i, { what = "x" }) == 0)
            ]])
        end)

        it("refuses invalid times for one call, and reports the caller's line", function ()
            local lock = new()
            local function message(opts)
                return expect.blamed(function ()
                    local elapsed = lock:lock("key", opts)
                    return elapsed
                end)
            end
            assert.equal('bad option "timeout" to lock: expected a number, 0 or more, got table',
                         message { timeout = {} })
            assert.equal('bad option "exptime" to lock: expected a number, 0 or more, got -1',
                         message { exptime = -1 })
            assert.equal(0, lock:lock("key", { exptime = "1", timeout = -1 }))
        end)
    end)

    describe("trylock", function ()
        it("takes a free lock, and returns an error for a held lock", function ()
            forbid_waiting()
            local first, second = new(), new()
            assert.same(pack(true), pack(first:trylock("key")))
            assert.same(pack(nil, "held"), pack(second:trylock("key")))
            assert.same(pack(nil, "locked"), pack(first:trylock("other")))
            assert.equal(1, first:unlock())
            assert.is_true(second:trylock("key"))
        end)

        it("accepts an exptime, and refuses keys and options as lock does", function ()
            local lock = new()
            assert.same({ nil, "nil key" }, { lock:trylock(nil) })
            assert.same({ nil, "empty key" }, { lock:trylock("") })
            assert.error_matches(function () lock:trylock("key", { timeout = 1 }) end,
                                 '^unknown option "timeout" to trylock: expected exptime or why$')
            assert.is_true(lock:trylock("key", { exptime = 50 }))
            assert.is_true(dict:ttl("key") > 40)
        end)
    end)

    describe("unlock", function ()
        it("returns 1, or \"unlocked\" if there is nothing to unlock", function ()
            local lock = new()
            assert.same(pack(nil, "unlocked"), pack(lock:unlock()))
            lock:lock("key")
            assert.same(pack(1), pack(lock:unlock()))
            assert.same(pack(nil, "unlocked"), pack(lock:unlock()))
        end)

        it("releases the object's lock, whatever its arguments", function ()
            local lock = new()
            lock:lock("key")
            assert.equal(1, lock:unlock("other"))
            assert.is_nil(dict:get("key"))
        end)

        it("succeeds after the lock has expired if nobody took it", function ()
            local lock = new()
            lock:lock("key", { exptime = 0.01 })
            none.sleep(0.02)
            assert.equal(1, lock:unlock())
        end)

        it("never releases the next holder's lock", function ()
            local first, second = lost_to_another()
            assert.same(pack(nil, "not owner"), pack(first:unlock()))
            assert.same(pack(nil, "unlocked"), pack(first:unlock()))
            assert.is_true(dict:get("key"))
            assert.equal(0, first:lock("other"))
            assert.equal(1, second:unlock())
        end)

        it("detects that the lock was deleted or flushed", function ()
            local lock = new()
            lock:lock("key")
            dict:delete("key")
            assert.same(pack(nil, "not owner"), pack(lock:unlock()))
            lock:lock("key")
            dict:flush_all()
            assert.same(pack(nil, "not owner"), pack(lock:unlock()))
        end)
    end)

    describe("expire", function ()
        it("restarts the time that was given to new or to the call", function ()
            local lock = new { exptime = 20 }
            lock:lock("key", { exptime = 5 })
            assert.same(pack(true), pack(lock:expire()))
            assert.is_true(dict:ttl("key") > 10)
            assert.same(pack(true), pack(lock:expire(100)))
            assert.is_true(dict:ttl("key") > 90)
            assert.same(pack(true), pack(lock:expire(0)))
            assert.equal(0, dict:ttl("key"))
            lock:unlock()
            assert.same(pack(nil, "unlocked"), pack(lock:expire(1)))
            assert.same(pack(nil, "unlocked"), pack(new():expire()))
        end)

        it("returns an error if the lock now has a different holder", function ()
            local first = lost_to_another()
            assert.same(pack(nil, "not owner"), pack(first:expire(100)))
            assert.is_true(dict:ttl("key") <= 30)
        end)

        it("returns an error, as lua-resty-lock does, if the lock has lapsed and nobody holds it #local", function ()
            for _, lose in ipairs {
                function () none.sleep(0.02) end,
                function () dict:delete("key") end,
                function () dict:flush_all() end,
            } do
                local lock, other = new(), new()
                lock:lock("key", { exptime = 0.01 })
                lose()
                assert.same(pack(nil, "not found"), pack(lock:expire(100)))
                assert.equal(0, other:lock("key"))
                assert.same(pack(nil, "not owner"), pack(lock:expire(100)))
                assert.is_true(dict:ttl("key") <= 30)
                other:unlock()
                lock:unlock()
            end
        end)

        it("accepts numbers as new does: as text, from the FFI, and NaN for no limit", function ()
            local lock = new { exptime = 40 }
            lock:lock("key")
            for time, least in pairs { ["20"] = 19, [5LL] = 4, [0 / 0 .. ""] = 39 } do
                assert.is_true(lock:expire(time))
                local left = lock:remaining()
                assert.is_true(left > least and left < least + 1.5, left)
            end
            assert.is_true(lock:expire(10))
            assert.is_true(lock:expire(0 / 0))
            assert.is_true(lock:remaining() > 39)
        end)

        it("refuses invalid times, and reports the caller's line", function ()
            local lock = new()
            lock:lock("key")
            assert.is_true(lock:expire(false))
            assert.is_true(lock:expire(math.huge))
            for _, time in ipairs { -1, "x", {}, true } do
                assert.matches("^bad time to expire: expected a number, 0 or more, got", expect.blamed(function ()
                    local done = lock:expire(time)
                    return done
                end))
            end
        end)
    end)

    describe("token", function ()
        it("grows with every grant of its key, is unique, and is nil after the lock has ended", function ()
            assert.same(pack(nil, "unlocked"), pack(new():token()))
            local last, seen = {}, {}
            for i = 1, 3000 do
                local key = "key" .. i % 3
                local lock = new()
                lock:lock(key)
                local token = lock:token()
                assert.is_number(token)
                assert.is_true(token > (last[key] or 0))
                assert.is_nil(seen[token])
                last[key], seen[token] = token, true
                lock:unlock()
                assert.same(pack(nil, "unlocked"), pack(lock:token()))
            end
        end)
    end)

    describe("an object that repeats a key #local", function ()
        -- Returns an object that has taken and released the key several times.
        local function repeating(opts)
            local lock = new(opts)
            for i = 1, 10 do  -- a lock that has used up its block of tokens is taken under the mutex
                assert.equal(0, lock:lock("key"))
                assert.equal(1, lock:unlock())
                if i >= 4 and lock.bound then
                    return lock
                end
            end
            error("the object has not noticed that it repeats the key")
        end

        it("excludes others, and is excluded", function ()
            local lock, other = repeating { timeout = 0 }, new { timeout = 0 }
            assert.equal(0, lock:lock("key"))
            assert.same(pack(nil, "timeout"), pack(other:lock("key")))
            assert.same(pack(nil, "locked"), pack(lock:lock("key")))
            assert.equal(1, lock:unlock())
            assert.same(pack(nil, "unlocked"), pack(lock:unlock()))
            assert.equal(0, other:lock("key"))
            assert.same(pack(nil, "timeout"), pack(lock:lock("key")))
            assert.same(pack(nil, "held"), pack(lock:trylock("key")))
            assert.equal(1, other:unlock())
            for _ = 1, 3 do
                assert.is_true(lock:trylock("key"))
                assert.same(pack(nil, "held"), pack(other:trylock("key")))
                assert.equal(1, lock:unlock())
            end
            assert.equal(0, lock:lock("key"))
            assert.is_true(dict:get("key"))
        end)

        it("may take a different key in between", function ()
            local lock = repeating()
            for _ = 1, 3 do
                for _, key in ipairs { "other", "key", "key", "other", "other", "key", "third" } do
                    assert.equal(0, lock:lock(key))
                    assert.is_true(dict:get(key))
                    assert.equal(1, lock:unlock())
                    assert.is_nil(dict:get(key))
                end
            end
        end)

        it("gets growing tokens, and the exptime of new or of the call", function ()
            local lock, last = repeating { exptime = 50 }, 0
            for i = 1, 3000 do
                assert.equal(0, lock:lock("key", i % 10 == 0 and { exptime = 500 } or nil))
                local token = lock:token()
                if token <= last or i % 100 == 0 and math.abs(lock:remaining() - 500) > 2
                   or i % 100 == 1 and math.abs(lock:remaining() - 50) > 2 then
                    error("grant " .. i .. ": " .. token .. ", " .. lock:remaining())
                end
                last = token
                assert.equal(1, lock:unlock())
            end
        end)

        it("finds a lock that was deleted, overwritten, flushed or evicted in the meantime", function ()
            local lock, other = repeating(), new()
            for _, change in ipairs {
                function () dict:delete("key") end,
                function () dict:set("key", 1, 0.001) none.sleep(0.02) end,
                function () dict:flush_all() end,
                function () for i = 1, 3000 do dict:set("value " .. i, ("x"):rep(i % 700)) end end,
                function () dict:delete("key") other:lock("key") other:unlock() end,
            } do
                for _ = 1, 3 do
                    change()
                    assert.equal(0, lock:lock("key"))
                    assert.is_true(dict:get("key"))
                    assert.equal(1, lock:unlock())
                    assert.is_nil(dict:get("key"))
                end
            end
            lock:lock("key")
            dict:flush_all()
            assert.same(pack(nil, "not owner"), pack(lock:unlock()))
        end)

        it("is released by the collector if it holds the lock, and only then", function ()
            assert.equal(0, repeating():lock("key"))
            fixture.collect()
            assert.is_nil(dict:get("key"))
            repeating()
            local other = new()
            other:lock("key")
            fixture.collect()
            assert.is_true(dict:get("key"))
        end)

        it("is not used by a finaliser after the collector has released its grant", function ()
            local taken, held
            do
                local lock = repeating()
                local proxy = newproxy(true)
                getmetatable(proxy).__gc = function ()
                    taken, held = lock:lock("key"), dict:get("key")
                end
            end
            fixture.collect()
            assert.equal(0, taken)
            assert.is_true(held)
            fixture.collect()
            assert.is_nil(dict:get("key"))
        end)

        it("works in a forked child", function ()
            assert.equal("0\t1\tnil\tnot owner\n", process.run [[
                local lock = require("resty.lock"):new("spec_locks")
                for _ = 1, 4 do lock:lock("key") lock:unlock() end
                lock:lock("key")
                local ffi = require "ffi"
                ffi.cdef "int fork(void); int waitpid(int, int *, int); void _exit(int);"
                local child = ffi.C.fork()
                if child == 0 then
                    local ok, err = lock:unlock()
                    local other = require("resty.lock"):new("spec_locks")
                    for _ = 1, 4 do other:lock("mine") other:unlock() end
                    say(other:lock("mine"), other:unlock(), ok, err)
                    ffi.C._exit(0)
                end
                ffi.C.waitpid(child, nil, 0)
            ]])
        end)
    end)

    describe("the collector", function ()
        it("releases the lock of an unreferenced object", function ()
            new():lock("key")
            fixture.collect()
            assert.is_nil(dict:get("key"))
        end)

        it("never releases a lock that now has a different holder", function ()
            local lost, next_one = lost_to_another()
            local weak = setmetatable({ lost }, { __mode = "v" })
            lost = nil
            fixture.collect()
            assert.is_nil(weak[1])
            assert.is_true(dict:get("key"))
            assert.equal(1, next_one:unlock())
            assert.is_nil(lost)
        end)

        it("does not release a lock that was unlocked and then locked by a different object", function ()
            local first, second = new(), new()
            first:lock("key")
            first:unlock()
            second:lock("key")
            first = nil
            fixture.collect()
            assert.is_true(dict:get("key"))
            assert.is_nil(first)
        end)

        it("releases locks at the end of the process", function ()
            process.run [[
                local lock = require("resty.lock"):new("spec_locks", { exptime = 0 })
                lock:lock("key")
            ]]
            assert.is_nil(dict:get("key"))
        end)
    end)

    describe("across processes", function ()
        local function start_holder()
            return process.start_holder('require("resty.lock"):new("spec_locks")', "lock", "unlock")
        end

        -- Records the result of each wait in the blocking host, and calls on_wait before the first wait.
        local function watch_waits(on_wait)
            local answers = {}
            hosts.set_host {
                name = "watched",
                sleep = none.sleep,
                wait = function (waiter, seconds)
                    if #answers == 0 then
                        on_wait()
                    end
                    answers[#answers + 1] = none.wait(waiter, seconds) or false
                    return answers[#answers]
                end,
            }
            return answers
        end

        it("excludes other processes #local", function ()
            start_holder()
            assert.same({ nil, "timeout" }, { new({ timeout = 0.02 }):lock("key") })
            assert.same({ nil, "held" }, { new():trylock("key") })
            assert.equal(0, new():lock("another key"))
        end)

        it("wakes its waiter when it is released", function ()
            expect.in_time(function ()
                local child = start_holder()
                local answers = watch_waits(function () child:say("unlock") end)
                local lock = new { timeout = 20 }
                assert.is_true(lock:lock("key") > 0)
                assert.equal("1", child:hear())
                hosts.set_host(nil)
                lock:unlock()
                return answers[#answers] -- true only if the release ended the wait
            end)
        end)

        it("is taken over immediately when its holder is killed", function ()
            local child = start_holder()
            watch_waits(function () child:kill(process.KILL) end)
            local lock = new { exptime = 30, timeout = 30 }
            local elapsed = lock:lock("key")
            assert.is_true(elapsed < 15, "the lock became free only because of its exptime")
            assert.equal(1, lock:unlock())
        end)

        it("is taken over after its holder was killed, even if the caller must not wait", function ()
            local child = start_holder()
            for _, raises in ipairs { false, true } do
                local function say_no() return false, "no", raises end
                hosts.set_host { name = "mine", sleep = error, is_yieldable = say_no }
                local ok, elapsed, err = pcall(resty_lock.lock, new(), "key")
                assert.equal(not raises, ok)
                assert.equal(raises and "no" or "cannot wait here (host mine): no", ok and err or elapsed)
            end
            child:kill(process.KILL)
            child:wait()
            local lock = new()
            assert.equal(0, lock:lock("key"))
            hosts.set_host(nil)
            assert.equal(1, lock:unlock())
        end)

        it("is taken from a stopped holder only after it has expired", function ()
            expect.in_time(function ()
                dict:flush_all()
                local child = process.start [[
                    local lock = require("resty.lock"):new("spec_locks", { exptime = 0.3 })
                    say(tostring(lock:lock("key")))
                    hear()
                    say(tostring(select(2, lock:unlock())))
                    hear()
                ]]
                assert.equal("0", child:hear())
                child:kill(process.STOP)
                local lock = new()
                local elapsed = lock:lock("key")
                child:kill(process.CONT)
                child:say("unlock")
                assert.equal("not owner", child:hear())
                assert.is_true(dict:get("key"))
                return elapsed > 0
            end)
        end)

        it("is not granted twice when a process forks after a wake-up, before the waiter runs", function ()
            local text = process.run(process.FORK .. [[
                local resty_lock = require "resty.lock"
                local scheduler = require "resty.holdfast.scheduler"
                local dict = require("resty.shdict").shared.spec_locks
                local first, second = resty_lock:new("spec_locks"), resty_lock:new("spec_locks")
                local pid
                first:lock("key")
                scheduler.spawn(function ()
                    local elapsed, err = second:lock("key")
                    local alone = dict:add("inside", true)
                    scheduler.sleep(0.02)
                    dict:delete("inside")
                    say(pid == 0 and "child" or "parent", elapsed > 0, err, alone, second:unlock())
                    if pid == 0 then
                        ffi.C._exit(0)
                    end
                end)
                scheduler.spawn(function ()
                    scheduler.sleep(0.02)
                    first:unlock()
                    scheduler.sleep(0) -- from now on, both tasks are ready, and this task is first
                    pid = ffi.C.fork()
                end)
                scheduler.run()
                ffi.C.waitpid(pid, nil, 0)
            ]])
            -- The order may differ, because the parent may be interrupted just when it should be first.
            local lines = { text:match("^(.-\n)(.-\n)$") }
            table.sort(lines)
            assert.equal("child\ttrue\tnil\ttrue\t1\nparent\ttrue\tnil\ttrue\t1\n", table.concat(lines), text)
        end)
    end)

    for _, wait in ipairs { "wake", "poll" } do
        it("reports that its dictionary was removed while it waits by " .. wait, function ()
            assert(shdict.open("spec_removed", { size = "64k" }))
            local first = assert(resty_lock:new("spec_removed"))
            first:lock("key")
            local waiting = assert(resty_lock:new("spec_removed", { wait = wait }))
            local function remove_and_sleep(seconds)
                shdict.remove("spec_removed")
                none.sleep(math.min(seconds, 0.001))
            end
            hosts.set_host {
                name = "remover",
                sleep = remove_and_sleep,
                wait = function (_, seconds) remove_and_sleep(seconds) end,
            }
            assert.same(pack(nil, "dictionary not found"), pack(waiting:lock("key")))
        end)
    end

    it("HOLDFAST_WAIT sets how new objects wait, and refuses unknown values", function ()
        local TRY = [[
            local ok, lock = pcall(require, "resty.lock")
            say(ok and lock:new("spec_locks").settings.wait or lock)
        ]]
        assert.equal("wake\n", (process.run(TRY, { env = { HOLDFAST_WAIT = false } })))
        assert.equal("wake\n", (process.run(TRY, { env = { HOLDFAST_WAIT = "" } })))
        assert.equal("poll\n", (process.run(TRY, { env = { HOLDFAST_WAIT = "poll" } })))
        assert.matches('bad HOLDFAST_WAIT "pool": expected "wake" or "poll"',
                       (process.run(TRY, { env = { HOLDFAST_WAIT = "pool" } })), 1, true)
    end)

    it("one object that two coroutines use never holds two locks", function ()
        local first, shared = new(), new()
        first:lock("key")
        hosts.set_host { name = "manual", sleep = coroutine.yield, wait = coroutine.yield }
        local result
        local waiting = coroutine.wrap(function () result = pack(shared:lock("key")) end)
        waiting()
        assert.equal(0, shared:lock("other"))
        first:unlock()
        waiting()
        assert.same(pack(nil, "locked"), result)
        assert.is_nil(dict:get("key"))
        assert.equal(1, shared:unlock())
        assert.is_nil(dict:get("other"))
    end)
end)
