-- Background jobs run besides the coroutines of a program. A job is a table with a method run, which the loop of its
-- list calls once, some time after its deadline. Jobs keep no loop from ending. They must not wait; a job that has to
-- wait begins a coroutine.
--
-- This module is the list of the scheduler, and in nginx of the worker's timers (host/nginx_jobs.lua). Other loops have
-- their own lists.

local timers = require "resty.holdfast.tasks.timers"

local ipairs = ipairs

local INFINITY = math.huge


-- A new list. Calls changed() when the first deadline may have changed.
local function new(changed)
    local deadlines = timers.new()
    local list = {}

    -- The job must be in no list.
    function list.add(job, deadline)
        deadlines:add(job, deadline)
        changed()
    end

    function list.remove(job)
        deadlines:remove(job)
        changed()
    end

    -- The first deadline.
    function list.next()
        local job = deadlines:first()
        return job and job.deadline or INFINITY
    end

    -- Runs what is due at this time.
    function list.run(time)
        local job = deadlines:first()
        while job and job.deadline <= time do
            deadlines:take_first()
            job:run()
            job = deadlines:first()
        end
    end

    -- Takes out the jobs that are over by their method is_over().
    function list.drop_over()
        local over = {}
        for place = 1, deadlines.count do
            local job = deadlines[place]
            if job:is_over() then
                over[#over + 1] = job
            end
        end
        for _, job in ipairs(over) do
            deadlines:remove(job)
        end
    end

    return list
end


local _M
_M = new(function ()
    if _M.runner then
        _M.runner.changed()
    end
end)

_M.new = new

-- `looping`: whether the scheduler runs tasks, and with them jobs. `runner`: runs the jobs in place of the scheduler;
-- false: the scheduler does.
_M.looping = false
_M.runner = false

return _M
