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


function _M.wait(waiter, seconds)
    return parker.wait(waiter, seconds, parker.sleep)
end


return _M
