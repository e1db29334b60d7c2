-- Tests lock/lease_pool.lua. Repeats the test suite of lua-resty-lock 0.09 (t/sanity.t), case by case, with wait =
-- "poll". lock_spec.lua has the cases 1 to 3, 11, and the first of the two cases 13: the collector, lock and unlock,
-- timeouts, a timeout of 0, and no key.
--
-- Cases 4 to 7 compare sums of sleeps, which take longer on a busy machine. Here, only the sleeps advance the clock, so
-- the sums are exact. The cases also run in real time. There, the sum must be one of the sums that the steps can
-- produce.

local hosts = require "resty.holdfast.host"
local process = require "spec.support.process"
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"

local POLL = { HOLDFAST_WAIT = "poll" }

-- Defines ngx.say and the suite's dictionary.
local PREAMBLE = [[
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
require("resty.shdict").open("cache_locks", { size = "100k" })
local function ngx_say(...)
    local parts = { ... }
    for i = 1, select("#", ...) do parts[i] = tostring(parts[i]) end
    say(table.concat(parts))
end
]]


local function run(source, env)
    return (process.run(PREAMBLE .. source, { env = env or POLL, stderr = true }))
end


local function lines(...)
    return table.concat({ ... }, "\n") .. "\n"
end


-- Returns the possible sums of the steps, which are `step`, step * ratio, and so on, up to `max_step`.
local function sums(step, ratio, max_step)
    local result, sum = {}, 0
    while sum < 5 do
        sum = sum + step
        result[tostring(sum)] = true
        step = math.min(math.max(0.001, step * ratio), 5 - sum, max_step)
    end
    return result
end


