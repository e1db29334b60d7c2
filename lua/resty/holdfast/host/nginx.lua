-- The host of a worker of nginx: only the light thread waits, by a semaphore of its own. The wake timer
-- (nginx_wake_timer.lua) posts it; without one, the waiter looks from time to time.

local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.wait.parker"
local semaphore = require "ngx.semaphore"
local threads = require "resty.holdfast.host.nginx_threads"
local wake_timer = require "resty.holdfast.host.nginx_wake_timer"

local get_phase, sleep = ngx.get_phase, ngx.sleep
local max, min = math.max, math.min

local _M = { name = "nginx", now = none.now }

-- How often a waiter looks without a wake timer.
local LOOK_EVERY = 0.005
-- nginx's timers count milliseconds: shorter waits are none.
local SHORTEST = 0.001

-- The phases of http { } and stream { } that can wait. For others nginx itself is asked.
local YIELDABLE = {
    access = true, content = true, precontent = true, preread = true, rewrite = true, server_rewrite = true,
    timer = true, proxy_ssl_cert = true, proxy_ssl_verify = true, ssl_cert = true, ssl_client_hello = true,
    ssl_session_fetch = true,
}

local IN_INIT = "cannot wait in init_by_lua*, where nothing else runs yet; use init_worker_by_lua* and there "
                .. "ngx.timer.at(0, ...)"

-- Objects of earlier waits, for reuse.
local idle, idle_count = {}, 0

local probe


-- Whether the running phase can wait, or nginx's reason against it. sleep(0) would log a complaint in an nginx without
-- OpenResty's patch.
local function ask()
    probe = probe or semaphore.new(0)
    local _, err = probe:wait(0)
    return err == "timeout", err
end


function _M.is_yieldable()
    local phase = get_phase()
    if not YIELDABLE[phase] then
        if phase == "init" then
            return false, IN_INIT, true
        end
        local ok, err = ask()
        if not ok then
            return false, err, true
        end
    end
    if not threads.can_yield() then
        return false, "Lua was called from C"
    end
    return true
end


function _M.sleep(seconds)
    sleep(seconds)
end


-- nginx removes a light thread that is killed, or ends with its request, from the waiters of the semaphore. Nothing
-- waits for it then, and the waiter must leave its queue.
local function wake(me)
    if me.woken then
        return
    end
    if me.blocked and me.semaphore:count() >= 0 then
        return wake_timer.drop(me.waiter)
    end
    me.woken = true
    me.semaphore:post(1)
end


local function take()
    local me = idle[idle_count]
    if me then
        idle[idle_count] = nil
        idle_count = idle_count - 1
        return me
    end
    return { semaphore = semaphore.new(0), wake = wake, woken = false, waiter = 0, blocked = false }
end


local function give_back(me, heard)
    if me.woken and not heard then
        me.semaphore:wait(0)  -- the post came after the time was over
    end
    me.woken = false
    idle_count = idle_count + 1
    idle[idle_count] = me
end


-- A light thread that is killed while it waits never comes back here; the wake timer finds out.
function _M.wait(waiter, seconds)
    local me = take()
    local longest, visit = wake_timer.enter(waiter, max(seconds, SHORTEST))
    local heard
    me.waiter, me.blocked = waiter, visit ~= nil
    parker.listen(waiter, me)
    if visit then
        heard = me.semaphore:wait(longest)
        wake_timer.leave(waiter, visit, heard)
    else
        sleep(max(min(seconds, LOOK_EVERY), SHORTEST))
        parker.sleep(0)
    end
    parker.forget(waiter)
    local woken = me.woken
    give_back(me, heard)
    return parker.outcome(woken)
end


return _M
