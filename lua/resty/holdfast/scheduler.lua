-- Runs tasks: coroutines of one process that wait without blocking each other. Manual:
-- docs/resty.holdfast.scheduler.md.
--
-- A task is running (`current`), in the run queue, or waiting. A waiting task is in one or more of these lists: the
-- timers (sleep, wait with a limit), the parker's listeners (wait), the joiners of a task (join), and `stop_watchers`.
-- The first event calls wake(), which removes the task from the timers. When the task runs again, it leaves the other
-- lists itself.

local core = require "resty.holdfast.core"
local join = require "resty.holdfast.tasks.join"
local parker = require "resty.holdfast.wait.parker"
local queues = require "resty.holdfast.tasks.queues"
local task_ids = require "resty.holdfast.tasks.task_ids"
local traceback = require "resty.holdfast.tasks.traceback"
local worker = require "resty.holdfast.worker"

local C, check_time, describe = core.C, core.check_time, core.describe
local background_jobs, ready, timers = queues.background_jobs, queues.ready, queues.timers
local add_timer, first_timer = timers.add, timers.first
local remove_timer, take_first_timer = timers.remove, timers.take_first
local co_create, co_isyieldable, co_resume = coroutine.create, coroutine.isyieldable, coroutine.resume
local co_running, co_status, co_yield = coroutine.running, coroutine.status, coroutine.yield
local error, min, next, pairs, pcall = error, math.min, next, pairs, pcall
local select, setmetatable, type, unpack = select, setmetatable, type, unpack
local exiting, new_task_id, text_of = worker.exiting, task_ids.new, traceback.text_of
local for_seconds, forget, has_listeners = parker.for_seconds, parker.forget, parker.has_listeners
local listen, park = parker.listen, parker.sleep
local make_ready, none_ready, run_ready = ready.add, ready.is_empty, ready.run
local next_job, run_jobs = background_jobs.next, background_jobs.run
local has_no_descriptors, park_with_descriptors = parker.has_no_descriptors, parker.sleep_with_descriptors

local INFINITY = math.huge
local MOST_VALUES = 7990  -- for the arguments or results of a task, because unpack returns fewer than 8000

local _M = {}

local Task = {}
Task.__index = Task

-- The value that a waiting task yields. A task that yields another value only lets other tasks run.
local WAITING = {}
-- The cause of a wait in `stop_watchers`.
local STOP = {}
-- The error that ends a cancelled task.
local CANCELLED = "cancelled"

local current
local deadlines = timers.new()
local failed = 0
local live = 0
local stop_watchers = {}
local stopping = false


-- now() returns the seconds of a clock that never jumps (CLOCK_MONOTONIC). Does not yield. Makes no tail call, because
-- LuaJIT does not compile tail calls to C functions.
local function now()
    local time = C.holdfast_now()
    return time
end


function Task.wake(task)
    if task.state == "waiting" then
        task.woken = true
        make_ready(task)
        remove_timer(deadlines, task)
    end
end


-- Returns the calling task, if it may wait. A task must not wait in a coroutine that it runs itself, because the yield
-- would not reach the scheduler. For the same reason, it must not wait in Lua code that a C function has called (a
-- callback of table.sort, the main chunk of a module in require).
local function waiting_task()
    local task = current
    return task and co_running() == task.co and co_isyieldable() and task or nil
end


-- Lets other tasks run until task:wake() or the deadline. Returns whether the task was woken. A cancelled task does not
-- wait. The caller must then call go_on(). `cause` identifies the event that the task waits for. If a debug hook raises
-- an error, the task may remain in an old list, so each list checks the causes of its tasks.
local function suspend(task, deadline, cause)
    if task.cancelled then
        return false
    end
    if deadline then
        add_timer(deadlines, task, deadline)
    end
    task.cause = cause
    task.woken = false
    task.state = "waiting"
    co_yield(WAITING)
    return task.woken
end


-- If the task was cancelled during the wait, raises an error that ends the task. Call this function after the task has
-- left all lists.
local function go_on(task)
    if task.cancelled then
        task.cancelled = nil
        task.ends = true
        error(CANCELLED, 0)
    end
end


local function write_both(err, message)
    io.stderr:write("holdfast: scheduler.on_error failed: ", text_of(err), "\nwhile reporting: ", message, "\n")
end


-- Calls on_error. Never raises an error, even if the program has closed its standard error.
local function call_on_error(task, message)
    local ok, err = pcall(_M.on_error, task, message)
    if not ok then
        pcall(write_both, err, message)
    end
end


