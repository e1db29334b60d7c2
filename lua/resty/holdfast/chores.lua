-- What the scheduler does besides its tasks: chores. A chore is a table with a method run, called once, some time after
-- its deadline, by the scheduler while it runs tasks. Chores keep no run() from ending. They must not wait; a chore
-- that has to do so spawns a task. In nginx timers run them (host/nginx_chores.lua).

local timers = require "resty.holdfast.timers"

local ipairs = ipairs

local INFINITY = math.huge

-- `looping`: whether the scheduler runs tasks, and with them chores. `keeper`: who runs them where the scheduler does
-- not; his changed() is called after each that is added.
local _M = { looping = false, keeper = false }

local deadlines = timers.new()


-- The chore is in no list.
function _M.add(chore, deadline)
    deadlines:add(chore, deadline)
    if _M.keeper then
        _M.keeper.changed()
    end
end


function _M.remove(chore)
    deadlines:remove(chore)
end


-- When there is something to do.
function _M.next()
    local chore = deadlines:first()
    return chore and chore.deadline or INFINITY
end


-- Runs what is due at this time.
function _M.run(time)
    local chore = deadlines:first()
    while chore and chore.deadline <= time do
        deadlines:take_first()
        chore:run()
        chore = deadlines:first()
    end
end


-- Takes out those that have nothing to do any more. Each says so itself, by its method is_over.
function _M.drop_over()
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


return _M