describe("t/sanity.t", function ()
    setup(function ()
        shdict.open("cache_locks", { size = "100k" })
    end)

    teardown(function ()
        shdict.remove("cache_locks")
    end)

    after_each(function ()
        hosts.set_host(nil)
        process.clean_up()
    end)

    -- Waits for a lock that is released after 0.1 s, by a clock that only the sleeps advance.
    local function wait_for_release(opts)
        local time, steps = 0, {}
        local holder = resty_lock:new("cache_locks")
        assert.equal(0, holder:lock("blah"))
        hosts.set_host {
            name = "virtual",
            sleep = function (seconds)
                time = time + seconds
                steps[#steps + 1] = tostring(seconds)
                if time >= 0.1 then
                    holder:unlock()
                end
            end,
        }
        opts.wait = "poll"
        local lock = resty_lock:new("cache_locks", opts)
        local elapsed = lock:lock("blah")
        assert.equal(1, lock:unlock())
        return tostring(elapsed), table.concat(steps, " ")
    end

    local WAITED = [[
        scheduler.spawn(function ()
            local lock = resty_lock:new("cache_locks"%s)
            local elapsed, err = lock:lock("blah")
            ngx_say("sub thread: lock: ", elapsed, " ", err)
            scheduler.sleep(0.1)
            %s
        end)
        scheduler.spawn(function ()
            local lock = resty_lock:new("cache_locks", { %s })
            local elapsed, err = lock:lock("blah")
            ngx_say("main thread: lock: ", elapsed, " ", err)
            ngx_say("main thread: unlock: ", lock:unlock())
        end)
        scheduler.run()
    ]]
    local UNLOCK = 'ngx_say("sub thread: unlock: ", lock:unlock("blah"))'

    local CASES = {
        { "4: waited locks", {}, "", "0.127", "0.001 0.002 0.004 0.008 0.016 0.032 0.064" },
        { "5: waited locks (custom step)", { step = 0.01 }, "step = 0.01", "0.15", "0.01 0.02 0.04 0.08" },
        { "6: waited locks (custom ratio)", { ratio = 3 }, "ratio = 3", "0.121", "0.001 0.003 0.009 0.027 0.081" },
        { "7: waited locks (custom max step)", { max_step = 0.05 }, "max_step = 0.05", "0.113",
          "0.001 0.002 0.004 0.008 0.016 0.032 0.05" },
    }
    for _, case in ipairs(CASES) do
        local name, opts, text, elapsed, steps = unpack(case)

        it(name .. ", exactly", function ()
            assert.same({ elapsed, steps }, { wait_for_release(opts) })
        end)

        it(name .. ", in real time", function ()
            local waited = run(WAITED:format("", UNLOCK, text)):match(
                "^sub thread: lock: 0 nil\nsub thread: unlock: 1\n" ..
                "main thread: lock: (%S+) nil\nmain thread: unlock: 1\n$")
            local possible = sums(opts.step or 0.001, opts.ratio or 2, opts.max_step or 0.5)
            assert.is_true(possible[waited], waited)
        end)
    end

    it("no step after the first is below 1 ms, whatever the ratio", function ()
        local _, steps = wait_for_release { step = 0.095, ratio = 0.001 }
        assert.equal("0.095 0.001 0.001 0.001 0.001 0.001", steps)
        _, steps = wait_for_release { step = 0, ratio = 90 }
        assert.equal("0 0.001 0.09 0.5", steps)
    end)

    it("the last step ends with the timeout", function ()
        local holder = resty_lock:new("cache_locks")
        holder:lock("blah")
        local steps = {}
        hosts.set_host { name = "virtual", sleep = function (seconds) steps[#steps + 1] = tostring(seconds) end }
        local lock = resty_lock:new("cache_locks", { timeout = 0.01, wait = "poll" })
        assert.same({ nil, "timeout" }, { lock:lock("blah") })
        assert.equal("0.001 0.002 0.004 0.003", table.concat(steps, " "))
        steps = {}
        assert.same({ nil, "timeout" }, { lock:lock("blah", { timeout = 0.0005 }) })
        assert.equal("0.0005", table.concat(steps, " "))
        assert.equal(1, holder:unlock())
    end)

    it("8: lock expired by itself", function ()
        local waited = run(WAITED:format(", { exptime = 1 }", "", "max_step = 0.05")):match(
            "^sub thread: lock: 0 nil\nmain thread: lock: (%S+) nil\nmain thread: unlock: 1\n$")
        assert.is_true(sums(0.001, 2, 0.05)[waited], waited)
    end)

    local DEBUG = { HOLDFAST_WAIT = "poll", HOLDFAST_DEBUG = "1" }

    it("9: ref & unref (1 at most)", function ()
        assert.equal(lines("1", "0", "1", "0"), run([[
            local memo = resty_lock.memo
            local ref = resty_lock.ref_obj("foo")
            ngx_say(#memo)
            resty_lock.unref_obj(ref)
            ngx_say(#memo)
            ref = resty_lock.ref_obj("bar")
            ngx_say(#memo)
            resty_lock.unref_obj(ref)
            ngx_say(#memo)
        ]], DEBUG))
    end)

    it("10: ref & unref (2 at most)", function ()
        assert.equal(lines("1", "2", "2", "2", "2", "2", "1", "1"), run([[
            local memo = resty_lock.memo
            for i = 1, 2 do
                local refs = {}
                refs[1] = resty_lock.ref_obj("foo")
                ngx_say(#memo)
                refs[2] = resty_lock.ref_obj("bar")
                ngx_say(#memo)
                resty_lock.unref_obj(refs[1])
                ngx_say(#memo)
                resty_lock.unref_obj(refs[2])
                ngx_say(#memo)
            end
        ]], DEBUG))
    end)

    it("the bookkeeping is shown only when debugging", function ()
        assert.equal("nil\tnil\tnil\n", run "say(resty_lock.memo, resty_lock.ref_obj, resty_lock.unref_obj)")
        assert.equal("table\n", run("ngx = { config = { debug = true } } package.loaded['resty.lock'] = nil\n"
                                    .. "say(type(require('resty.lock').memo))"))
    end)

    it("objects are in memo only after memo is first inspected", function ()
        assert.equal(lines("nil", "1"), run([[
            ngx_say(tostring(resty_lock:new("cache_locks").dict_ref))
            local memo = resty_lock.memo
            local lock = resty_lock:new("cache_locks")
            ngx_say(#memo)
            lock:lock("lock_key")
            lock:unlock()
        ]], DEBUG))
    end)

    it("12: same shdict, multiple locks", function ()
        assert.equal(lines("4"), run([[
            local memo = resty_lock.memo
            local lock1 = resty_lock:new("cache_locks", { timeout = 0.01 })
            for i = 1, 3 do
                lock1:lock("lock_key")
                lock1:unlock()
                collectgarbage("collect")
            end
            local lock2 = resty_lock:new("cache_locks", { timeout = 0.01 })
            local lock3 = resty_lock:new("cache_locks", { timeout = 0.01 })
            lock2:lock("lock_key")
            lock3:lock("lock_key")
            collectgarbage("collect")
            ngx_say(#memo)
            lock2:unlock()
            lock3:unlock()
            collectgarbage("collect")
        ]], DEBUG))
    end)

    -- The times are twice those of the original. A round in which a sleep took so long that a lock expired is repeated.
    it("13: expire()", function ()
        local once = lines("lock 1: expire: nil, unlocked", "lock 1: lock: 0, nil", "lock 1: expire: true, nil",
                           "lock 2: lock: nil, timeout", "lock 1: expire: true, nil", "lock 2: lock: nil, timeout",
                           "lock 2: lock: 0, nil", "lock 2: unlock: 1, nil", "lock 2: expire: nil, unlocked")
        assert.equal(once:rep(2), run [[
            local rounds = 0
            while rounds < 2 do
                local results = {}
                local function say_result(text, ok, err)
                    results[#results + 1] = text .. tostring(ok) .. ", " .. tostring(err)
                end
                local lock1 = resty_lock:new("cache_locks", { timeout = 0, exptime = 0.2 })
                local lock2 = resty_lock:new("cache_locks", { timeout = 0, exptime = 0.2 })
                say_result("lock 1: expire: ", lock1:expire())
                local locked = scheduler.now()
                say_result("lock 1: lock: ", lock1:lock("foo"))
                scheduler.sleep(0.12)
                local prolonged = scheduler.now()
                say_result("lock 1: expire: ", lock1:expire())
                local in_time = scheduler.now() - locked < 0.2
                scheduler.sleep(0.12)
                say_result("lock 2: lock: ", lock2:lock("foo"))
                local prolonged_again = scheduler.now()
                say_result("lock 1: expire: ", lock1:expire(0.4))
                in_time = in_time and scheduler.now() - prolonged < 0.2
                scheduler.sleep(0.3)
                say_result("lock 2: lock: ", lock2:lock("foo"))
                in_time = in_time and scheduler.now() - prolonged_again < 0.4
                scheduler.sleep(0.2)
                say_result("lock 2: lock: ", lock2:lock("foo"))
                say_result("lock 2: unlock: ", lock2:unlock())
                say_result("lock 2: expire: ", lock2:expire(0.2))
                if in_time then
                    rounds = rounds + 1
                    ngx_say(table.concat(results, "\n"))
                end
            end
        ]])
    end)
end)
