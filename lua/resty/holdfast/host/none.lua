-- The host without other coroutines to run: the process sleeps.

local core = require "resty.holdfast.core"
local parker = require "resty.holdfast.wait.parker"

local C = core.C

-- A wait here stops the whole Lua state.
local _M = { name = "none", stops_all = true }


function _M.is_yieldable()
    return true
end


-- No tail call: those of C functions are not compiled.
function _M.now()
    local time = C.holdfast_now()
    return time
end


function _M.sleep(seconds)
    parker.for_seconds(seconds, parker.sleep)
end


-- Wake-ups of other waiters, and signals, end the sleep but not the wait.
function _M.wait(waiter, seconds)
    local listener = parker.new_listener()
    parker.listen(waiter, listener)
    local deadline = C.holdfast_now() + seconds
    local left = seconds
    repeat
        parker.sleep(left)
        if listener.woken then
            break
        end
        left = deadline - C.holdfast_now()
    until left <= 0
    parker.forget(waiter)
    return parker.outcome(listener.woken)
end


return _M
