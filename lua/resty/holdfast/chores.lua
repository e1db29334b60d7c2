-- What is done besides the coroutines of a program: chores. A chore is a table with a method run, called once, some
-- time after its deadline, by the loop whose list it is in, while that runs. Chores keep no loop from ending. They must
-- not wait; a chore that has to do so begins a coroutine.
--
-- This module is the list of the scheduler, and in nginx that of the worker's timers (host/nginx_chores.lua). Other
-- loops have lists of their own.

local timers = require "resty.holdfast.timers"

local ipairs = ipairs

local INFINITY = math.huge


-- A list. changed() is called when the first deadline may be another.
local function new(changed)
    local deadlines = timers.new()
    local list = {}

    -- The chore is in no list.
    function list.add(chore, deadline)
        deadlines:add(chore, deadline)
        changed()
    end

    function list.remove(chore)
        deadlines:remove(chore)
        changed()
    end

    -- When there is something to do.
    function list.next()
        local chore = deadlines:first()
        return chore and chore.deadline or INFINITY
    end

    -- Runs what is due at this time.
    function list.run(time)
        local chore = deadlines:first()
        while chore and chore.deadline <= time do
            deadlines:take_first()
            chore:run()
            chore = deadlines:first()
        end
    end

    -- Takes out those that have nothing to do any more. Each says so itself, by its method is_over.
    function list.drop_over()
        local over = {}
        for place = 1, deadlines.count do
            local chore = deadlines[place]
            if chore:is_over() then
                over[#over + 1] = chore
            end
        end
        for _, chore in ipairs(over) do
            deadlines:remove(chore)
        end
    end

    return list
end


local _M
_M = new(function ()
    if _M.keeper then
        _M.keeper.changed()
    end
end)

_M.new = new

-- `looping`: whether the scheduler runs tasks, and with them chores. `keeper`: who runs them where the scheduler does
-- not.
_M.looping = false
_M.keeper = false

return _M
