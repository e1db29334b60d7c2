-- Implements the options renew and on_lost. If an object has one of these options, its field `watch` contains a watch
-- for the lock that it holds. The watch is the background job that renews the lock, and keeps the arguments for
-- on_lost. A lock behind a gate may be lost at any time, so its watch also checks whether the lock is still held.

local background_jobs = require("resty.holdfast.tasks.queues").background_jobs
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local find_gate = require("resty.holdfast.dictionary.gate").find
local hosts = require "resty.holdfast.host"
local memo = require("resty.holdfast.lock.lease_pool").memo
local scheduler = require "resty.holdfast.scheduler"
local text_of = require("resty.holdfast.tasks.traceback").text_of

local C, reason = core.C, core.reason
local co_running, co_status = coroutine.running, coroutine.status
local enter, leave = core.enter, core.leave
local getpid = ffi.C.getpid
local min = math.min
local setmetatable, traceback, xpcall = setmetatable, debug.traceback, xpcall

local BUSY, NOT_FOUND, NOT_OWNER, OK, TIMEOUT = core.BUSY, core.NOT_FOUND, core.NOT_OWNER, core.OK, core.TIMEOUT

-- The number of renewals during an exptime, and the number of retries during an exptime if a stopped process has
-- prevented a renewal. No benchmark covers the next three constants, because none renews locks.
local RENEWALS = 3
local RETRIES = 10
-- How often a watch checks a lock behind a gate, in seconds.
local CHECK_EVERY = 0.15

local INFINITY = math.huge

-- A job runner renews locks. `jobs` is its list of jobs; spawn(fn, ...) starts a coroutine. Under a host where the
-- status of a coroutine does not show whether it will run again, the job runner also has is_alive(co, use) and
-- use_of(co).
hosts.load_job_runner()
local in_nginx = background_jobs.runner
local in_scheduler = { jobs = background_jobs, spawn = scheduler.spawn }

local CANNOT_RENEW = "cannot renew here: " .. (in_nginx and in_nginx.WHERE or "renewal needs a "
                                               .. "resty.holdfast.scheduler task or a coroutine of an event loop")

local _M = {}

local Watch = {}
Watch.__index = Watch

-- A watch must not keep the object or the coroutine alive.
local WEAK = { __mode = "v" }


-- Returns the job runner for the caller's locks, and the caller's coroutine if there is one. Renewals end when the
-- coroutine ends.
local function find_runner()
    local co, is_main = co_running()
    co = not is_main and co or nil
    if in_nginx or background_jobs.looping then
        return co and (in_nginx or in_scheduler), co
    end
    return hosts.job_runner(), co
end


-- Returns whether locks of the caller can be renewed, and the reason if they cannot.
function _M.can_renew()
    return (find_runner()) ~= nil, CANNOT_RENEW
end


-- Returns the reason that on_lost gets. It does not depend on whether the lock has a new holder.
function _M.loss(code)
    return reason(code == NOT_FOUND and NOT_OWNER or code)
end


local function tell(on_lost, lock, key, err)
    local ok, message = xpcall(on_lost, function (e) return traceback(text_of(e), 2) end, lock, key, err)
    if not ok then
        scheduler.report(nil, "on_lost failed: " .. message)
    end
end


-- Returns on_lost if it is set and has not been called for this lock yet. Returns nil in a forked child, because the
-- lock belongs to the parent.
local function due_on_lost(watch, lock)
    if watch.reported or watch.pid ~= getpid() then
        return nil
    end
    watch.reported = true
    return lock.settings.on_lost or nil
end


-- Sets the time of the watch's next action.
local function wind(watch, now)
    local time = min(watch.renews_at, watch.checks and now + CHECK_EVERY or INFINITY)
    watch.acts_at = time
    if time < INFINITY then
        watch.runner.jobs.add(watch, time)
    end
end


-- Sets the time of the next renewal.
local function schedule(watch, parts)
    local now = C.holdfast_now()
    watch.renews_at = watch.renews and watch.exptime > 0 and now + watch.exptime / parts or INFINITY
    wind(watch, now)
end


local function stop(watch)
    if watch.runner then
        watch.runner.jobs.remove(watch)
    end
end


-- Returns whether the object or the coroutine is gone. If so, the lock is no longer renewed: it expires, or the
-- collector releases it.
function Watch:is_over()
    local refs, runner = self.refs, self.runner
    local co = refs.co
    if not refs.lock then
        return true
    end
    if not co then
        return self.is_bound
    end
    if runner.is_alive then
        return not runner.is_alive(co, self.use)
    end
    return co_status(co) == "dead"
end


-- Starts a coroutine that calls on_lost.
function Watch:tell(lock, key, code)
    local on_lost = due_on_lost(self, lock)
    if on_lost then
        self.runner.spawn(tell, on_lost, lock, key, _M.loss(code))
    end
end


-- Checks whether the lease still holds the key. Returns the library's code.
function _M.check(handle, key, lease)
    local code = C.holdfast_lock_remaining(handle, key, #key, lease, enter().double)
    leave()
    return code
end


function Watch:run()
    if self:is_over() then
        return
    end
    local lock = self.refs.lock
    local grant = lock.cdata
    local key = memo[grant.key_id]
    if self.acts_at < self.renews_at then
        local code = _M.check(grant.dict, key, grant.lease)
        if code == OK or code == TIMEOUT or code == BUSY then
            wind(self, C.holdfast_now())
        else
            self:tell(lock, key, code)
        end
        return
    end
    local code = C.holdfast_lock_renew(grant.dict, key, #key, grant.lease, self.exptime)
    if code == OK then
        schedule(self, RENEWALS)
    elseif code == TIMEOUT or code == BUSY then
        schedule(self, RETRIES)
    else
        self:tell(lock, key, code)
    end
end


-- Creates the watch of a lock that the object has taken.
function _M.begin(lock, exptime)
    local settings = lock.settings
    local checks = settings.on_lost and find_gate(lock.dict[1]) ~= nil
    local runner, co
    if settings.renew or checks then
        runner, co = find_runner()
    end
    local watch = setmetatable({
        exptime = exptime,
        is_bound = co ~= nil,
        checks = checks,
        renews = settings.renew,
        runner = runner or false,
        pid = getpid(),
        refs = setmetatable({ lock = lock, co = co }, WEAK),
        reported = false,
        use = co and runner and runner.use_of and runner.use_of(co),
    }, Watch)
    lock.watch = watch
    if runner then
        schedule(watch, RENEWALS)
    end
end


-- Restarts the watch with a new exptime.
function _M.restart(lock, exptime)
    local watch = lock.watch
    watch.exptime = exptime
    if watch.runner then
        stop(watch)
        schedule(watch, RENEWALS)
    end
end


-- Stops the watch of a lock that is no longer held, and returns it for lost().
function _M.finish(lock)
    local watch = lock.watch
    stop(watch)
    lock.watch = nil
    return watch
end


-- Calls on_lost for a lost lock. The caller must still unlock the object.
function _M.lost(watch, lock, key, err)
    stop(watch)
    local on_lost = due_on_lost(watch, lock)
    if on_lost then
        tell(on_lost, lock, key, err)
    end
end


return _M
