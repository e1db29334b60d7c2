-- Tests tasks/join.lua.

local expect, fixture, pack, process, reports_of =
    require "spec.support" ("expect", "fixture", "pack", "process", "reports")
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"


local now, sleep, spawn = scheduler.now, scheduler.sleep, scheduler.spawn


describe("scheduler", function ()
    local reports = reports_of.fixture()

    after_each(process.clean_up)

    local function run()
        return assert(scheduler.run())
    end

    describe("spawn", function ()
        it("starts tasks in order of arrival, and only within run", function ()
            local order = {}
            for i = 1, 5 do
                spawn(function () order[i] = #order + 1 end)
            end
            assert.same({}, order)
            run()
            assert.same({ 1, 2, 3, 4, 5 }, order)
        end)

        it("passes on arguments, including nils", function ()
            local got
            spawn(function (...) got = pack(...) end, nil, "a", nil)
            run()
            assert.same(pack(nil, "a", nil), got)
        end)

        it("may be called by a task", function ()
            local order = {}
            spawn(function ()
                order[#order + 1] = "outer"
                spawn(function () order[#order + 1] = "inner" end)
                order[#order + 1] = "outer again"
            end)
            run()
            assert.same({ "outer", "outer again", "inner" }, order)
        end)

        it("refuses anything but a function", function ()
            for _, fn in ipairs { "text", 1, {} } do
                assert.has_error(function () spawn(fn) end,
                                 "bad function to spawn: expected a function, got " .. type(fn))
            end
            assert.has_error(function () spawn(nil) end, "bad function to spawn: expected a function, got nil")
        end)

        it("refuses more arguments than it can pass on, and reports the caller's line", function ()
            local arguments, ok, err = {}, nil, nil
            local function call(...)
                ok, err = pcall(function (...) return spawn(print, ...) and true end, ...)
            end
            call(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, unpack(arguments, 1, 7990))
            assert.is_false(ok)
            assert.matches("scheduler_spec.lua:%d+: too many arguments to spawn: expected at most 7990, got 8000$", err)
            local count
            spawn(function (...) count = select("#", ...) end, unpack(arguments, 1, 7990))
            run()
            assert.equal(7990, count)
        end)

        it("accepts 50,000 tasks", function ()
            local count = 0
            for _ = 1, 50000 do
                spawn(function () count = count + 1 end)
            end
            run()
            assert.equal(50000, count)
        end)
    end)

    describe("sleep", function ()
        it("wakes tasks in the order of their deadlines, and never early", function ()
            expect.in_time(function ()
                local order, first, last = {}, nil, nil
                for _, seconds in ipairs { 0.03, 0.01, 0.02 } do
                    spawn(function ()
                        local start = now()
                        first = first or start
                        sleep(seconds)
                        assert.is_true(now() - start >= seconds)
                        order[#order + 1] = seconds
                    end)
                end
                spawn(function () last = now() end)
                run()
                assert.equal(3, #order)
                return last - first < 0.01 and assert.same({ 0.01, 0.02, 0.03 }, order)
            end)
        end)

        it("for 0 seconds lets every other task run first", function ()
            local order = {}
            for i = 1, 3 do
                spawn(function ()
                    for turn = 1, 3 do
                        order[#order + 1] = turn * 10 + i
                        sleep(0)
                    end
                end)
            end
            run()
            assert.same({ 11, 12, 13, 21, 22, 23, 31, 32, 33 }, order)
        end)

        it("in one task ends although another task never sleeps", function ()
            local done = false
            spawn(function ()
                sleep(0.01)
                done = true
            end)
            spawn(function ()
                while not done do
                    sleep(0)
                end
            end)
            run()
            assert.is_true(done)
        end)

        it("works for 10,000 concurrent tasks", function ()
            local woken, last = 0, 0
            for i = 1, 10000 do
                spawn(function ()
                    local seconds = (i * 7919 % 1000) / 10000
                    local deadline = now() + seconds
                    sleep(seconds)
                    woken = woken + 1
                    assert(now() >= deadline)
                    last = math.max(last, deadline)
                end)
            end
            run()
            assert.equal(10000, woken)
            assert.is_true(now() >= last)
        end)

        it("blocks the process outside tasks", function ()
            local start = now()
            sleep(0.02)
            assert.is_true(now() - start >= 0.02)
        end)

        it("blocks the process in a coroutine that is not a task", function ()
            local start = now()
            coroutine.wrap(function () sleep(0.02) end)()
            assert.is_true(now() - start >= 0.02)
            spawn(function ()
                local generator = coroutine.wrap(function ()
                    sleep(0.01)
                    coroutine.yield("value")
                end)
                assert(generator() == "value")
            end)
            run()
        end)

        it("blocks the process in a task that cannot yield", function ()
            local compared = 0
            spawn(function ()
                table.sort({ 3, 1, 2 }, function (a, b)
                    sleep(0.001)
                    compared = compared + 1
                    return a < b
                end)
            end)
            run()
            assert.is_true(compared > 0)
        end)

        it("refuses invalid times, and reports the caller's line", function ()
            for _, seconds in ipairs { -1, 0 / 0, "1", {}, -1 / 0 } do
                local ok, err = pcall(function ()
                    sleep(seconds)
                    return true
                end)
                assert.is_false(ok)
                assert.matches("^[^:]*scheduler_spec.lua:%d+: bad seconds to sleep: expected a number, 0 or more, got",
                               err)
            end
        end)
    end)

    describe("run", function ()
        it("ends immediately if there are no tasks", function ()
            assert.same(pack(true), pack(scheduler.run()))
        end)

        it("continues after a task's error, reports it with a traceback, and counts it", function ()
            local done = {}
            local function culprit() error("first trouble") end
            spawn(culprit)
            spawn(function ()
                sleep(0.001)
                done[#done + 1] = true
            end)
            spawn(function ()
                sleep(0)
                error({ "second" })
            end)
            assert.same(pack(nil, "2 tasks failed", 2), pack(scheduler.run()))
            assert.equal(1, #done)
            assert.equal(2, #reports)
            local HERE = "scheduler_spec.lua:%d+: "
            assert.matches(HERE .. "first trouble\nstack traceback:\n.*" .. HERE .. "in function", reports[1])
            assert.same(pack(true), pack(scheduler.run()))
        end)

        it("continues after an error in on_error", function ()
            local text = process.run([[
                local scheduler = require "resty.holdfast.scheduler"
                scheduler.on_error = function () error "no log" end
                scheduler.spawn(error, "trouble")
                scheduler.spawn(function () scheduler.sleep(0.001) say "still here" end)
                say(scheduler.run())
            ]], { stderr = true })
            assert.matches("no log", text, 1, true)
            assert.matches("trouble", text, 1, true)
            assert.matches("still here\nnil\t1 task failed\t1\n", text, 1, true)
        end)

        it("writes errors to standard error by default", function ()
            local text = process.run([[
                local scheduler = require "resty.holdfast.scheduler"
                scheduler.spawn(function () error "trouble" end)
                scheduler.run()
            ]], { stderr = true })
            assert.matches("^holdfast: a task failed: .*trouble\nstack traceback:", text)
        end)

        it("continues after a task that returns more values than join can return", function ()
            local done = false
            local task = spawn(function () return 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, unpack({}, 1, 7990) end)
            local most = spawn(function () return unpack({}, 1, 7990) end)
            spawn(function () done = true end)
            assert.same(pack(nil, "1 task failed", 1), pack(scheduler.run()))
            assert.is_true(done)
            assert.same(pack(nil, "a task returned too many values: expected at most 7990, got 8000"),
                        pack(task:join()))
            assert.equal(7991, select("#", most:join()))
        end)

        it("is refused inside a task", function ()
            spawn(function () scheduler.run() end)
            assert.same({ nil, "1 task failed", 1 }, { scheduler.run() })
            assert.matches("scheduler_spec.lua:%d+: run%(%) was called inside a task", reports[1])
        end)

        it("lets tasks that yield on their own continue", function ()
            local count = 0
            spawn(function ()
                for _ = 1, 3 do
                    coroutine.yield("anything")
                    count = count + 1
                end
            end)
            run()
            assert.equal(3, count)
        end)

        it("uses no processor time while all tasks wait", function ()
            local text = process.run [[
                local scheduler = require "resty.holdfast.scheduler"
                for _ = 1, 1000 do
                    scheduler.spawn(function () scheduler.sleep(0.4) end)
                end
                scheduler.spawn(function ()
                    local before = os.clock()
                    scheduler.sleep(0.3)
                    say(os.clock() - before < 0.15)
                end)
                scheduler.run()
            ]]
            assert.equal("true\n", text)
        end)
    end)

    it("raises an error that names the call if the argument of cancel is not a task", function ()
        for _, given in ipairs { "task", 5, {}, false } do
            assert.error_matches(function () scheduler.cancel(given) end,
                                 "bad receiver of cancel: .*; call it as scheduler.cancel%(task%)$")
        end
    end)

    it("raises an error for a wrong receiver of a task's methods, and reports the caller's line", function ()
        local task = spawn(function () end)
        for _, name in ipairs { "join", "status" } do
            for _, receiver in ipairs { "task", 5, {}, false } do
                local message = expect.blamed(function ()
                    local result = task[name](receiver)
                    return result
                end)
                assert.matches("^bad receiver of " .. name .. ": expected a task, got ", message)
                assert.matches("; call it as task:" .. name .. "()", message, 1, true)
            end
            assert.error_matches(function () task[name]() end, "bad receiver of " .. name .. ": .* got nil; ")
        end
        run()
    end)

    describe("join", function ()
        it("waits for the end of a task and returns its results", function ()
            local results
            local task = spawn(function ()
                sleep(0.001)
                return 1, nil, 3
            end)
            spawn(function () results = pack(task:join()) end)
            run()
            assert.same(pack(true, 1, nil, 3), results)
            assert.same(pack(true, 1, nil, 3), pack(task:join()))
        end)

        it("returns the error of a failed task", function ()
            local err = {}
            local task = spawn(function () error(err) end)
            local results
            spawn(function () results = pack(task:join()) end)
            scheduler.run()
            assert.same(2, results.n)
            assert.is_nil(results[1])
            assert.equal(err, results[2])
        end)

        it("may be called by many tasks, and outside of tasks, where it runs the tasks in the meantime", function ()
            local count = 0
            local task = spawn(function () sleep(0.002) end)
            for _ = 1, 10 do
                spawn(function ()
                    task:join()
                    count = count + 1
                end)
            end
            local over = false
            local other = spawn(function () repeat sleep(0.01) until over end)
            assert.is_true(task:join())
            assert.not_equal("done", other:status())
            over = true
            run()
            assert.equal(10, count)
        end)

        it("is refused in a cycle", function ()
            local first, second
            first = spawn(function () return second:join() end)
            second = spawn(function () return first:join() end)
            assert.same({ nil, "1 task failed", 1 }, { scheduler.run() })
            assert.matches("join() would never return", reports[1], 1, true)
            local own
            own = spawn(function () return own:join() end)
            assert.same({ nil, "1 task failed", 1 }, { scheduler.run() })
        end)
    end)

    it("status returns the state of a task", function ()
        local task
        task = spawn(function ()
            assert(task:status() == "running")
            sleep(0.001)
        end)
        local watcher = spawn(function () assert(task:status() == "waiting") end)
        local failing = spawn(function () error("trouble") end)
        assert.equal("ready", task:status())
        scheduler.run()
        assert.equal("done", task:status())
        assert.equal("done", watcher:status())
        assert.equal("failed", failing:status())
    end)

    it("running returns the task that calls it", function ()
        assert.is_nil(scheduler.running())
        local task, seen, nested
        task = spawn(function ()
            seen = scheduler.running()
            coroutine.wrap(function () nested = pack(scheduler.running()) end)()
        end)
        run()
        assert.equal(task, seen)
        assert.same(pack(nil), nested)
    end)

    describe("stop", function ()
        it("is visible to tasks that call stopping, and ends their sleeps in stopping", function ()
            local turns = 0
            spawn(function ()
                while not scheduler.stopping(3600) do
                    turns = turns + 1
                end
            end)
            spawn(function ()
                sleep(0.005)
                assert(not scheduler.stopping())
                scheduler.stop()
                assert(scheduler.stopping())
            end)
            run()
            assert.equal(0, turns)
            assert.is_false(scheduler.stopping())
        end)

        it("may be called by a finaliser, even a compiled one", function ()
            local text = process.run [[
                local scheduler = require "resty.holdfast.scheduler"
                local function ask(task_count, ...)
                    for _ = 1, task_count do
                        scheduler.spawn(function () assert(scheduler.stopping(60)) end, ...)
                    end
                end
                for _ = 1, 3 do
                    ask(500)
                    scheduler.spawn(scheduler.stop)
                    scheduler.run()
                end
                ask(3, "an argument", "and another")
                scheduler.spawn(function ()
                    getmetatable(newproxy(true)).__gc = scheduler.stop
                    collectgarbage()
                    collectgarbage()
                end)
                say(scheduler.run())
            ]]
            assert.equal("true\n", text)
        end)

        it("does not shorten other sleeps", function ()
            spawn(function ()
                local start = now()
                sleep(0.02)
                assert(now() - start >= 0.02)
            end)
            spawn(scheduler.stop)
            run()
        end)

        for _, endless in ipairs { "scheduler.stopping(math.huge)", "scheduler.stopping(1e300)" } do
            it("is what " .. endless .. " waits for, even with nothing else to wait for", function ()
                local child = process.start([[
                    local scheduler = require "resty.holdfast.scheduler"
                    scheduler.spawn(function () say(]] .. endless .. [[) end)
                    scheduler.spawn(function () scheduler.sleep(0.01) scheduler.stop() end)
                    say(scheduler.run())
                ]])
                assert.equal("true\ntrue\n", (child:hear_all()))
            end)
        end

        it("without a stop, a task in an endless sleep keeps run from returning", function ()
            local child = process.start [[
                local scheduler = require "resty.holdfast.scheduler"
                scheduler.spawn(function () scheduler.sleep(math.huge) end)
                scheduler.spawn(function () scheduler.sleep(0.01) say "slept" end)
                say(pcall(scheduler.run))
            ]]
            child:expect "slept"
            scheduler.sleep(0.05)
            child:kill()
            assert.equal(-9, child:wait())
        end)

        it("without a stop, stopping waits for the given time", function ()
            spawn(function ()
                local start = now()
                assert(not scheduler.stopping(0.02))
                assert(now() - start >= 0.02)
            end)
            run()
            assert.error_matches(function () scheduler.stopping(-1) end, "bad seconds to stopping")
        end)
    end)

    describe("with locks", function ()
        fixture.dictionary("spec_locks")

        it("sleeps while tasks wait for another process's lock, and is woken by the release", function ()
            local child = process.start_holder('require("resty.lock"):new("spec_locks")', "lock", "unlock")
            local busy
            spawn(function ()
                local before = os.clock()
                local start = now()
                local lock = resty_lock:new("spec_locks", { exptime = 30 })
                local elapsed = lock:lock("key", { timeout = 20 })
                assert(elapsed <= now() - start)
                busy = os.clock() - before
            end)
            spawn(function ()
                sleep(0.2)
                child:say("unlock")
            end)
            run()
            assert.is_true(busy < 0.1, "it has used the processor for " .. busy .. " s")
        end)
    end)
end)
