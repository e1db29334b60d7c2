-- Tasks: coroutines of one process that wait without stopping each other. Manual: docs/resty.holdfast.scheduler.md.
--
-- A task is in one of these places, and nowhere else: running (`current`), in the ready queue, or waiting. A waiting
-- task is in the timers (sleep, wait with a limit), among the parker's listeners (wait), in the list of another task
-- that it joins, or in `stop_watchers`. Whatever comes first calls wake, which takes it out of the timers; the others
-- are left by the task itself when it runs again.

local core = require "resty.holdfast.core"
local parker = require "resty.holdfast.parker"
local timers = require "resty.holdfast.timers"
local worker = require "resty.holdfast.worker"

local C = core.C
local co_create = coroutine.create
local co_isyieldable = coroutine.isyieldable
local co_resume = coroutine.resume
local co_running = coroutine.running
local co_status = coroutine.status
local co_yield = coroutine.yield
local describe = core.describe
local error = error
local exiting = worker.exiting
local getmetatable = getmetatable
local is_duration = core.is_duration
local max = math.max
local pairs = pairs
local pcall = pcall
local select = select
local setmetatable = setmetatable
local tostring = tostring
local traceback = debug.traceback
local type = type
local unpack = unpack

local INFINITY = math.huge

local _M = {}

local Task = {}
Task.__index = Task

-- What a task that waits yields; any other yield only lets the others run.
local WAITING = {}

local current
local deadlines = timers.new()
local failed = 0
local live = 0
local looping = false
local ready, ready_count = {}, 0
local spare = {}
local stop_watchers = {}
local stopping = false


local function now()
    return C.holdfast_now()
end


local function make_ready(task)
    task.state = "ready"
    ready_count = ready_count + 1
    ready[ready_count] = task
end


function Task.wake(task)
    if task.state == "waiting" then
        deadlines:remove(task)
        task.woken = true
        make_ready(task)
    end
end


-- The task that calls this, if it may wait. Not so in a coroutine that a task runs for itself, nor where Lua was called
-- from C (a callback of table.sort, the main chunk of a module in require): a yield would go astray there.
local function waiting_task()
    local task = current
    return task and co_running() == task.co and co_isyieldable() and task or nil
end


-- Lets the others run until somebody calls task:wake() or the deadline comes. Whether it was the former.
local function suspend(task, deadline)
    if deadline then
        deadlines:add(task, deadline)
    end
    task.woken = false
    task.state = "waiting"
    co_yield(WAITING)
    return task.woken
end


local function call_on_error(task, message)
    local ok, err = pcall(_M.on_error, task, message)
    if not ok then
        io.stderr:write("holdfast: scheduler.on_error failed: ", tostring(err), "\nwhile reporting: ", message, "\n")
    end
end


local function finish(task, ok, ...)
    live = live - 1
    if ok then
        task.state = "done"
        task.count = select("#", ...)
        if task.count > 0 then
            task.results = { ... }
        end
    else
        task.state = "failed"
        task.err = ...
        failed = failed + 1
        call_on_error(task, traceback(task.co, tostring(task.err)))
    end
    task.co = nil
    local joiners = task.joiners
    if joiners then
        task.joiners = nil
        for i = 1, #joiners do
            joiners[i]:wake()
        end
    end
end


-- What is to be done with a task after coroutine.resume.
local function resumed(task, ok, ...)
    current = nil
    if co_status(task.co) == "dead" then
        finish(task, ok, ...)
    elseif (...) ~= WAITING then
        make_ready(task)
    end
end


local function resume(task)
    current = task
    task.state = "running"
    local arguments = task.arguments
    if arguments then
        task.arguments = nil
        return resumed(task, co_resume(task.co, unpack(arguments, 1, arguments.count)))
    end
    return resumed(task, co_resume(task.co))
end


-- Runs each task that is ready now; those that become ready meanwhile have to wait for the next turn.
local function run_ready()
    local batch, count = ready, ready_count
    ready, ready_count = spare, 0
    spare = batch
    for i = 1, count do
        local task = batch[i]
        batch[i] = false
        resume(task)
    end
end


local function wake_due()
    local task = deadlines:first()
    if not task then
        return
    end
    local time = now()
    while task and task.deadline <= time do
        deadlines:remove(task)
        make_ready(task)
        task = deadlines:first()
    end
end


-- How long nothing will happen, unless a waiter is woken.
local function idle_time()
    if ready_count > 0 then
        return 0
    end
    local task = deadlines:first()
    if task then
        return max(task.deadline - now(), 0)
    end
    return INFINITY
end


