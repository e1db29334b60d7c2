-- Runs functions in tasks of the scheduler.

local scheduler = require "resty.holdfast.scheduler"

local _M = {}


-- Runs a function as a task. Returns when the task and all tasks that it spawned have ended, and raises the function's
-- error.
function _M.run(fn)
    local task = scheduler.spawn(fn)
    scheduler.run()
    assert(task:join())
end


return _M
