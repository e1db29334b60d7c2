-- Waits for coroutines of a program whose loop is libuv's, which luv and Neovim have in common: the coroutine yields,
-- and is resumed from a callback of the loop.
--
-- Each wait has a timer. One poll handle watches the parker's descriptor as long as somebody waits, so that a loop
-- without waiters ends.

local core = require "resty.holdfast.core"
local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.parker"

local C = core.C
local ceil = math.ceil
local co_resume = coroutine.resume
local co_running = coroutine.running
local co_yield = coroutine.yield
local error = error
local max = math.max
local min = math.min
local traceback = debug.traceback

-- Without a descriptor a waiter looks this often.
local LOOK_EVERY = 0.005


local function resume(co)
    local ok, err = co_resume(co)
    if not ok then
        error(traceback(co, err), 0)
    end
end


-- A host for `uv`, the module of libuv's functions, without name and is_yieldable. Coroutines are resumed by what
-- defer() gives: a function to be called with the one that resumes, or nil when that may be done in any callback.
return function (uv, defer)
    local host = { now = none.now }
    local watchers = 0
    local poll, poll_fd

    local function look()
        parker.sleep(0)
    end

    local function close_poll()
        if poll then
            if not poll:is_closing() then  -- so when the program closed all handles
                poll:close()
            end
            poll, poll_fd = nil, nil
        end
    end

    -- Whether the loop hears of wake-ups. unwatch() has to follow.
    function host.watch()
        watchers = watchers + 1
        local fd = parker.fd()
        if fd ~= poll_fd or poll and poll:is_closing() then
            close_poll()
            poll = fd and uv.new_poll(fd)
            if poll then
                poll_fd = fd
                poll:start("r", look)
            end
        end
        return poll ~= nil
    end

    function host.unwatch()
        watchers = watchers - 1
        if watchers == 0 then
            close_poll()
        end
    end

    local function arm(sleeper, seconds)
        uv.update_time()
        sleeper.timer:start(ceil(max(seconds, 0) * 1000), 0, sleeper.ring)
    end

    -- Yields until the timer or wake() comes. A stranger who resumes the coroutine ends this too.
    local function suspend(sleeper, seconds)
        local co = co_running()
        local later = defer()
        local over = false
        local function go_on()
            if not over then
                over = true
                resume(co)
            end
        end
        sleeper.timer = uv.new_timer()
        sleeper.ring = later and function () later(go_on) end or go_on
        arm(sleeper, seconds)
        co_yield()
        over = true
        sleeper.timer:close()
    end

    function host.sleep(seconds)
        local deadline = C.holdfast_now() + seconds
        local left = seconds
        repeat
            suspend({}, left)
            left = deadline - C.holdfast_now()
        until left <= 0
    end

    -- Resumes the coroutine soon, but not from inside whoever found out that it is woken.
    local function wake(me)
        if not me.woken then
            me.woken = true
            arm(me, 0)
        end
    end

    function host.wait(waiter, seconds)
        local me = { wake = wake, woken = false }
        parker.listen(waiter, me)
        if host.watch() then
            suspend(me, seconds)
        else
            suspend(me, min(seconds, LOOK_EVERY))
            look()
        end
        host.unwatch()
        parker.forget(waiter)
        if me.woken then
            return true
        end
        return nil, "timeout"
    end

    return host
end
