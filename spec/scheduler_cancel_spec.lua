-- Tests resty.holdfast.scheduler: cancelled tasks, joins with a timeout, and the names of tasks.

local collect = require("spec.support.reports").collect
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"

local now, sleep, spawn = scheduler.now, scheduler.sleep, scheduler.spawn


-- Returns the messages that on_error gets while the function runs.
local function collect_reports(fn)
    local reports, restore = collect()
    fn()
    restore()
    return reports
end


describe("scheduler", function ()
    after_each(function ()
        scheduler.stop()
        scheduler.run()
    end)

    describe("cancel", function ()
        local WAITS = {
            ["sleeps"] = function () sleep(600) end,
            ["sleeps forever"] = function () sleep(math.huge) end,
            ["waits for the order to stop"] = function () scheduler.stopping(600) end,
            ["lets other tasks run"] = function () while true do sleep(0) end end,
            ["joins another task"] = function () spawn(function () scheduler.stopping(600) end):join() end,
            ["waits for a lock"] = function ()
                resty_lock:new("spec_cancel", { timeout = 600, exptime = 600 }):lock("held")
            end,
            ["waits for a lock by polling"] = function ()
                resty_lock:new("spec_cancel", { timeout = 600, exptime = 600, wait = "poll" }):lock("held")
            end,
        }

        local dict, holder

        before_each(function ()
            dict = assert(shdict.open("spec_cancel", { size = "200k" }))
            dict:flush_all()
            holder = resty_lock:new("spec_cancel")
            assert(holder:lock("held"))
        end)

        for what, wait in pairs(WAITS) do
            it("ends a task that " .. what .. ", and releases the locks that with took", function ()
                local reports = collect_reports(function ()
                    local task, inside
                    task = spawn(function ()
                        resty_lock:new("spec_cancel"):with("own", function ()
                            inside = true
                            wait()
                        end)
                    end)
                    local start = now()
                    spawn(function ()
                        sleep(0.01)
                        assert.is_true(inside)
                        assert.is_true(scheduler.cancel(task))
                        assert.same({ nil, "cancelled" }, { task:join() })
                        assert.equal("cancelled", task:status())
                        assert.is_nil(dict:get("own"))
                        assert.is_false(scheduler.cancel(task))
                        scheduler.stop()
                    end)
                    assert.is_true(scheduler.run())
                    assert.is_true(now() - start < 30)
                end)
                assert.same({}, reports)
                assert.equal(0, resty_lock:new("spec_cancel"):holder("held").waiters)
            end)
        end

        it("of a task that has not begun prevents its start", function ()
            local begun = false
            local task = spawn(function () begun = true end)
            assert.is_true(scheduler.cancel(task))
            assert.is_true(scheduler.run())
            assert.is_false(begun)
            assert.same({ nil, "cancelled" }, { task:join() })
        end)

        it("of the caller itself ends the caller immediately", function ()
            local after = false
            local task = spawn(function ()
                scheduler.cancel(scheduler.running())
                after = true
            end)
            assert.is_true(scheduler.run())
            assert.is_false(after)
            assert.equal("cancelled", task:status())
        end)

        it("of a task that has just been granted the lock passes the lock only to the next waiter", function ()
            local order = {}
            local function take(name)
                local lock = resty_lock:new("spec_cancel", { timeout = 30, exptime = 600 })
                assert(lock:lock("held"))
                order[#order + 1] = name
                assert(lock:unlock())
            end
            local first = spawn(take, "first")
            spawn(function ()
                sleep(0.02)
                spawn(take, "second")
                sleep(0.02)
                assert(holder:unlock()) -- the lock is granted to the first task, which will soon be resumed
                assert.is_true(scheduler.cancel(first))
            end)
            local start = now()
            assert.is_true(scheduler.run())
            assert.is_true(now() - start < 20)
            assert.same({ nil, "cancelled" }, { first:join() })
            assert.same({ "second" }, order)
            assert.is_nil(resty_lock:new("spec_cancel"):holder("held"))
        end)

        it("inside nested calls of with releases both locks, the inner one first", function ()
            local order = {}
            local task = spawn(function ()
                resty_lock:new("spec_cancel"):with("outer", function ()
                    local ok, err = pcall(function ()
                        return resty_lock:new("spec_cancel"):with("inner", function () sleep(600) end)
                    end)
                    order[#order + 1] = { ok, err, dict:get("inner"), dict:get("outer") }
                    error(err, 0)
                end)
            end)
            spawn(function () sleep(0.005) scheduler.cancel(task) end)
            assert.is_true(scheduler.run())
            assert.equal("cancelled", task:status())
            assert.equal(1, #order)
            assert.same({ false, "cancelled" }, { order[1][1], order[1][2] })
            assert.is_nil(order[1][3])
            assert.truthy(order[1][4])
            assert.is_nil(resty_lock:new("spec_cancel"):holder("outer"))
        end)

        it("of a joining task does not affect the joined task, and of the joined task ends the join", function ()
            local other = spawn(function () scheduler.stopping(600) return "other" end)
            local joiner = spawn(function () return other:join() end)
            local second = spawn(function () return other:join() end)
            spawn(function ()
                sleep(0.005)
                assert.is_true(scheduler.cancel(joiner))
                assert.same({ nil, "cancelled" }, { joiner:join() })
                assert.equal("waiting", other:status())
                assert.is_true(scheduler.cancel(other))
            end)
            assert.is_true(scheduler.run())
            assert.same({ true, nil, "cancelled" }, { second:join() })
        end)

        it("of a joining task by the joined task ends only the joining task", function ()
            local one, two
            one = spawn(function () sleep(0.005) scheduler.cancel(two) return "one" end)
            two = spawn(function () one:join() return "two" end)
            assert.is_true(scheduler.run())
            assert.same({ true, "one" }, { one:join() })
            assert.same({ nil, "cancelled" }, { two:join() })
        end)

        it("takes effect at the next wait if the task is inside a coroutine where it cannot wait", function ()
            local steps = {}
            local task = spawn(function ()
                local inner = coroutine.wrap(function ()
                    scheduler.cancel(scheduler.running() or error "not here")
                end)
                steps[1] = pcall(inner)
                local outer = scheduler.running()
                coroutine.wrap(function () steps[2] = scheduler.cancel(outer) sleep(0.001) steps[3] = "slept" end)()
                steps[4] = "goes on"
                sleep(30)
            end)
            assert.is_true(scheduler.run())
            assert.same({ false, true, "slept", "goes on" }, steps)
            assert.equal("cancelled", task:status())
        end)

        it("raises an error that a task may catch, to clean up or to continue", function ()
            local caught, result
            local task = spawn(function ()
                caught = { pcall(sleep, 600) }
                sleep(0.001)
                return "went on"
            end)
            spawn(function () sleep(0.001) scheduler.cancel(task) end)
            assert.is_true(scheduler.run())
            result = { task:join() }
            assert.same({ false, "cancelled" }, caught)
            assert.same({ true, "went on" }, result)
        end)

        it("does not hide a later error", function ()
            local reports = collect_reports(function ()
                local task = spawn(function ()
                    pcall(sleep, 600)
                    error "another"
                end)
                spawn(function () sleep(0.001) scheduler.cancel(task) end)
                assert.is_nil((scheduler.run()))
                assert.equal("failed", task:status())
            end)
            assert.equal(1, #reports)
        end)
    end)

    describe("join with a timeout", function ()
        it("returns the results of join, or \"timeout\" when the time is over", function ()
            local slow = spawn(function () scheduler.stopping(600) return "slow" end)
            local quick = spawn(function () return "quick" end)
            local got = {}
            spawn(function ()
                got[1] = { quick:join(10) }
                local start = now()
                got[2] = { slow:join(0.01) }
                got[3] = now() - start >= 0.01
                got[4] = { slow:join(0) }
                scheduler.stop()
                got[5] = { slow:join(600) }
            end)
            assert.is_true(scheduler.run())
            assert.same({ { true, "quick" }, { nil, "timeout" }, true, { nil, "timeout" }, { true, "slow" } }, got)
        end)

        it("leaves nothing behind that would shorten a later wait", function ()
            local other = spawn(function () sleep(0.02) end)
            local slept
            spawn(function ()
                assert.same({ nil, "timeout" }, { other:join(0.001) })
                local start = now()
                sleep(0.06)
                slept = now() - start
            end)
            assert.is_true(scheduler.run())
            assert.is_true(slept >= 0.06)
        end)

        it("leaves nothing behind that looks like a cycle of joins", function ()
            local first, second, third
            second = spawn(function () third:join(0.001) end)
            first = spawn(function ()
                second:join()
                local start = now()
                while now() - start < 0.03 do
                    sleep(0)
                end
                return "first"
            end)
            third = spawn(function ()
                sleep(0.01)
                return first:join()
            end)
            assert.is_true(scheduler.run())
            assert.same({ true, true, "first" }, { third:join() })
        end)

        it("does not close a cycle, because the join will end", function ()
            local first, second, own, got, own_got
            first = spawn(function () got = { second:join(0.01) } return "first" end)
            second = spawn(function () return first:join() end)
            own = spawn(function () own_got = { own:join(0.001) } end)
            assert.is_true(scheduler.run())
            assert.same({ nil, "timeout" }, got)
            assert.same({ true, true, "first" }, { second:join() })
            assert.same({ nil, "timeout" }, own_got)
        end)

        it("closes a cycle if the timeout is math.huge", function ()
            local first, second
            first = spawn(function () return second:join(math.huge) end)
            second = spawn(function () return first:join(math.huge) end)
            local reports = collect_reports(function () scheduler.run() end)
            assert.matches("join() would never return", reports[1], 1, true)
        end)

        it("outside tasks runs the tasks in the meantime", function ()
            local turns = 0
            local other = spawn(function () while not scheduler.stopping(0.001) do turns = turns + 1 end end)
            assert.same({ nil, "timeout" }, { other:join(0.03) })
            assert.is_true(turns > 0)
            scheduler.stop()
            assert.same({ true }, { other:join(10) })
        end)

        it("refuses invalid times", function ()
            local task = spawn(function () end)
            for _, given in ipairs { -1, 0 / 0, "1", {} } do
                assert.error_matches(function () local done = task:join(given) return done end,
                                     "^bad timeout to join: expected a number, 0 or more")
            end
        end)
    end)

    it("reports the name of a failed task", function ()
        local reports = collect_reports(function ()
            local task = spawn(function () error "went wrong" end)
            assert.is_nil(task:name())
            assert.equal(task, task:name("page 7"))
            assert.equal("page 7", task:name())
            scheduler.run()
        end)
        assert.matches('^task "page 7": .*went wrong\nstack traceback', reports[1])
        assert.error_matches(function ()
            local named = spawn(function () end):name(5)
            return named
        end, "bad name of a task: expected a string")
    end)
end)
