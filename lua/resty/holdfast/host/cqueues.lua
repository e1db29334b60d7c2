-- The host for coroutines of a cqueues controller. Only the calling coroutine waits.
--
-- One waiter of a controller, the leader, polls the parker's descriptor. All other waiters poll only their own
-- conditions. A waiter that finds wake-ups delivers them to the other waiters. When the leader leaves, it makes another
-- waiter the leader. So a controller without waiters has nothing left to do. Each controller has its own leader,
-- because the program may stop running some of its controllers.

local condition = require "cqueues.condition"
local core = require "resty.holdfast.core"
local cqueues = require "cqueues"
local new_jobs = require("resty.holdfast.tasks.queues").new_jobs
local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.wait.parker"
local report = require("resty.holdfast.scheduler").report

local C, co_isyieldable = core.C, coroutine.isyieldable
local max, min, next = math.max, math.min, next
local pcall, setmetatable, tostring = pcall, setmetatable, tostring

local _M = { name = "cqueues", now = none.now }

local POLL_EVERY = parker.POLL_EVERY
-- If a leader has not returned this number of seconds after its deadline, it counts as gone: it will never be resumed.
local GRACE = 0.05
-- The interval at which a job runner checks whether its controller is about to end. No benchmark covers this constant,
-- because none has jobs.
local STEP = 0.1

local INFINITY = math.huge

-- { waiting, leader } for each controller, and the job runner for each controller. The tables must not keep controllers
-- alive.
local groups = setmetatable({}, { __mode = "k" })
local runners = setmetatable({}, { __mode = "k" })


function _M.is_yieldable()
    local controller, inside = cqueues.running()
    if not controller then
        return false
    end
    if not inside then
        return false, "in a coroutine inside a coroutine of the controller"
    end
    if not co_isyieldable() then
        return false, "Lua was called from C"
    end
    return true
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


-- Polls the descriptor as the leader. cqueues can poll any object with a field pollfd.
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
        cqueues.poll(me.condition, min(left, POLL_EVERY))
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


-- --- renewals, which one coroutine runs in each controller that has something to renew ---

local function spawn(fn, ...)
    cqueues.running():wrap(fn, ...)
end


-- Runs jobs. A controller ends when all its coroutines have ended. The job runner must not prevent this, so it checks
-- every STEP whether its coroutine is the last one.
local function run_jobs(runner)
    local controller = cqueues.running()
    local jobs = runner.jobs
    while jobs.next() < INFINITY and controller:count() > 1 do
        cqueues.poll(runner.condition, max(min(jobs.next() - C.holdfast_now(), STEP), 0))
        local ok, err = pcall(jobs.run, C.holdfast_now())
        if not ok then
            report(nil, tostring(err))
        end
    end
    runner.is_running = false
end


local function new_runner()
    local runner = { condition = condition.new(), is_running = false, spawn = spawn }
    runner.jobs = new_jobs(function ()
        local controller = cqueues.running()
        if runner.is_running then
            runner.condition:signal()
        elseif controller and runners[controller] == runner and runner.jobs.next() < INFINITY then
            runner.is_running = true
            controller:wrap(run_jobs, runner)
        end
    end)
    return runner
end


-- Returns the job runner of a controller.
local function runner_of(controller)
    local runner = runners[controller]
    if not runner then
        runner = new_runner()
        runners[controller] = runner
    end
    return runner
end


function _M.job_runner()
    local controller, inside = cqueues.running()
    return controller and inside and runner_of(controller) or nil
end


return _M
