-- The host of code that runs in a coroutine of a cqueues controller: only the coroutine waits.
--
-- One of those that wait in a controller, the leader, polls the parker's descriptor; each of the others only its own
-- condition. Whoever is woken tells the others what there is to tell, and when it was the leader, makes another one
-- that. So nothing is left in the controller when nobody waits. Each controller has a leader of its own, as nobody
-- knows whether the program goes on with the others.

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

-- Without a descriptor a waiter looks this often.
local LOOK_EVERY = 0.005
-- A leader that does not come back this long after its time is never resumed again.
local GRACE = 0.05

-- Controller to { waiting, leader }.
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
    me.bell:signal()
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


-- cqueues takes an object like this for a descriptor.
local function poll_descriptor(group, me, fd, now, left)
    group.leader = me
    me.back = now + left + GRACE
    cqueues.poll({ pollfd = fd, events = "r" }, me.bell, left)
    group.leader = nil
end


local function poll(group, me, fd, left)
    local now = C.holdfast_now()
    local leader = group.leader
    if not fd then
        cqueues.poll(me.bell, min(left, LOOK_EVERY))
    elseif not leader or leader.back < now then
        poll_descriptor(group, me, fd, now, left)
    else
        cqueues.poll(me.bell, left)
    end
    parker.sleep(0)
end


function _M.wait(waiter, seconds)
    local me = { bell = condition.new(), wake = wake, woken = false, back = 0 }
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
        heir.bell:signal()
    end
    return parker.outcome(me.woken)
end


return _M
