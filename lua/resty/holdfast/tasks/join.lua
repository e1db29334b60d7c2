-- The methods of task handles: join, status and name.

local background_jobs = require("resty.holdfast.tasks.queues").background_jobs
local core = require "resty.holdfast.core"

local add_job, remove_job = background_jobs.add, background_jobs.remove
local check_time, describe = core.check_time, core.describe
local error, getmetatable, type, unpack = error, getmetatable, type, unpack

local INFINITY = math.huge

local _M = {}

local methods


-- Raises an error for a receiver that is not a task. The error names the line that called the method.
function _M.check_receiver(task, method, usage)
    if getmetatable(task) ~= methods then
        error("bad receiver of " .. method .. ": expected a task, got " .. describe(task) .. "; call it as "
              .. (usage or "task:" .. method .. "()"), 3)
    end
end

local check_receiver = _M.check_receiver


-- Returns whether a wait of `task` for `other` would close a cycle of tasks that wait for each other without a time
-- limit.
local function closes_cycle(task, other)
    while other do
        if other == task then
            return true
        end
        local has_end = other.timer_position and other.deadline < INFINITY
        other = other.state == "waiting" and not has_end and other.cause
    end
    return false
end


local function leave(task, me)
    local joiners = task.joiners or {}
    for i = #joiners, 1, -1 do
        if joiners[i] == me then
            joiners[i] = joiners[#joiners]
            joiners[#joiners] = nil
        end
    end
end


local function nothing()
end


-- Adds the methods to the class Task. `scheduler` has three functions besides go_on(). waiting_task() returns the
-- caller if it may wait. suspend(task, deadline, cause) lets other tasks run until a wake-up, after which go_on(task)
-- must be called. loop_until(is_over) runs tasks until is_over() returns true.
function _M.add_methods(Task, scheduler)
    local go_on, loop_until, now = scheduler.go_on, scheduler.loop_until, scheduler.now
    local suspend, waiting_task = scheduler.suspend, scheduler.waiting_task
    methods = Task

    -- Returns "ready", "running", "waiting", "done", "failed" or "cancelled". Does not yield.
    function Task.status(task)
        check_receiver(task, "status")
        return task.state
    end

    -- name(text) sets the task's name in error messages, and returns the task. name() returns the name, or nil. Does
    -- not yield.
    function Task.name(task, text)
        check_receiver(task, "name")
        if text == nil then
            return task.label
        end
        if type(text) ~= "string" then
            error("bad name of a task: expected a string, got " .. type(text), 2)
        end
        task.label = text
        return task
    end

    local function run_until_end(task, deadline)
        if background_jobs.looping then
            error("join() was called where a task cannot wait", 4)
        end
        local alarm = deadline and { run = nothing }
        if alarm then
            add_job(alarm, deadline)
        end
        loop_until(function () return task.co == nil or deadline and now() >= deadline end)
        if alarm then
            remove_job(alarm)
        end
    end

    local function wait_for_end(task, deadline)
        local me = waiting_task()
        if not me then
            return run_until_end(task, deadline)
        end
        if (deadline or INFINITY) == INFINITY and closes_cycle(me, task) then
            error("join() would never return: the task is waiting for its caller", 3)
        end
        local joiners = task.joiners or {}
        task.joiners = joiners
        joiners[#joiners + 1] = me
        suspend(me, deadline, task)
        leave(task, me)
        go_on(me)
    end

    -- Waits until the task ends, but at most `timeout` seconds (default: forever). Yields in a task; elsewhere, runs
    -- all tasks in the meantime. Returns true and the results of the task. Returns nil and the task's error if it
    -- failed or was cancelled, or nil and "timeout". Raises an error if the caller cannot wait here, or if the call
    -- would close a cycle of joins.
    function Task.join(task, timeout)
        check_receiver(task, "join")
        if timeout ~= nil then
            check_time(timeout, "timeout", "join", 2)
        end
        if task.co then
            wait_for_end(task, timeout and now() + timeout)
        end
        if task.co then
            return nil, "timeout"
        end
        if task.state == "failed" or task.state == "cancelled" then
            return nil, task.err
        end
        if task.results then
            return true, unpack(task.results, 1, task.count)
        end
        return true
    end
end


return _M
