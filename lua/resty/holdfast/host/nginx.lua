-- The host for an nginx worker. Each waiting light thread waits for its own semaphore, while other light threads run.
-- The wake timer posts the semaphore. Without the wake timer, the waiter polls.
--
-- The wake timer is an nginx timer that reads from a connection to the wake thread. The wake thread sends a byte when
-- there are wake-ups to deliver. The timer ends soon after the last waiter has left, because a running timer would keep
-- the worker from exiting. No wait may rely on the timer alone, because nginx may drop the timer, and an error may end
-- it. So each wait is short, and the next wait starts the timer again if necessary.

local core = require "resty.holdfast.core"
local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.wait.parker"
local semaphore = require "ngx.semaphore"
local threads = require "resty.holdfast.host.nginx_threads"
local waiting = require "resty.holdfast.wait.wait"

local exiting, get_phase, log, sleep = ngx.worker.exiting, ngx.get_phase, ngx.log, ngx.sleep
local max, min, pairs, pcall = math.max, math.min, pairs, pcall
local getinfo, tcp, timer_at = debug.getinfo, ngx.socket.tcp, ngx.timer.at
local C, abandon = core.C, waiting.abandon

local _M = { name = "nginx", now = none.now }

local POLL_EVERY = parker.POLL_EVERY
-- The minimum wait, in seconds, because nginx's timers count milliseconds.
local SHORTEST = 0.001

-- The phases of http { } and stream { } that can wait. can_phase_wait() asks nginx about other phases.
local YIELDABLE = {
    access = true, content = true, precontent = true, preread = true, rewrite = true, server_rewrite = true,
    timer = true, proxy_ssl_cert = true, proxy_ssl_verify = true, ssl_cert = true, ssl_client_hello = true,
    ssl_session_fetch = true,
}

local IN_INIT = "cannot wait in init_by_lua*, where nothing else runs yet; use ngx.timer.at(0, ...) in "
                .. "init_worker_by_lua*"

-- The objects of earlier waits, which are reused.
local idle, idle_count = {}, 0

local probe


-- Returns whether the current phase can wait, and nginx's reason if it cannot. Does not try ngx.sleep(0), because an
-- nginx without OpenResty's patch would log an error.
local function can_phase_wait()
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
        local ok, err = can_phase_wait()
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


-- --- the wake timer ---

-- The maximum wait that relies on the wake timer, in seconds. The benchmark "100 coroutines wait for one lock while
-- nothing happens" depends on it, in the row of nginx.
local LONGEST = 1
-- The time for which the timer continues without waiters, and the interval at which it checks for waiters in a worker
-- that is about to exit, in seconds. In benchmarks, the first constant affects the rows of nginx for locks that are
-- held longer.
local LINGER = 0.25
local EXITING_STEP = 0.05
-- The maximum delay with which the wake timer and a waiter notice a deadline, in seconds.
local SLACK = 0.005
local GRACE = 0.2
-- The time for which a waiter waits for the wake timer to start. nginx runs timers in the order of their times, so if
-- the timer has not started by then, nginx has dropped it. For REST seconds after that, no other timer is requested,
-- because nginx logs an alert for each dropped timer.
local START_TIMEOUT = 0.05
local REST = 1
-- The read timeout, which expires only if the wake thread is gone: nginx logs an error for each expiry.
local READ_TIMEOUT_MS = 60000
local BYTES = 64

-- These say whether the wake timer runs, whether it was requested, and when it may be requested again.
local armed = false
local coming = false
local rest_until = 0
local asked_times = 0

-- The waits, indexed by waiter number. If a light thread is killed, its wait remains here until sweep() finds it.
local visits, count = {}, 0
-- The number of dropped waits.
local dropped = 0
local idle_since = 0

local complained = false


local function complain(why)
    if not complained then
        complained = true
        log(ngx.WARN, "holdfast: waiters poll for locks: ", why)
    end
end


local function rest(why)
    coming = false
    rest_until = C.holdfast_now() + REST
    complain(why)
end


local function forget_visit(waiter)
    visits[waiter] = nil
    count = count - 1
    if count == 0 then
        idle_since = C.holdfast_now()
    end
end


-- Removes a waiter from its queue, because its light thread is gone. If the light thread returns after all, it queues
-- again.
local function drop(waiter)
    if visits[waiter] then
        forget_visit(waiter)
    end
    abandon(waiter)
    parker.forget(waiter)
    dropped = dropped + 1
end


-- Drops waiters that are gone; wait.lua calls this. The delivery of a wake-up to such a waiter drops the waiter; see
-- wake(). Its grant then passes to the next waiter, which may also be gone.
function waiting.drop_gone()
    local before = dropped
    local last
    repeat
        last = dropped
    until count == 0 or not pcall(parker.sleep, 0) or dropped == last
    return dropped ~= before
end


-- Drops waiters that are past their deadline in two successive checks, because their light threads were killed.
local function sweep(now)
    for waiter, visit in pairs(visits) do
        if now > visit.over_at + GRACE then
            if visit.missed then
                drop(waiter)
            end
            visit.missed = true
        end
    end
end


local function is_over(now)
    if count > 0 then
        sweep(now)
    end
    return count == 0 and (now - idle_since >= LINGER - SLACK or exiting())
end


