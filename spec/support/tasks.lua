-- Claims that take a task of the scheduler.

local scheduler = require "resty.holdfast.scheduler"

local _M = {}


-- Runs a function as a task, with what it spawns, to the end of all; its error is an error.
function _M.run(fn)
    local task = scheduler.spawn(fn)
    scheduler.run()
    assert(task:join())
end


return _M
