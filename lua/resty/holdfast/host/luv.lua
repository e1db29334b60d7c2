-- The host for coroutines under luv's loop. Only the calling coroutine waits.

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


-- Accepts any coroutine, because the loop's coroutines look like other coroutines.
function _M.is_yieldable()
    if co_isyieldable() then
        return true
    end
    if uv.loop_mode() then
        return false, "in a callback of the loop; start a coroutine there"
    end
    return false
end


-- Returns a job runner, even in a callback. Locks that a callback takes are renewed while the lock objects live.
function _M.job_runner()
    return (co_isyieldable() or uv.loop_mode()) and runner or nil
end


return _M