-- Reads until there are no more waiters, or until worker_shutdown_timeout closes all connections of an exiting worker.
local function attend(connection)
    local check_at = 0
    repeat
        parker.sleep(0)
        local now = C.holdfast_now()
        if now >= check_at - SLACK then
            if check_at > 0 and is_over(now) then
                return true
            end
            local step = exiting() and EXITING_STEP or LINGER
            check_at = now + step
            local ok, err = parker.timer(step)
            if not ok then
                return nil, err
            end
        end
        local bytes, err = connection:receiveany(BYTES)
    until not bytes and err ~= "timeout"
    if exiting() then
        return true
    end
    return nil, "the connection to the wake thread is closed"
end


local function run(connection)
    connection:settimeouts(READ_TIMEOUT_MS, READ_TIMEOUT_MS, READ_TIMEOUT_MS)
    local path, err = parker.listen_at()
    local ok = path
    if path then
        ok, err = connection:connect("unix:" .. path)
    end
    if ok then
        ok, err = parker.accept()
    end
    if not ok then
        return nil, err
    end
    armed = true
    return attend(connection)
end


local function start(premature, number)
    if number ~= asked_times or armed then
        return
    end
    coming = false
    if premature then
        return
    end
    local connection = tcp()
    local ok, done, err = pcall(run, connection)
    armed = false
    pcall(connection.close, connection)
    pcall(parker.disconnect)
    if not ok or not done then
        rest(ok and err or done)
    end
end


-- Requests the wake timer from nginx. Returns whether it will start soon.
local function ask_for_timer()
    local now = C.holdfast_now()
    if now < rest_until then
        return false
    end
    asked_times = asked_times + 1
    local ok, err = timer_at(0, start, asked_times)
    if not ok then
        rest(err)
        return false
    end
    coming = true
    return true
end


-- Begins a wait of at most `seconds`. Returns the time for which the waiter can rely on wake-ups, and the argument for
-- leave(). Returns nil if the waiter must poll.
local function enter(waiter, seconds)
    if not armed and not coming and not ask_for_timer() then
        return nil
    end
    local longest = min(seconds, armed and LONGEST or START_TIMEOUT)
    local visit = { asked = coming and asked_times, over_at = C.holdfast_now() + longest, missed = false }
    if not visits[waiter] then  -- a waiter that the collector has closed may have left a visit
        count = count + 1
    end
    visits[waiter] = visit
    return longest, visit
end


-- Ends a wait after a wake-up or at its deadline.
local function leave(waiter, visit, woken)
    if coming and visit.asked == asked_times and not woken then
        rest("nginx ran no timer; raise lua_max_running_timers")
    end
    if visits[waiter] == visit then
        forget_visit(waiter)
    end
end


-- --- waits ---

-- Wakes a light thread. If a light thread was killed or its request has ended, nginx has removed it from the
-- semaphore's waiters. In this case, the waiter must leave its queue.
local function wake(me)
    if me.woken then
        return
    end
    if me.blocked and me.semaphore:count() >= 0 then
        return drop(me.waiter)
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
        me.semaphore:wait(0)  -- the semaphore was posted after the deadline
    end
    me.woken = false
    idle_count = idle_count + 1
    idle[idle_count] = me
end


-- If a light thread is killed while it waits, this function does not return, and sweep() finds the waiter.
function _M.wait(waiter, seconds)
    local me = take()
    local longest, visit = enter(waiter, max(seconds, SHORTEST))
    local heard
    me.waiter, me.blocked = waiter, visit ~= nil
    parker.listen(waiter, me)
    if visit then
        heard = me.semaphore:wait(longest)
        leave(waiter, visit, heard)
    else
        sleep(max(min(seconds, POLL_EVERY), SHORTEST))
        parker.sleep(0)
    end
    parker.forget(waiter)
    local woken = me.woken
    give_back(me, heard)
    return parker.outcome(woken)
end


-- --- phases that cannot yield ---

-- The first and the longest sleep of a wait, in seconds. Each sleep is twice as long as the previous one. A wake-up
-- does not end a sleep. No benchmark covers these constants, because none waits in such a phase.
local FIRST_SLEEP, LONGEST_SLEEP = 0.001, 0.05


-- Creates the host for phases that cannot yield. It serves programs that have replaced ngx.sleep with a function that
-- works in these phases. For example, Kong's ngx.sleep works in init_worker_by_lua, where Kong's workers wait for each
-- other. lua-resty-lock calls the replaced function there, so this host does so, too. A wait blocks the whole worker.
-- `sleep_there` is ngx.sleep.
function _M.new_sleeping_host(sleep_there)
    local host = { name = "nginx", now = none.now, stops_all = true }
    local is_replaced = getinfo(sleep_there, "S").what ~= "C"  -- nginx's own function is a C function

    -- Returns false without a reason, so that the next host is asked.
    function host.is_yieldable()
        if not is_replaced then
            return false
        end
        local ok, _, for_phase = _M.is_yieldable()
        return not ok and for_phase and (pcall(sleep_there, 0))
    end

    function host.sleep(seconds)
        sleep_there(seconds)
    end

    function host.wait(waiter, seconds)
        local step = FIRST_SLEEP
        return parker.wait(waiter, seconds, function (left)
            sleep_there(min(step, left))
            parker.sleep(0)
            step = min(2 * step, LONGEST_SLEEP)
        end)
    end

    return host
end


return _M
