-- Tests tasks/queues.lua and tasks/traceback.lua. The scheduler must continue after errors that are hard to report, and
-- after errors in the scheduler itself.

local pack, process, reports_of = require "spec.support" ("pack", "process", "reports")
local scheduler = require "resty.holdfast.scheduler"

local sleep, spawn = scheduler.sleep, scheduler.spawn


describe("scheduler", function ()
    local reports = reports_of.fixture()

    after_each(process.clean_up)

    describe("run", function ()
        -- LuaJIT's message for an error without text.
        local NO_TEXT = "(error object is a table value)"

        for fault, to_text in pairs {
            ["raises an error"] = function () error("in __tostring") end,
            ["raises the error value itself"] = error,
            ["returns a table"] = function () return {} end,
            ["returns nothing"] = function () end,
        } do
            it("continues after an error whose __tostring " .. fault .. ", and wakes the task that joins", function ()
                local trouble, joined, other = setmetatable({}, { __tostring = to_text }), nil, false
                local task = spawn(function () error(trouble) end)
                spawn(function () joined = pack(task:join()) end)
                spawn(function ()
                    sleep(0.001)
                    other = true
                end)
                assert.same(pack(nil, "1 task failed", 1), pack(scheduler.run()))
                assert.is_true(other)
                assert.equal(2, joined.n)
                assert.is_nil(joined[1])
                assert.equal(trouble, joined[2])
                assert.equal(1, #reports)
                assert.equal(NO_TEXT .. "\nstack traceback:\n", reports[1]:match("^[^\n]*\n[^\n]*\n"))
            end)
        end

        it("continues when neither the report nor standard error can be written", function ()
            local text = process.run([[
                local scheduler = require "resty.holdfast.scheduler"
                local function trouble() error(setmetatable({}, { __tostring = error })) end
                scheduler.on_error = trouble
                scheduler.spawn(trouble)
                scheduler.spawn(function () say "still here" end)
                say(scheduler.run())
                io.stderr:close()
                scheduler.spawn(trouble)
                scheduler.spawn(function () say "and here" end)
                say(scheduler.run())
            ]], { stderr = true })
            local RESULT = "here\nnil\t1 task failed\t1\n"
            assert.matches("still " .. RESULT, text, 1, true)
            assert.matches("and " .. RESULT .. "$", text)
        end)

        it("has ended a task before it calls on_error", function ()
            local joined
            scheduler.on_error = function (task) joined = pack(task:join()) end
            spawn(error, "trouble")
            scheduler.run()
            assert.same(pack(nil, "trouble"), joined)
        end)
    end)

    -- A hook is the usual way to limit the running time of a program. The hook may run in the middle of the scheduler.
    describe("after an error raised by a hook", function ()
        local HARNESS = [[
            jit.off() -- compiled code does not call hooks
            local scheduler = require "resty.holdfast.scheduler"
            local sleep, spawn = scheduler.sleep, scheduler.spawn
            scheduler.on_error = function () end

            -- From now on, the nth step raises an error. Only the steps that is_meant() accepts count.
            local function strike(n, is_meant)
                debug.sethook(function ()
                    n = n - (is_meant() and 1 or 0)
                    if n == 0 then
                        debug.sethook()
                        error("time is over", 0)
                    end
                end, "", 1)
            end
            local function outside_of_tasks()
                local co, is_main = coroutine.running() -- with LUA52COMPAT, the main program is a coroutine
                return not co or is_main == true
            end
            local function always() return true end
            local function run(n)
                local ok, err = pcall(function ()
                    if n then
                        strike(n, outside_of_tasks)
                    end
                    return scheduler.run()
                end)
                debug.sethook()
                return ok, err
            end
        ]]

        local function check(source)
            assert.same({ "checked\n", 0 }, { process.run(HARNESS .. source .. '\nsay "checked"', { stderr = true }) })
        end

        it("between two tasks, the remaining tasks run in the next run", function ()
            check [[
                local ways = { ends = function () end, yields = function () sleep(0) end, fails = error,
                               sleeps = function () sleep(0.00001) end }
                for name, way in pairs(ways) do
                    for n = 1, 25 do
                        local turns, joined = 0, 0
                        local task = spawn(function ()
                            strike(n, outside_of_tasks)
                            way()
                        end)
                        for _ = 1, 3 do
                            spawn(function () sleep(0) turns = turns + 1 end)
                        end
                        spawn(function () task:join() joined = joined + 1 end)
                        local first, err = run()
                        local second, later = run()
                        if first or err ~= "time is over" or not second or turns ~= 3 or joined ~= 1 then
                            say(name, n, first, err, second, later, turns, joined)
                        end
                    end
                end
            ]]
        end)

        it("during a wait, does not end a later wait of the task", function ()
            check [[
                local ffi = require "ffi"
                ffi.cdef "int pipe(int *); ssize_t write(int, const char *, size_t); int close(int);"
                local waits = {
                    descriptor = function (from) scheduler.wait_fd(from, "r", 0.0001) end,
                    join = function (_, other) other:join(0.0001) end,
                    stop = function () scheduler.stopping(0.0001) end,
                }
                for name, wait in pairs(waits) do
                    for n = 1, 300, 3 do
                        local ends = ffi.new("int[2]")
                        assert(ffi.C.pipe(ends) == 0)
                        local other = spawn(function () sleep(0.0008) assert(ffi.C.write(ends[1], "x", 1) == 1) end)
                        local task = spawn(function ()
                            strike(n, always)
                            pcall(wait, ends[0], other)
                            debug.sethook()
                            local start = scheduler.now()
                            sleep(0.0015)
                            return scheduler.now() - start >= 0.0015
                        end)
                        local stopper = spawn(function () sleep(0.0006) scheduler.stop() end)
                        local first, err = run()
                        local second, later = run()
                        if not second or task:status() == "done" and not select(2, task:join()) then
                            say(name, n, first, err, second, later, task:status(), task:join())
                        end
                        ffi.C.close(ends[0])
                        ffi.C.close(ends[1])
                    end
                end
            ]]
        end)

        it("in sleep, does not resume an ended task, and another task still sleeps for its full time", function ()
            check [[
                for n = 1, 150 do
                    local ended = spawn(function () strike(n, always) sleep(0.0001) debug.sethook() end)
                    local first, err = run()
                    local continued = spawn(function ()
                        strike(n, always)
                        pcall(sleep, 0.0001)
                        debug.sethook()
                        local start = scheduler.now()
                        sleep(0.0005)
                        return scheduler.now() - start >= 0.0005
                    end)
                    local second, later = run()
                    local third, last = run()
                    local state = ended:status()
                    if state ~= "failed" and state ~= "done" or not third then
                        say("ended", n, first, err, third, last, state)
                    end
                    state = continued:status()
                    if state ~= "failed" and (state ~= "done" or not select(2, continued:join())) then
                        say("went on", n, second, later, third, last, state)
                    end
                end
            ]]
        end)

        it("at the beginning of run, does not prevent later calls to run", function ()
            check [[
                for n = 1, 40 do
                    local done = false
                    spawn(function () done = true end)
                    local first, err = run(n)
                    local second, later = run()
                    if not second or not done then
                        say(n, first, err, second, later, done)
                    end
                end
            ]]
        end)
    end)
end)
