-- The host of code that runs in Neovim. In a coroutine only the coroutine waits; it goes on in the main loop if it
-- began to wait there, where all of Neovim's functions may be called. Elsewhere in the main loop vim.wait() lets the
-- user interface, timers and scheduled callbacks go on. In a fast event, which is a callback of libuv's, vim.wait()
-- must not be called: some versions end the editor then.

local core = require "resty.holdfast.core"
local parker = require "resty.holdfast.wait.parker"

local C = core.C
local ceil, error, max, min, pcall, select, unpack = math.ceil, error, math.max, math.min, pcall, select, unpack
local co_isyieldable, co_wrap = coroutine.isyieldable, coroutine.wrap
local in_fast_event, schedule, vim_wait = vim.in_fast_event, vim.schedule, vim.wait

-- Without a descriptor a waiter looks this often.
local LOOK_EVERY = 0.005
-- Longer waits than this, in seconds, are made of several.
local LONGEST = 86400
-- How often vim.wait() asks without having heard of anything, in milliseconds.
local INTERVAL = 200
-- What vim.wait() says to Ctrl-C.
local INTERRUPTED = -2

local _M = { name = "neovim" }


local function defer()
    return not in_fast_event() and schedule or nil
end

local uv = vim.uv or vim.loop
local coroutines = require("resty.holdfast.host.uv")(uv, defer)

-- The timer runs in a fast event: renewals may be made there, and on_lost wants to call the editor.
local function spawn(fn, ...)
    local count, arguments = select("#", ...), { ... }
    schedule(function () co_wrap(fn)(unpack(arguments, 1, count)) end)
end

local runner = require("resty.holdfast.host.uv_job_runner")(uv, spawn)


function _M.is_yieldable()
    if co_isyieldable() or not in_fast_event() then
        return true
    end
    return false, "a fast event; use vim.schedule"
end


-- Everywhere: outside of coroutines locks are renewed as long as their objects are there.
function _M.job_runner()
    return runner
end


_M.now = coroutines.now


-- nil and the reason when the user has had enough; otherwise whether the condition has come true.
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


local function wake(me)
    me.woken = true
end


-- In the main loop, outside of coroutines. An error of vim.wait()'s is raised when all is cleaned up.
local function wait_in_main_loop(waiter, seconds)
    local me = { wake = wake, woken = false }
    local function is_woken()
        return me.woken
    end
    parker.listen(waiter, me)
    local mine, hears = coroutines.watch()
    local ok, come, why = pcall(run_loop, hears and seconds or min(seconds, LOOK_EVERY), is_woken)
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
