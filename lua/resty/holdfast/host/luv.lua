-- The host of code that runs in a coroutine of a program whose loop is luv's: only the coroutine waits.

local uv = require "luv"

local co_isyieldable, co_wrap = coroutine.isyieldable, coroutine.wrap

local function at_once()
    return nil
end

local _M = require("resty.holdfast.host.uv")(uv, at_once)

_M.name = "luv"

local runner = require("resty.holdfast.host.uv_job_runner")(uv, function (fn, ...) co_wrap(fn)(...) end)


-- Which coroutine is the loop's, nobody can tell.
function _M.is_yieldable()
    if co_isyieldable() then
        return true
    end
    if uv.loop_mode() then
        return false, "a callback of the loop; start a coroutine there"
    end
    return false
end


-- Also in callbacks, whose locks are renewed as long as their objects are there.
function _M.job_runner()
    return (co_isyieldable() or uv.loop_mode()) and runner or nil
end


return _M
