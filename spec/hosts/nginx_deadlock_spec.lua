-- Tests deadlocks in nginx. A cycle is reported only if it is certain that the coroutines that took its locks would
-- release them. A lock that is given to a timer or to a different light thread is not part of a cycle.

local fixture, process, site, steps, waits =
    require "spec.support" ("fixture", "process", "site", "steps", "waits")

local NAME = "spec_nginx_deadlock"

local locations = steps.locations_with(NAME, [[
    local function new_rwlock(options) return assert(require("resty.rwlock"):new("spec_nginx_deadlock", options)) end
    -- Returns the result of an object's wait, and releases the lock that the object got.
    local function told(lock, elapsed, err, keys)
        if elapsed then
            lock:unlock()
        end
        return elapsed and "got" or err .. (keys and " " .. table.concat(keys, ",") or "")
    end
    local function try(key, timeout)
        local lock = new { timeout = timeout or 15 }
        return told(lock, lock:lock(key))
    end
    local function try_to_write(key, timeout)
        local lock = new_rwlock { timeout = timeout }
        return told(lock, lock:wrlock(key))
    end
    local function by_calls(lock, method, key, fn)
        assert(lock[method](lock, key))
        fn()
        lock:unlock()
    end
    -- Runs fn twice, each time in its own light thread, and reports both results.
    local function both(fn)
        local threads = { ngx.thread.spawn(fn, "a", "b"), ngx.thread.spawn(fn, "b", "a") }
        local outcomes = {}
        for i = 1, 2 do
            outcomes[i] = tostring(select(2, ngx.thread.wait(threads[i])))
        end
        ngx.print(table.concat(outcomes, "; "))
    end
]])

local it = fixture.it_unless(site.missing())