-- A worker of `holdfast run` that is told to finish stops its scheduler; the signal that comes with it ends the sleep.
local function is_stopping()
    if not stopping and exiting() then
        _M.stop()
    end
    return stopping
end


local function loop(is_over)
    while not is_over() do
        is_stopping()
        local idle = idle_time()
        if parker.has_listeners() then
            parker.sleep(idle)
        elseif idle == INFINITY then
            error("holdfast: every task waits for something that cannot come", 0)
        elseif idle > 0 then
            parker.sleep(idle)
        end
        wake_due()
        run_ready()
    end
end


local function loop_until(is_over)
    looping = true
    local ok, err = pcall(loop, is_over)
    looping = false
    if not ok then
        error(err, 0)
    end
end


local function all_ended()
    return live == 0
end


local function check_seconds(seconds, name)
    if not is_duration(seconds) and seconds ~= INFINITY then
        error("bad seconds to " .. name .. ": a number, 0 or more, expected, got " .. describe(seconds), 3)
    end
end


-- --- the module ----------------------------------------------------------------------------------------

_M.now = now


-- A new task. It begins in the next turn of run().
function _M.spawn(fn, ...)
    if type(fn) ~= "function" then
        error("bad function to spawn: function expected, got " .. type(fn), 2)
    end
    local task = setmetatable({ co = co_create(fn) }, Task)
    local count = select("#", ...)
    if count > 0 then
        task.arguments = { count = count, ... }
    end
    live = live + 1
    make_ready(task)
    return task
end


function _M.running()
    local task = current
    return task and co_running() == task.co and task or nil
end


-- Ends early when `is_over`, which may be left out, says so after a signal.
local function block(seconds, is_over)
    local deadline = now() + seconds
    local left = seconds
    repeat
        parker.sleep(left)
        left = deadline - now()
    until left <= 0 or (is_over and is_over())
end


function _M.sleep(seconds)
    check_seconds(seconds, "sleep")
    local task = waiting_task()
    if not task then
        block(seconds)
    elseif seconds == 0 then
        co_yield()
    else
        suspend(task, now() + seconds)
    end
end


-- Whether the caller is a task that may wait here.
function _M.is_yieldable()
    return waiting_task() ~= nil
end


-- Waits until the parker's waiter is woken, at most `seconds`. For host/scheduler.lua: the caller is a task.
function _M.wait(waiter, seconds)
    local task = waiting_task()
    parker.listen(waiter, task)
    local woken = suspend(task, now() + seconds)
    parker.forget(waiter)
    if woken then
        return true
    end
    return nil, "timeout"
end


function _M.run()
    if looping then
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
    for task in pairs(watchers) do
        task:wake()
    end
end


function _M.stopping(seconds)
    if seconds == nil or is_stopping() then
        return is_stopping()
    end
    check_seconds(seconds, "stopping")
    local task = waiting_task()
    if not task then
        block(seconds, is_stopping)
        return stopping
    end
    stop_watchers[task] = true
    suspend(task, now() + seconds)
    stop_watchers[task] = nil
    return stopping
end


-- Called with the task and its error with traceback; to be replaced by whoever wants to log elsewhere.
function _M.on_error(_, message)
    io.stderr:write("holdfast: a task failed: ", message, "\n")
end


-- --- task handles --------------------------------------------------------------------------------------

-- The line to blame is the one that called the method.
local function check_receiver(task, method)
    if getmetatable(task) ~= Task then
        error("bad receiver of " .. method .. ": a task expected, got " .. describe(task) .. "; call it as task:"
              .. method .. "()", 3)
    end
end


function Task.status(task)
    check_receiver(task, "status")
    return task.state
end


-- Would the wait of `task` for `other` close a circle of tasks that wait for each other?
local function closes_circle(task, other)
    while other do
        if other == task then
            return true
        end
        other = other.joining
    end
    return false
end


local function wait_for_end(task)
    local me = waiting_task()
    if not me then
        if looping then
            error("join() is called where a task cannot wait", 3)
        end
        return loop_until(function () return task.co == nil end)
    end
    if closes_circle(me, task) then
        error("join() would wait for ever: the task waits for its caller", 3)
    end
    local joiners = task.joiners or {}
    task.joiners = joiners
    joiners[#joiners + 1] = me
    me.joining = task
    suspend(me)
    me.joining = nil
end


function Task.join(task)
    check_receiver(task, "join")
    if task.co then
        wait_for_end(task)
    end
    if task.state == "failed" then
        return nil, task.err
    end
    if task.results then
        return true, unpack(task.results, 1, task.count)
    end
    return true
end


return _M
