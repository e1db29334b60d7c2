-- Implements the waits of coroutines under libuv's loop, for luv and Neovim. The coroutine yields, and a callback of
-- the loop resumes it.
--
-- Each wait has a timer. One poll handle watches the parker's descriptor while there are waiters, so that a loop
-- without waiters can end. If a program closes all handles of its loop (uv.walk) during a wait, the waiting coroutine
-- is never resumed.

local abandon = require("resty.holdfast.wait.wait").abandon
local core = require "resty.holdfast.core"
local new_jobs = require("resty.holdfast.tasks.queues").new_jobs
local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.wait.parker"

local C = core.C
local ceil, error, max, min, traceback = math.ceil, error, math.max, math.min, debug.traceback
local co_resume, co_running, co_yield = coroutine.resume, coroutine.running, coroutine.yield

local INFINITY = math.huge
local POLL_EVERY = parker.POLL_EVERY


local function resume(co)
    local ok, err = co_resume(co)
    if not ok then
        error(traceback(co, err), 0)
    end
end


-- Creates the job runner. It has one timer, which does not keep the loop from ending. If the program closes all handles
-- of its loop, the next lock creates a new timer. The timer is never closed here, because luv crashes the process if a
-- Lua state is closed before the loop has run once more.
local function new_job_runner(uv, spawn)
    local jobs, timer
    local due = INFINITY  -- the time at which the timer runs

    local function is_ready()
        return timer and not timer:is_closing()
    end

    local function stop()
        if is_ready() then
            timer:stop()
        end
        due = INFINITY
    end

    -- Sets the timer for the first job. If the timer runs too early, it finds nothing to do.
    local function changed()
        local time = jobs.next()
        if time == INFINITY then
            return stop()
        end
        if time >= due and is_ready() then
            return
        end
        if not is_ready() then
            timer = uv.new_timer()
            timer:unref()
        end
        uv.update_time()
        timer:start(ceil(max(time - C.holdfast_now(), 0) * 1000), 0, function ()
            due = INFINITY
            jobs.run(C.holdfast_now())
            changed()
        end)
        due = time
    end

    jobs = new_jobs(function () changed() end)

    return { jobs = jobs, spawn = spawn }
end


-- Returns a host for `uv`, the module with libuv's functions, and the host's job runner. The caller adds the host's
-- fields name and is_yieldable. defer() returns a function that calls its argument later, or nil if any callback may
-- resume coroutines. spawn(fn, ...) starts a coroutine.
return function (uv, defer, spawn)
    local host = { now = none.now }
    local poll, poll_fd
    local watch = { count = 0 }  -- counts the waiters of this poll handle

    local function deliver()
        parker.sleep(0)
    end

    local function close_poll()
        if poll then
            if not poll:is_closing() then
                poll:close()
            end
            poll, poll_fd = nil, nil
        end
    end

    -- Returns the argument for unwatch(), and whether the loop gets wake-ups.
    function host.watch()
        local fd = parker.fd()
        if fd ~= poll_fd or poll and poll:is_closing() then
            if poll and poll:is_closing() then
                watch = { count = 0 }
            end
            close_poll()
            poll = fd and uv.new_poll(fd)
            if poll then
                poll_fd = fd
                poll:start("r", deliver)
            end
        end
        watch.count = watch.count + 1
        return watch, poll ~= nil
    end

    function host.unwatch(mine)
        mine.count = mine.count - 1
        if mine == watch and mine.count == 0 then
            close_poll()
        end
    end

    local function arm(sleeper, seconds)
        uv.update_time()
        sleeper.timer:start(ceil(max(seconds, 0) * 1000), 0, sleeper.on_timer)
    end

    -- Yields until the timer or wake() resumes the coroutine. If the program resumes it, the wait ends, too.
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
        sleeper.on_timer = later and function () later(go_on) end or go_on
        arm(sleeper, seconds)
        co_yield()
        over = true
        if not sleeper.timer:is_closing() then
            sleeper.timer:close()
        end
    end

    function host.sleep(seconds)
        parker.for_seconds(seconds, function (left) suspend({}, left) end)
    end

    -- Resumes the coroutine soon, but not during the call that delivers the wake-up.
    local function wake(me)
        if me.woken then
            return
        end
        if me.timer:is_closing() then
            abandon(me.waiter)
            return parker.forget(me.waiter)
        end
        me.woken = true
        arm(me, 0)
    end

    function host.wait(waiter, seconds)
        local me = { wake = wake, woken = false, waiter = waiter }
        parker.listen(waiter, me)
        local mine, hears = host.watch()
        if hears then
            suspend(me, seconds)
        else
            suspend(me, min(seconds, POLL_EVERY))
            deliver()
        end
        host.unwatch(mine)
        parker.forget(waiter)
        return parker.outcome(me.woken)
    end

    return host, new_job_runner(uv, spawn)
end
