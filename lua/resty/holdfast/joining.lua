-- The methods of task handles: who waits for the end of a task, and what it gets.

local chores = require "resty.holdfast.chores"
local describe = require("resty.holdfast.core").describe

local error = error
local getmetatable = getmetatable
local unpack = unpack

local _M = {}


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


-- For the scheduler, which lends what it knows: waiting_task() is the caller, if it may wait; suspend(task) lets the
-- others run until somebody wakes it; loop_until(is_over) runs tasks.
function _M.add_methods(Task, waiting_task, suspend, loop_until)
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

    local function wait_for_end(task)
        local me = waiting_task()
        if not me then
            if chores.looping then
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
end


return _M
