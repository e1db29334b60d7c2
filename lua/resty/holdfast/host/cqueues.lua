-- The host of coroutines of a cqueues controller: only the coroutine waits.
--
-- One waiter of a controller, the leader, polls the parker's descriptor; the others poll only their own conditions. A
-- woken waiter wakes the others with news, and when the leader leaves, it makes another the leader. So nothing is left
-- in the controller without waiters. Each controller has its own leader, because the program may stop running the
-- others.

local condition = require "cqueues.condition"
local core = require "resty.holdfast.core"
local cqueues = require "cqueues"
local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.wait.parker"
local runners = require "resty.holdfast.host.cqueues_job_runner"

local C = core.C
local co_isyieldable = coroutine.isyieldable
local max, min, next, setmetatable = math.max, math.min, next, setmetatable

local _M = { name = "cqueues", now = none.now }

-- How often a waiter looks without a descriptor.
local LOOK_EVERY = 0.005
-- A leader that is not back this long after its time is never resumed again.
local GRACE = 0.05

-- By controller: { waiting, leader }.
local groups = setmetatable({}, { __mode = "k" })


function _M.is_yieldable()
    local controller, inside = cqueues.running()
    if not controller then
        return false
    end
    if not inside then
        return false, "a coroutine of the program's own, inside one of the controller's"
    end
    if not co_isyieldable() then
        return false, "Lua was called from C"
    end
    return true
end


function _M.job_runner()
    local controller, inside = cqueues.running()
    return controller and inside and runners.of(controller) or nil
end


function _M.sleep(seconds)
    cqueues.sleep(seconds)
end


local function wake(me)
    me.woken = true
    me.condition:signal()
end


local function group_here()
    local controller = cqueues.running()
    local group = groups[controller]
    if not group then
        group = { waiting = {}, leader = nil }
        groups[controller] = group
    end
    return group
end


-- To cqueues an object like this is a descriptor.
local function poll_descriptor(group, me, fd, now, left)
    group.leader = me
    me.back = now + left + GRACE
    cqueues.poll({ pollfd = fd, events = "r" }, me.condition, left)
    group.leader = nil
end


local function poll(group, me, fd, left)
    local now = C.holdfast_now()
    local leader = group.leader
    if not fd then
        cqueues.poll(me.condition, min(left, LOOK_EVERY))
    elseif not leader or leader.back < now then
        poll_descriptor(group, me, fd, now, left)
    else
        cqueues.poll(me.condition, left)
    end
    parker.sleep(0)
end


function _M.wait(waiter, seconds)
    local me = { condition = condition.new(), wake = wake, woken = false, back = 0 }
    local deadline = C.holdfast_now() + seconds
    local group = group_here()
    parker.listen(waiter, me)
    group.waiting[me] = true
    repeat
        local left = deadline - C.holdfast_now()
        poll(group, me, parker.fd(), max(left, 0))
    until me.woken or left <= 0
    group.waiting[me] = nil
    parker.forget(waiter)
    local heir = not group.leader and next(group.waiting)
    if heir then
        heir.condition:signal()
    end
    return parker.outcome(me.woken)
end


return _M
