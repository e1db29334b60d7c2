-- The host for Neovim. In a coroutine, only the coroutine waits. If a coroutine begins its wait in the main loop, where
-- all of Neovim's functions may be called, it is also resumed there. Outside of coroutines, vim.wait() keeps the user
-- interface, timers and scheduled callbacks running. A fast event (a callback of libuv) must not call vim.wait(),
-- because some versions of the editor would then exit.

local core = require "resty.holdfast.core"
local parker = require "resty.holdfast.wait.parker"

local C = core.C
local ceil, error, max, min, pcall, select, unpack = math.ceil, error, math.max, math.min, pcall, select, unpack
local co_isyieldable, co_wrap = coroutine.isyieldable, coroutine.wrap
local in_fast_event, schedule, vim_wait = vim.in_fast_event, vim.schedule, vim.wait

local POLL_EVERY = parker.POLL_EVERY
-- The maximum duration of a single wait, in seconds.
local LONGEST = 86400
-- The maximum interval between two checks of the condition that vim.wait() waits for, in milliseconds.
local INTERVAL = 200
-- The result of vim.wait() after Ctrl-C.
local INTERRUPTED = -2

local _M = { name = "neovim" }


local function defer()
    return not in_fast_event() and schedule or nil
end

-- Starts a function in the main loop. The job runner's timer runs in a fast event. Locks can be renewed there, but
-- on_lost may call functions of the editor, which are allowed only in the main loop.
local function spawn(fn, ...)
    local count, arguments = select("#", ...), { ... }
    schedule(function () co_wrap(fn)(unpack(arguments, 1, count)) end)
end

local coroutines, runner = require("resty.holdfast.host.uv")(vim.uv or vim.loop, defer, spawn)


function _M.is_yieldable()
    if co_isyieldable() or not in_fast_event() then
        return true
    end
    return false, "in a fast event; use vim.schedule"
end


-- Returns a job runner for any caller. Outside of coroutines, locks are renewed while their objects live.
function _M.job_runner()
    return runner
end


_M.now = coroutines.now


-- Returns whether the condition became true, or nil and the reason after Ctrl-C.
local function run_loop(seconds, condition)
    local come, code = vim_wait(ceil(max(min(seconds, LONGEST), 0) * 1000), condition, INTERVAL)
    if not come and code == INTERRUPTED then
        return nil, "interrupted"
    end
    return come
end


local function never()
    return false
end


function _M.sleep(seconds)
    if co_isyieldable() then
        return coroutines.sleep(seconds)
    end
    local deadline = C.holdfast_now() + seconds
    local left = seconds
    repeat
        local come, why = run_loop(left, never)
        if come == nil then
            return nil, why
        end
        left = deadline - C.holdfast_now()
    until left <= 0
    return true
end


-- Waits in the main loop, outside of coroutines. If vim.wait() raises an error, cleans up before raising it again.
local function wait_in_main_loop(waiter, seconds)
    local me = parker.new_listener()
    local function is_woken()
        return me.woken
    end
    parker.listen(waiter, me)
    local mine, hears = coroutines.watch()
    local ok, come, why = pcall(run_loop, hears and seconds or min(seconds, POLL_EVERY), is_woken)
    coroutines.unwatch(mine)
    parker.sleep(0)
    parker.forget(waiter)
    if not ok then
        error(come, 0)
    end
    if me.woken then
        return true
    end
    return nil, why or "timeout"
end


function _M.wait(waiter, seconds)
    if co_isyieldable() then
        return coroutines.wait(waiter, seconds)
    end
    return wait_in_main_loop(waiter, seconds)
end


return _M