-- Ends a task. If an error interrupts this function before `live` is decremented, the function is called again. Code of
-- the program (on_error, __tostring of the error) runs after the task has ended and its joiners were woken.
local function finish(task, ok, ...)
    local count = select("#", ...)
    if ok and count > MOST_VALUES then
        return finish(task, false, "a task returned too many values: expected at most " .. MOST_VALUES .. ", got "
                      .. count)
    end
    if ok then
        if count > 0 then
            task.count, task.results = count, { ... }
        end
    else
        task.err = ...
    end
    remove_timer(deadlines, task)
    local co, joiners = task.co, task.joiners
    if joiners then
        for i = 1, #joiners do
            local joiner = joiners[i]
            if joiner.cause == task then
                joiner:wake()
            end
        end
        task.joiners = nil
    end
    live = live - 1
    task.co = nil
    if ok then
        task.state = "done"
    elseif task.ends and task.err == CANCELLED then
        task.state = "cancelled"
    else
        task.state = "failed"
        failed = failed + 1
        local label = task.label
        call_on_error(task, (label and 'task "' .. label .. '": ' or "") .. traceback.describe(co, task.err))
    end
end


-- Handles the results of coroutine.resume.
local function resumed(task, ok, ...)
    current = nil
    task_ids.current = task_ids.outside
    if co_status(task.co) == "dead" then
        finish(task, ok, ...)
    elseif (...) ~= WAITING then
        make_ready(task)
    end
end


local function resume(task)
    if task.cancelled and not task.begun then
        task.ends = true
        return finish(task, false, CANCELLED)
    end
    current = task
    task_ids.current = task.task_id
    task.state = "running"
    task.begun = true
    local arguments = task.arguments
    if arguments then
        task.arguments = nil
        return resumed(task, co_resume(task.co, unpack(arguments, 1, arguments.count)))
    end
    return resumed(task, co_resume(task.co))
end


local function next_timer()
    local task = first_timer(deadlines)
    return task and task.deadline or INFINITY
end


local function run_due(time)
    run_jobs(time)
    while next_timer() <= time do
        local task = first_timer(deadlines)
        if task.state == "waiting" then
            make_ready(task)
        end
        take_first_timer(deadlines)
    end
end


-- Runs the jobs and timers that are due. Returns the seconds until the next timer is due, or 0 if a task is ready.
local function idle_time()
    local idle = INFINITY
    local deadline = min(next_job(), next_timer())
    if deadline < INFINITY then
        local time = now()
        if deadline <= time then
            run_due(time)
            deadline = min(next_job(), next_timer())
        end
        idle = deadline - time
    end
    return none_ready() and idle or 0
end


-- Returns whether the scheduler is stopping. If this is a worker of `holdfast run` that has received the order to
-- finish, stops the scheduler. The signal for this order ends the sleep.
local function is_stopping()
    if not stopping and exiting() then
        _M.stop()
    end
    return stopping
end


-- Runs tasks and timers until is_over(). Woken tasks run right after the sleep, because each step in between adds to
-- the latency.
local function loop(is_over)
    background_jobs.looping = true
    while not is_over() do
        is_stopping()
        local idle = idle_time()
        local listeners = has_listeners()
        if not has_no_descriptors() then
            park_with_descriptors(idle)
        elseif listeners or idle > 0 then
            if not listeners and none_ready() and not first_timer(deadlines) then
                error("holdfast: all tasks are waiting, and nothing can wake them", 0)
            end
            park(idle)
        end
        run_ready(resume)
    end
end


-- Runs the loop. If a debug hook raises an error in the loop, the interrupted task fails with this error.
local function loop_until(is_over)
    local ok, err = pcall(loop, is_over)
    background_jobs.looping = false
    if not ok then
        current = nil
        task_ids.current = task_ids.outside
        local broken = ready.recover()
        if broken then
            finish(broken, false, err)
        end
        error(err, 0)
    end
end


local function all_ended()
    return live == 0
end


-- --- the module ----------------------------------------------------------------------------------------

_M.now = now


-- spawn(fn, ...) creates a task that will call fn(...) with at most 7990 arguments, and returns its handle. The task
-- starts in the next batch of run(). Raises an error for a wrong argument. Does not yield.
function _M.spawn(fn, ...)
    if type(fn) ~= "function" then
        error("bad function to spawn: expected a function, got " .. type(fn), 2)
    end
    local count = select("#", ...)
    if count > MOST_VALUES then
        error("too many arguments to spawn: expected at most " .. MOST_VALUES .. ", got " .. count, 2)
    end
    local task = setmetatable({
        task_id = new_task_id(), begun = false, co = co_create(fn), state = "ready",
        -- These fields are reserved: a ninth field would double the memory of a waiting task.
        woken = nil, deadline = nil, timer_position = nil, timer_order = nil,
    }, Task)
    if count > 0 then
        task.arguments = { count = count, ... }
    end
    make_ready(task)
    live = live + 1
    return task
end


-- Returns the calling task, or nil outside of tasks and in other coroutines. Does not yield.
function _M.running()
    local task = current
    return task and co_running() == task.co and task or nil
end


-- Sleeps for `seconds`; 0 only lets other tasks run. Yields in a task, and blocks the process elsewhere. Returns
-- nothing. Raises an error for a bad time, and raises "cancelled" if the task is cancelled.
function _M.sleep(seconds)
    check_time(seconds, "seconds", "sleep", 2)
    local task = waiting_task()
    if not task then
        for_seconds(seconds, park)
    elseif seconds == 0 then
        co_yield()
        go_on(task)
    else
        suspend(task, now() + seconds)
        go_on(task)
    end
