-- The host of coroutines under luv's loop: only the coroutine waits.

local uv = require "luv"

local co_isyieldable, co_wrap = coroutine.isyieldable, coroutine.wrap

local function at_once()
    return nil
end

local function spawn(fn, ...)
    co_wrap(fn)(...)
end

local _M, runner = require("resty.holdfast.host.uv")(uv, at_once, spawn)

_M.name = "luv"


-- Any coroutine may belong to the loop, because the loop's coroutines look like any others.
function _M.is_yieldable()
    if co_isyieldable() then
        return true
    end
    if uv.loop_mode() then
        return false, "in a callback of the loop; start a coroutine there"
    end
    return false
end


-- Returns a job runner even in callbacks, whose locks are renewed while the lock objects live.
function _M.job_runner()
    return (co_isyieldable() or uv.loop_mode()) and runner or nil
end


return _M
