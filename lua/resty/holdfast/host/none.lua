-- The host for a program without an event loop. A wait blocks the process.

local core = require "resty.holdfast.core"
local parker = require "resty.holdfast.wait.parker"

local C = core.C

local _M = { name = "none", stops_all = true }


function _M.is_yieldable()
    return true
end


-- Makes no tail call, because LuaJIT does not compile tail calls to C functions.
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