end


-- Returns whether the caller is a task that may wait here. Does not yield.
function _M.is_yieldable()
    return waiting_task() ~= nil
end


local function check_descriptor(fd, mode)
    if type(fd) ~= "number" or fd < 0 or fd % 1 ~= 0 then
        error("bad descriptor to wait_fd: expected a whole number, 0 or more, got " .. describe(fd), 3)
    end
    local events = parker.EVENTS[mode]
    if not events then
        error('bad mode to wait_fd: expected "r" or "w", got ' .. describe(mode), 3)
    end
    return events
end


local function answer(events)
    if events == 0 then
        return nil, "timeout"
    end
    if parker.is_closed(events) then
        return nil, "bad descriptor"
    end
    return true
end


-- wait_fd(fd, mode [, timeout]) waits until a descriptor can be read ("r") or written ("w") without blocking, but at
-- most `timeout` seconds (default: forever). Yields in a task, and blocks the process elsewhere. Returns true, or nil
-- and "timeout" or "bad descriptor". Raises an error for a wrong argument.
function _M.wait_fd(fd, mode, timeout)
    local events = check_descriptor(fd, mode)
    if timeout == nil then
        timeout = INFINITY
    end
    check_time(timeout, "seconds", "wait_fd", 2)
    local task = waiting_task()
    if not task then
        return answer(parker.wait_for_descriptor(fd, events, timeout))
    end
    local wait = parker.add_descriptor(task, fd, events)
    suspend(task, now() + timeout, wait)
    parker.remove_descriptor(wait)
    go_on(task)
    return answer(wait.events)
end


-- Waits until the parker's waiter is woken, but at most `seconds`. host.lua uses this. The caller must be a task.
function _M.wait(waiter, seconds)
    local task = waiting_task()
    listen(waiter, task)
    local woken = suspend(task, now() + seconds)
    forget(waiter)
    go_on(task)
    if woken then
        return true
    end
    return nil, "timeout"
end


-- Runs all tasks until they have ended. Blocks the process while no task can run. Returns true. If tasks failed,
-- returns nil, a message and their number. Raises an error if a task calls it, or if all tasks wait and nothing can
-- wake any of them.
function _M.run()
    if background_jobs.looping then
        error("run() was called inside a task", 2)
    end
    loop_until(all_ended)
    stopping = false
    if failed == 0 then
        return true
    end
    local count = failed
    failed = 0
    return nil, count == 1 and "1 task failed" or count .. " tasks failed", count
end


-- Makes stopping() return true until run() returns, and wakes the tasks that wait in stopping(). Does not end tasks,
-- and does not yield.
function _M.stop()
    stopping = true
    local watchers = stop_watchers
    stop_watchers = {}
    local task = next(watchers)
    while task do  -- not with pairs(): see lock/options.lua
        if task.cause == STOP then
            task:wake()
        end
        task = next(watchers, task)
    end
end


-- Returns whether stop() was called, or `holdfast run` has ordered this worker to finish. With `seconds`, waits for
-- either event, but no longer than this number of seconds. Such a wait yields in a task, and blocks the process
-- elsewhere.
function _M.stopping(seconds)
    if seconds == nil or is_stopping() then
        return is_stopping()
    end
    check_time(seconds, "seconds", "stopping", 2)
    local task = waiting_task()
    if not task then
        for_seconds(seconds, park, is_stopping)
        return stopping
    end
    stop_watchers[task] = true
    suspend(task, now() + seconds, STOP)
    stop_watchers[task] = nil
    go_on(task)
    return stopping
end


-- on_error(task, message) is called with a failed task and its error, including the traceback. If `task` is nil, the
-- message says what failed. A program may replace this function to log errors elsewhere.
function _M.on_error(task, message)
    io.stderr:write("holdfast: ", task and "a task failed: " or "", message, "\n")
end


-- Reports failures of other modules' callbacks.
_M.report = call_on_error


-- cancel(task) ends a task with the error "cancelled" in its current or next wait. The task's locks are released as
-- after any error. A task that has not started never starts. Returns false if the task had already ended. Does not
-- yield. If the caller cancels itself, the call ends the caller.
function _M.cancel(task)
    join.check_receiver(task, "cancel", "scheduler.cancel(task)")
    if not task.co then
        return false
    end
    task.cancelled = true
    if task == current and co_running() == task.co then
        go_on(task)
    end
    task:wake()
    return true
end


join.add_methods(Task, { waiting_task = waiting_task, suspend = suspend, go_on = go_on, loop_until = loop_until,
                            now = now })


-- nginx has light threads instead of tasks. A loop inside a light thread would block the worker.
if require("resty.holdfast.program").is_nginx then
    for name, instead in pairs { spawn = "ngx.thread.spawn", run = "ngx.thread.wait", sleep = "ngx.sleep",
                                 stopping = "ngx.worker.exiting", wait_fd = "cosockets" } do
        _M[name] = function ()
            error("the scheduler does not run inside nginx; use " .. instead .. " instead of " .. name, 2)
        end
    end
end


return _M