describe("in nginx", function ()
    local dict, lock = fixture.site(NAME)
    local await = steps.await_in(dict)

    local function await_waiter(key)
        site.await("somebody waits for " .. key, function ()
            local holder = lock:holder(key)
            return holder and holder.waiters > 0
        end)
    end

    -- Lets the request continue some time after "a" has a waiter.
    local function let_continue()
        await_waiter "a"
        waits.sleep(0.1)
        dict:set("go on", true)
    end

    -- A request takes a lock without waiting, and gives it to a background refresh, which unlocks it. Then the request
    -- continues.
    local REVALIDATE = [[
        local function refresh(lock, renews)
            if renews then assert(lock:expire(20) and lock:valid() and lock:remaining() > 0 and lock:token()) end
            UNTIL
            assert(lock:unlock())
        end
        both(function (mine, other)
            local lock = new { timeout = 0, exptime = 20, deadlock = DEADLOCK }
            assert(lock:lock(mine))
            GIVE
            ngx.sleep(0.01)
            local outcome = try(other)
            done "one goes on"
            AFTER
            return outcome
        end)
    ]]

    local WAYS = {
        ["to a timer"] = "ngx.timer.at(0, function () refresh(lock) end)",
        ["to a timer, as its argument"] = "ngx.timer.at(0, function (_, given) refresh(given) end, lock)",
        ["to a timer that uses it"] = "ngx.timer.at(0, function () refresh(lock, true) end)",
        ["to a timer, and looks at it later"] = {
            give = "ngx.timer.at(0, function () refresh(lock) end)",
            after = "assert(select(2, lock:remaining()) == 'unlocked')",
        },
        ["to a light thread"] = "ngx.thread.spawn(refresh, lock)",
        ["to a light thread that uses it"] = "ngx.thread.spawn(refresh, lock, true)",
        ["to a timer that takes it again"] = [[
            ngx.timer.at(0, function ()
                refresh(lock)
                assert(lock:lock(mine, { timeout = 15 }))
                refresh(lock)
            end)]],
        ["to a timer that gives it to another one"] = [[
            ngx.timer.at(0, function ()
                assert(lock:valid())
                ngx.timer.at(0, function () refresh(lock) end)
                assert(try "something else" == "got")
            end)]],
        ["as a share of an rwlock to a timer"] = [[
            local share = new_rwlock()
            assert(share:wrlock(mine .. " too"))
            ngx.timer.at(0, function ()
                assert(share:expire() and share:downgrade())
                refresh(share)
                refresh(lock)
            end)]],
    }

    describe("a lock that a request gives", function ()
        local function outcome(way, deadlock, till)
            local give, after = way.give or way, way.after or ""
            local source = REVALIDATE:gsub("%u%u%u%u+", { GIVE = give, AFTER = after, DEADLOCK = deadlock,
                                                          UNTIL = till or "ngx.sleep(0.1)" })
            local here = site.start { locations = locations { ["/"] = source } }
            local body = here:get("/", 30)
            assert.is_nil(here:log():find("[error]", 1, true))
            return body
        end

        for name, way in pairs(WAYS) do
            it(name .. " is not in a deadlock", function ()
                assert.equal("got; got", outcome(way, "nil"))
            end)
        end

        it("to a timer is not in a deadlock if the object has deadlock = true and the lock was handed over", function ()
            assert.equal("got; got", outcome("assert(lock:hand_over()) " .. WAYS["to a timer"], "true"))
            assert.equal("got; got", outcome("assert(lock:hand_over()) " .. WAYS["to a timer that uses it"], "true"))
        end)

        it("to a timer without hand_over is in a deadlock if the object has deadlock = true", function ()
            assert.matches("deadlock", outcome(WAYS["to a timer"], "true", "await 'one goes on'"))
        end)
    end)

    describe("a cycle of two light threads", function ()
        local CYCLE = [[
            both(function (mine, other)
                local outcome
                hold(mine, function ()
                    done(mine .. " taken", "")
                    await(other .. " taken")
                    outcome = try(other, TIMEOUT)
                end)
                return outcome
            end)
        ]]

        local HOLDS = {
            ["by plain calls"] = [[
                local function hold(key, fn) by_calls(new { deadlock = DEADLOCK }, "lock", key, fn) end]],
            ["by with"] = "local function hold(key, fn) new({ deadlock = DEADLOCK }):with(key, fn) end",
            ["by with_wr of an rwlock"] = [[
                local try = try_to_write
                local function hold(key, fn) new_rwlock({ deadlock = DEADLOCK }):with_wr(key, fn) end]],
            ["by wrlock of an rwlock"] = [[
                local try = try_to_write
                local function hold(key, fn) by_calls(new_rwlock { deadlock = DEADLOCK }, "wrlock", key, fn) end]],
            ["by with, after a wait"] = [[
                local function hold(key, fn)
                    local first = new()
                    assert(first:lock(key))
                    ngx.timer.at(0, function () ngx.sleep(0.05) first:unlock() end)
                    new({ deadlock = DEADLOCK }):with(key, fn)
                end]],
        }
        local CERTAIN = { "by with", "by with_wr of an rwlock", "by with, after a wait" }
        local BY_CALLS = { "by plain calls", "by wrlock of an rwlock" }

        local function outcome(how, deadlock, timeout)
            local source = (HOLDS[how] .. "\n" .. CYCLE):gsub("%u%u%u%u+", { DEADLOCK = deadlock, TIMEOUT = timeout })
            return (site.start { locations = locations { ["/"] = source } }:get("/", 30))
        end

        local function assert_deadlock(said)
            assert.is_true(said == "deadlock b,a; got" or said == "got; deadlock a,b", said)
        end

        -- When one light thread times out, the other light thread continues.
        local function assert_no_deadlock(said)
            assert.is_truthy(said:find("timeout", 1, true) and not said:find("deadlock", 1, true), said)
        end

        for _, how in ipairs(CERTAIN) do
            it(how .. " is reported to one of them, and the other continues", function ()
                assert_deadlock(outcome(how, "nil", 15))
            end)
        end

        for _, how in ipairs(BY_CALLS) do
            it(how .. " ends with a timeout, as in lua-resty-lock", function ()
                assert_no_deadlock(outcome(how, "nil", 0.5))
            end)

            it(how .. " is reported if the objects have deadlock = true", function ()
                assert_deadlock(outcome(how, "true", 15))
            end)
        end

        it("in with ends with a timeout if the objects have deadlock = false", function ()
            assert_no_deadlock(outcome("by with", "false", 0.5))
        end)
    end)

    -- While the whole worker waits, none of its requests can release a lock.
    it("a cycle in which a whole worker waits is reported, whichever request of the worker has the lock", function ()
        local here = site.start { locations = locations { ["/"] = {
            content = [[
                KEPT = new()
                assert(KEPT:lock("a"))
                done "a taken"
                await "b taken"
                ngx.print "body"
            ]],
            header_filter = [[
                local lock = new { timeout = 15, block = true }
                local elapsed, err, keys = lock:lock("b")
                done("outcome", err or "got", table.concat(keys or {}, ","))
                if elapsed then lock:unlock() end
                KEPT:unlock()
            ]],
        } } }
        local other = process.start [[
            local dict = require("resty.shdict").open("spec_nginx_deadlock")
            local mine = require("resty.lock"):new("spec_nginx_deadlock")
            assert(mine:lock("b"))
            hear()
            dict:set("b taken", true)
            local elapsed, err, keys = require("resty.lock"):new("spec_nginx_deadlock", { timeout = 15 }):lock("a")
            say(err or "got", table.concat(keys or {}, ","))
            mine:unlock()
        ]]
        local connection = here:connect()
        connection:send("/")
        await "a taken"
        other:say("go on")
        local theirs, ours = other:hear(30), await "outcome"
        if ours == "got " then
            assert.equal("deadlock\ta,b", theirs)
        else
            assert.equal("deadlock b,a", ours)
            assert.equal("got\t", theirs)
        end
    end)

    describe("a cycle of locks that are held by their takers", function ()
        -- Takes one key, and then waits for the other key.
        local CROSS = [[
            local mine, other = ngx.var.arg_mine, ngx.var.arg_other
            local lock = new { exptime = 60, deadlock = true }
            assert(lock:lock(mine))
            done(mine .. " taken", "")
            await(other .. " taken")
            local outcome = try(other)
            lock:unlock()
            ngx.print(outcome)
        ]]

        local function assert_one_gets_error(first, second)
            first:send("/cross?mine=a&other=b")
            second:send("/cross?mine=b&other=a")
            local outcomes = { (first:receive(30)), (second:receive(30)) }
            local told = outcomes[1] == "got" and 2 or 1
            assert.equal("got", outcomes[3 - told])
            assert.equal(told == 1 and "deadlock b,a" or "deadlock a,b", outcomes[told])
        end

        it("of two requests of one worker is reported to one of them, and the other continues", function ()
            local here = site.start { locations = locations { ["/cross"] = CROSS } }
            assert_one_gets_error(here:connect(), here:connect())
        end)

        it("of requests of two workers is reported to one of them, and the other continues", function ()
            local here = site.start { workers = 2, locations = locations { ["/cross"] = CROSS } }
            local connections = here:connect_to_each(2)
            assert_one_gets_error(connections[1], connections[2])
        end)

        -- Holds b and wants a.
        local HOLDER_OF_B = [[
            local lock = new { exptime = 60, deadlock = true }
            assert(lock:lock("b"))
            done "b taken"
            await "a taken"
            local outcome = try "a"
            lock:unlock()
            ngx.print(outcome)
        ]]

        it("is not reported if another light thread of the request holds the lock", function ()
            local here = site.start { locations = locations { ["/b"] = HOLDER_OF_B, ["/a"] = [[
                local lock = new { exptime = 60, deadlock = true }
                await "b taken"
                assert(lock:lock("a"))
                done "a taken"
                local thread = ngx.thread.spawn(function () return try "b" end)
                await "go on"
                lock:unlock()
                ngx.print(select(2, ngx.thread.wait(thread)))
            ]] } }
            local a, b = here:connect(), here:connect()
            b:send("/b")
            a:send("/a")
            await_waiter "b"
            let_continue()
            assert.equal("got", (a:receive()))
            assert.equal("got", (b:receive()))
        end)

        -- nginx reuses a request's coroutine when the request has ended.
        it("is not reported when another request reuses the coroutine that took the lock", function ()
            local here = site.start { locations = locations {
                ["/b"] = HOLDER_OF_B,
                ["/a"] = [[
                    TAKEN = new { exptime = 60, deadlock = true }
                    assert(TAKEN:lock("a"))
                    done "a taken"
                ]],
                ["/release"] = [[
                    await "go on"
                    ngx.print(TAKEN:unlock())
                ]],
                ["/want"] = "ngx.print(try 'b')",
            } }
            local b, release = here:connect(), here:connect()
            b:send("/b")
            release:send("/release")
            await "b taken"
            here:get("/a")
            local wanting = here:send(5, "/want")
            await_waiter "b"
            let_continue()
            assert.equal("1", (release:receive()))
            assert.equal("got", (b:receive()))
            for i = 1, 5 do
                assert.equal("got", (wanting[i]:receive()))
            end
        end)

        it("is not reported if a waiter's client disconnected", function ()
            local here = site.start { server = "lua_check_client_abort on;", locations = locations {
                ["/other"] = [[
                    OTHER = new { exptime = 60, deadlock = true }
                    assert(OTHER:lock("other")) -- a process that holds no lock is not part of a cycle
                    collectgarbage "stop"
                ]],
                ["/want"] = "try 'b'",
                ["/b"] = HOLDER_OF_B,
                ["/a"] = [[
                    local lock = new { exptime = 60, deadlock = true }
                    assert(lock:lock("a"))
                    done "a taken"
                    await "go on"
                    ngx.print(lock:unlock())
                ]],
            } }
            here:get("/other")
            local a, b = here:connect(), here:connect()
            b:send("/b")
            await "b taken"
            for _ = 1, 5 do
                local wanting = here:connect()
                wanting:send("/want")
                await_waiter "b"
                wanting:close()
            end
            waits.sleep(0.1)
            a:send("/a")
            let_continue()
            assert.equal("1", (a:receive()))
            assert.equal("got", (b:receive()))
        end)
    end)
end)
