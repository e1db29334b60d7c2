-- The host of code that runs in a worker of nginx: only the light thread waits, by a semaphore of its own. The wake
-- timer (nginx_wake_timer.lua) posts it; without one, the waiter looks from time to time.

local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.wait.parker"
local semaphore = require "ngx.semaphore"
local threads = require "resty.holdfast.host.nginx_threads"
local wake_timer = require "resty.holdfast.host.nginx_wake_timer"

require "resty.holdfast.host.nginx_jobs"

local get_phase, sleep = ngx.get_phase, ngx.sleep
local max, min = math.max, math.min

local _M = { name = "nginx", now = none.now }

-- Without a wake timer a waiter looks this often.
local LOOK_EVERY = 0.005
-- Shorter waits are none for nginx, whose timers count milliseconds.
local SHORTEST = 0.001

-- Where one can wait, in http { } and in stream { }. Of a phase that is not named here nginx itself is asked.
local YIELDABLE = {
    access = true, content = true, precontent = true, preread = true, rewrite = true, server_rewrite = true,
    timer = true, proxy_ssl_cert = true, proxy_ssl_verify = true, ssl_cert = true, ssl_client_hello = true,
    ssl_session_fetch = true,
}

local IN_INIT = "cannot wait in init_by_lua*, where nothing else runs yet; use init_worker_by_lua* and there "
                .. "ngx.timer.at(0, ...)"

-- Of earlier waits, to be used again.
local idle, idle_count = {}, 0

local nobodys_bell


-- Whether one can wait in the phase that runs, or what nginx says against it. Not by sleep(0): of that an nginx without
-- OpenResty's patch for it complains in its log.
local function ask()
    nobodys_bell = nobodys_bell or semaphore.new(0)
    local _, err = nobodys_bell:wait(0)
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


-- nginx takes a light thread that is killed, or ends with its request, out of those who wait for the bell. Nobody waits
-- for it then, and nothing of that waiter may stay in a queue.
local function wake(me)
    if me.woken then
        return
    end
    if me.rings and me.bell:count() >= 0 then
        return wake_timer.drop(me.waiter)
    end
    me.woken = true
    me.bell:post(1)
end


local function take()
    local me = idle[idle_count]
    if me then
        idle[idle_count] = nil
        idle_count = idle_count - 1
        return me
    end
    return { bell = semaphore.new(0), wake = wake, woken = false, waiter = 0, rings = false }
end


local function give_back(me, heard)
    if me.woken and not heard then
        me.bell:wait(0)  -- came after the time was over
    end
    me.woken = false
    idle_count = idle_count + 1
    idle[idle_count] = me
end


-- A light thread that is killed while it waits does not come back here. The wake timer finds that out.
function _M.wait(waiter, seconds)
    local me = take()
    local longest, visit = wake_timer.enter(waiter, max(seconds, SHORTEST))
    local heard
    me.waiter, me.rings = waiter, visit ~= nil
    parker.listen(waiter, me)
    if visit then
        heard = me.bell:wait(longest)
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
