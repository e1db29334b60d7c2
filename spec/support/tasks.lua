-- For tests that need a task of the scheduler.

local scheduler = require "resty.holdfast.scheduler"

local _M = {}


-- Runs a function as a task until the task and all tasks that it spawns have ended; raises its error.
function _M.run(fn)
    local task = scheduler.spawn(fn)
    scheduler.run()
    assert(task:join())
end


return _M
