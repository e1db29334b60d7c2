-- The host for coroutines of copas 1.x. Only the calling coroutine waits.
--
-- This version of copas can neither suspend coroutines for a time nor wake them. It can only read from sockets. So each
-- wait reads from an object that looks like a socket but has no descriptor. When the wait may end, the object is
-- "dirty", which LuaSocket's select treats as readable. Only one object, the leader, has the parker's descriptor. The
-- parker's timer makes this descriptor readable at the first deadline.

local copas = require "copas"
local core = require "resty.holdfast.core"
local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.wait.parker"
local queues = require "resty.holdfast.tasks.queues"

local C, co_isyieldable, setmetatable = core.C, coroutine.isyieldable, setmetatable
local error, max = error, math.max

local _M = { name = "copas", now = none.now }

local INFINITY = math.huge
local NO_DESCRIPTOR = -1
-- The largest descriptor that select(2) supports. Dirty objects also return this number, because LuaSocket requires a
-- number, although it does not use it.
local LARGEST_DESCRIPTOR = 1023
-- The time for which the whole loop sleeps if it has no descriptor, in seconds. No benchmark covers this constant,
-- because in all benchmarks, the loop has a descriptor.
local STEP = 0.001

local Sleeper = {}
Sleeper.__index = Sleeper

local deadlines = queues.timers.new()
local leader, leader_fd
local timer_at
-- The parker that owns the leader's descriptor. A forked child has a different parker, and the descriptor is closed
-- there.
local armed_parker


-- Accepts any coroutine, because the loop's coroutines look like other coroutines.
function _M.is_yieldable()
    return co_isyieldable()
end


function Sleeper.wake(me)
    me.woken = true
end


-- --- the functions that copas and LuaSocket call ---

local function may_go_on(me)
    return me.woken or me.deadline <= C.holdfast_now()
end


local function is_armed()
    return leader_fd and parker.is_mine(armed_parker)
end


function Sleeper.dirty(me)
    return not is_armed() or may_go_on(me)
end


function Sleeper.getfd(me)
    if Sleeper.dirty(me) then
        return LARGEST_DESCRIPTOR
    end
    return me == leader and leader_fd or NO_DESCRIPTOR
end


-- copas also calls this method when the leader's descriptor is readable.
function Sleeper.receive(me)
    if not leader_fd then
        parker.sleep(STEP)
    elseif not is_armed() then
        timer_at = nil
        _M.arm()
    elseif me == leader then
        parker.sleep(0)
        if not me.woken then
            timer_at = nil  -- the timer may have expired
            _M.arm()
        end
    end
    if may_go_on(me) then
        return ""
    end
    return nil, "timeout"
end


function Sleeper.close()
end


-- ---

-- Chooses the leader and sets the timer, so that the descriptor becomes readable at the first deadline.
function _M.arm()
    local first = deadlines:first()
    leader = first
    local fd = first and parker.fd()
    leader_fd = fd and fd < LARGEST_DESCRIPTOR and fd or nil
    armed_parker = fd and parker.get()
    if first and first.deadline ~= timer_at then
        timer_at = first.deadline
        if not parker.timer(max(timer_at - C.holdfast_now(), 0)) then
            leader_fd, timer_at = nil, nil
        end
    elseif not first and timer_at then
        parker.timer(nil)
        timer_at = nil
    end
end


local function suspend(me, seconds)
    deadlines:add(me, C.holdfast_now() + seconds)
    _M.arm()
    copas.receive(me)
    deadlines:remove(me)
    _M.arm()
end


function _M.sleep(seconds)
    if not core.is_duration(seconds) then
        error("bad seconds to sleep: expected a finite number, 0 or more, got " .. core.describe(seconds), 2)
    end
    suspend(setmetatable({}, Sleeper), seconds)
end


function _M.wait(waiter, seconds)
    local me = setmetatable({ woken = false }, Sleeper)
    parker.listen(waiter, me)
    suspend(me, seconds)
    parker.forget(waiter)
    return parker.outcome(me.woken)
end


-- --- renewals, which a coroutine runs as long as there is something to renew ---

local jobs, runner

local function keep()
    repeat
        suspend(runner, max(jobs.next() - C.holdfast_now(), 0))
        runner.woken = false
        jobs.run(C.holdfast_now())
    until jobs.next() == INFINITY
    runner = nil
end


jobs = queues.new_jobs(function ()
    local time = jobs.next()
    if runner then
        runner.woken = runner.woken or time < runner.deadline or time == INFINITY
    elseif time < INFINITY then
        runner = setmetatable({ woken = false }, Sleeper)
        copas.addthread(keep)
    end
end)


-- copas passes a socket as the first argument. This coroutine has no socket.
local function spawn(fn, ...)
    copas.addthread(function (_, ...) fn(...) end, ...)
end

local renewals = { jobs = jobs, spawn = spawn }


function _M.job_runner()
    return co_isyieldable() and renewals or nil
end


return _M
