-- The host of code that nobody could run something else for: the process sleeps.

local core = require "resty.holdfast.core"
local parker = require "resty.holdfast.parker"

local C = core.C

local _M = { name = "none" }


function _M.is_yieldable()
    return true
end


function _M.now()
    return C.holdfast_now()
end


function _M.sleep(seconds)
    local deadline = C.holdfast_now() + seconds
    local left = seconds
    repeat
        parker.sleep(left)
        left = deadline - C.holdfast_now()
    until left <= 0
end


local function wake(listener)
    listener.woken = true
end


-- Wake-ups of other waiters, and signals, end the sleep but not the wait.
function _M.wait(waiter, seconds)
    local listener = { wake = wake, woken = false }
    parker.listen(waiter, listener)
    local deadline = C.holdfast_now() + seconds
    local left = seconds
    repeat
        parker.sleep(left)
        left = deadline - C.holdfast_now()
    until listener.woken or left <= 0
    parker.forget(waiter)
    if listener.woken then
        return true
    end
    return nil, "timeout"
end


return _M
