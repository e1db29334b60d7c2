-- Tasks: coroutines of one process that wait without stopping each other. Manual: docs/resty.holdfast.scheduler.md.
--
-- A task is in exactly one place: running (`current`), in the run queue, or waiting. A waiting task is in the timers
-- (sleep, wait with a limit), among the parker's listeners (wait), among another task's joiners (join), or in
-- `stop_watchers`. The first event calls wake, which takes the task out of the timers; the task itself leaves the other
-- lists when it runs again.

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
local MOST_VALUES = 7990  -- that a task takes or returns: unpack gives less than 8000

local _M = {}

local Task = {}
Task.__index = Task

-- What a waiting task yields; any other yield only lets the others run.
local WAITING = {}
-- The cause of the wait of a task in `stop_watchers`.
local STOP = {}
-- The error that ends a cancelled task.
local CANCELLED = "cancelled"

local current
local deadlines = timers.new()
local failed = 0
local live = 0
local stop_watchers = {}
local stopping = false


-- No tail call: those of C functions are not compiled.
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


-- The calling task, if it may wait. It may not in a coroutine that it runs for itself, nor where Lua was called from C
-- (a callback of table.sort, the main chunk of a module in require): the yield would go astray.
local function waiting_task()
    local task = current
    return task and co_running() == task.co and co_isyieldable() and task or nil
end


-- Lets the others run until task:wake() or the deadline; whether the task was woken. A cancelled task does not wait.
-- The caller must call go_on() next. `cause`: what else the task waits for. An error of a hook may leave the task in an
-- old list, so tasks in a list are compared with it.
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


-- Ends the task if it was cancelled meanwhile, by an error like any other. Call it after a wait, when nothing of the
-- wait is left.
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


-- Raises nothing: the program may even have closed its standard error.
local function call_on_error(task, message)
    local ok, err = pcall(_M.on_error, task, message)
    if not ok then
        pcall(write_both, err, message)
    end
end


-- If an error cuts this off before `live` is counted down, it is called again. Code of the user (on_error, __tostring
-- of the error) runs after the task has ended and its joiners are woken.
local function finish(task, ok, ...)
    local count = select("#", ...)
    if ok and count > MOST_VALUES then
        return finish(task, false, "a task returned too many values: at most " .. MOST_VALUES .. ", not " .. count)
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


-- Handles what coroutine.resume returned.
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


-- Runs what is due. The seconds until something is due next, unless a waiter is woken.
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


-- Stops the scheduler when the worker of `holdfast run` is told to finish; the signal ends the sleep.
local function is_stopping()
    if not stopping and exiting() then
        _M.stop()
    end
    return stopping
end


-- Tasks that a wake-up concerns run right after the sleep: each step in between adds to the latency.
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
                error("holdfast: every task waits, and nothing can wake one", 0)
            end
            park(idle)
        end
        run_ready(resume)
    end
end


-- The error may be a hook's: the task that it interrupted fails with it.
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


-- A new task, which begins in the next batch of run().
function _M.spawn(fn, ...)
    if type(fn) ~= "function" then
        error("bad function to spawn: function expected, got " .. type(fn), 2)
    end
    local count = select("#", ...)
    if count > MOST_VALUES then
        error("too many arguments to spawn: at most " .. MOST_VALUES .. " expected, got " .. count, 2)
    end
    local task = setmetatable({
        task_id = new_task_id(), begun = false, co = co_create(fn), state = "ready",
        -- Reserve their positions: one field more than eight would double the room that a waiting task takes.
        woken = nil, deadline = nil, timer_position = nil, timer_order = nil,
    }, Task)
    if count > 0 then
        task.arguments = { count = count, ... }
    end
    make_ready(task)
    live = live + 1
    return task
end


function _M.running()
    local task = current
    return task and co_running() == task.co and task or nil
end


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


-- Whether the caller is a task that may wait here.
function _M.is_yieldable()
    return waiting_task() ~= nil
end


local function check_descriptor(fd, mode)
    if type(fd) ~= "number" or fd < 0 or fd % 1 ~= 0 then
        error("bad descriptor to wait_fd: a whole number, 0 or more, expected, got " .. describe(fd), 3)
    end
    local events = parker.EVENTS[mode]
    if not events then
        error('bad mode to wait_fd: "r" or "w" expected, got ' .. describe(mode), 3)
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


-- Waits until a descriptor can be read ("r") or written ("w") without waiting, at most `timeout` seconds.
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


-- Waits until the parker's waiter is woken, at most `seconds`. For host.lua; the caller is a task.
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


function _M.run()
    if background_jobs.looping then
        error("run() is called inside a task", 2)
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


function _M.stop()
    stopping = true
    local watchers = stop_watchers
    stop_watchers = {}
    local task = next(watchers)
    while task do  -- not by pairs: see lock/options.lua
        if task.cause == STOP then
            task:wake()
        end
        task = next(watchers, task)
    end
end


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


-- Called with the task and its error with traceback; a program may replace it to log elsewhere. Without a task the
-- message says what has failed.
function _M.on_error(task, message)
    io.stderr:write("holdfast: ", task and "a task failed: " or "", message, "\n")
end


-- For other modules with callbacks that may fail.
_M.report = call_on_error


-- Ends a task by an error where it waits now or next: its cleanup releases locks. A task that has not begun never does.
-- Whether there was something to end.
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


-- nginx runs its own light threads; a loop inside one of them would stop the worker.
if require("resty.holdfast.program").is_nginx then
    for name, instead in pairs { spawn = "ngx.thread.spawn", run = "ngx.thread.wait", sleep = "ngx.sleep",
                                 stopping = "ngx.worker.exiting", wait_fd = "cosockets" } do
        _M[name] = function ()
            error("the scheduler does not run inside nginx: instead of " .. name .. " use " .. instead, 2)
        end
    end
end


return _M
