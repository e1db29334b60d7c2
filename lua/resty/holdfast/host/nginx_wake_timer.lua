-- Wakes the light threads of a worker. It runs in a timer and reads from a connection to the wake thread, which sends a
-- byte when there are wake-ups to deliver.
--
-- It ends soon after the last waiter, because a running timer would keep the worker from exiting. No wait may rely on
-- it, because nginx may drop the timer, and an error may end it: each wait is short, and the next one starts it again.

local core = require "resty.holdfast.core"
local parker = require "resty.holdfast.wait.parker"
local waiting = require "resty.holdfast.wait.wait"

local C = core.C
local abandon = waiting.abandon
local exiting, log, tcp, timer_at = ngx.worker.exiting, ngx.log, ngx.socket.tcp, ngx.timer.at
local min, pairs, pcall = math.min, pairs, pcall

local _M = {}

-- The longest wait that relies on it, in seconds.
local LONGEST = 1
-- How long it stays without waiters, in seconds (the rows of nginx "held for longer" judge it), and how often it checks
-- for that in a worker that is about to exit.
local LINGER = 0.25
local EXITING_STEP = 0.05
-- How late it may hear that its time has come, and a waiter that its own has.
local SLACK = 0.005
local GRACE = 0.2
-- How long a waiter waits for the wake timer to start. nginx runs timers in the order of their times: one that has not
-- started by then was dropped. None is asked for again for REST seconds, because nginx writes an alert each time.
local PATIENCE = 0.05
local REST = 1
-- Expires only if the wake thread is gone: nginx writes an error each time.
local READ_TIMEOUT_MS = 60000
local BYTES = 64

-- Whether it runs, whether it is to start, and until when it is not asked for again.
local armed = false
local coming = false
local rest_until = 0
local asked_times = 0

-- Waits by waiter number; those of killed light threads stay until they are found.
local visits, count = {}, 0
-- How many waits were dropped so far.
local dropped = 0
local idle_since = 0

local complained = false


local function complain(why)
    if not complained then
        complained = true
        log(ngx.WARN, "holdfast: locks are polled for: ", why)
    end
end


local function rest(why)
    coming = false
    rest_until = C.holdfast_now() + REST
    complain(why)
end


local function forget(waiter)
    visits[waiter] = nil
    count = count - 1
    if count == 0 then
        idle_since = C.holdfast_now()
    end
end


-- Drops a waiter without a light thread: it must leave its queue. Should it come back after all, it queues again.
function _M.drop(waiter)
    if visits[waiter] then
        forget(waiter)
    end
    abandon(waiter)
    parker.forget(waiter)
    dropped = dropped + 1
end


-- A wake-up of a waiter that is gone drops it (nginx.lua). What it was granted goes to the next, which may be gone,
-- too.
function waiting.drop_gone()
    local before = dropped
    local last
    repeat
        last = dropped
    until count == 0 or not pcall(parker.sleep, 0) or dropped == last
    return dropped ~= before
end


-- Drops waiters that are missing at a second look after their time: they were killed.
local function sweep(now)
    for waiter, visit in pairs(visits) do
        if now > visit.over_at + GRACE then
            if visit.missed then
                _M.drop(waiter)
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


-- Reads until there are no more waiters, or until worker_shutdown_timeout closes all connections of a worker that is
-- about to exit.
local function attend(connection)
    local look_at = 0
    repeat
        parker.sleep(0)
        local now = C.holdfast_now()
        if now >= look_at - SLACK then
            if look_at > 0 and is_over(now) then
                return true
            end
            local step = exiting() and EXITING_STEP or LINGER
            look_at = now + step
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
    local path, err = parker.listen_at()
    if not path then
        return nil, err
    end
    connection:settimeouts(READ_TIMEOUT_MS, READ_TIMEOUT_MS, READ_TIMEOUT_MS)
    local ok
    ok, err = connection:connect("unix:" .. path)
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


-- Asks nginx for the timer; whether it is to start soon.
local function ask()
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


-- Begins a wait of at most `seconds`. How long the waiter may rely on being woken, and the argument for leave(); nil if
-- it has to look itself.
function _M.enter(waiter, seconds)
    if not armed and not coming and not ask() then
        return nil
    end
    local longest = min(seconds, armed and LONGEST or PATIENCE)
    local visit = { asked = coming and asked_times, over_at = C.holdfast_now() + longest, missed = false }
    if not visits[waiter] then  -- otherwise the collector closed an earlier waiter of that number
        count = count + 1
    end
    visits[waiter] = visit
    return longest, visit
end


-- Ends a wait, after a wake-up or at the end of its time.
function _M.leave(waiter, visit, woken)
    if coming and visit.asked == asked_times and not woken then
        rest("nginx does not run a timer, see lua_max_running_timers")
    end
    if visits[waiter] == visit then
        forget(waiter)
    end
end


return _M
