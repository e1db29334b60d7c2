-- Takes locks and permits: one attempt, then a wait for the holder, or for a process that is stopped inside the
-- dictionary.

local cluster = require "resty.holdfast.lock.cluster"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local hosts = require "resty.holdfast.host"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local memo = require("resty.holdfast.lock.refs").memo
local renewal = require "resty.holdfast.lock.renewal"
local report_timeout = require("resty.holdfast.lock.timeouts").report
local task_ids = require "resty.holdfast.tasks.task_ids"
local waiting = require "resty.holdfast.wait.wait"

local C, reason = core.C, core.reason
local can_renew = renewal.can_renew
local ffi_new, request_type = ffi.new, waiting.request_type
local poll, wake = waiting.poll, waiting.wake
local give_back, hold, take_grant = lease_pool.give_back, lease_pool.hold, lease_pool.take

local ALL_PERMITS, RWLOCK, SEMAPHORE = core.ALL_PERMITS, core.RWLOCK, core.SEMAPHORE
local BUSY, ELSEWHERE, LOCKED, OK = core.BUSY, core.ELSEWHERE, core.LOCKED, core.OK
local HOW_FIRST = core.HOW_FIRST
local SYSTEM, TIMEOUT = core.SYSTEM, core.TIMEOUT
local NOBODY = task_ids.NOBODY

-- How long a caller that does not wait asks the cluster's store for a lock, in seconds.
local ASKS_FOR = 1

local _M = {}


-- The results of a method that has taken nothing: nil, the reason, and after a deadlock its keys.
local function refused(err, keys)
    if keys then
        return nil, err, keys
    end
    return nil, err
end
_M.refused = refused


-- Whether an attempt's code is final: a wait would not help, or is not allowed.
local function is_final(code, timeout)
    return code ~= LOCKED and code ~= TIMEOUT
           and (timeout <= 0 or (code ~= SYSTEM and code ~= BUSY and code ~= ELSEWHERE))
end
_M.is_final = is_final


-- A request (wait/wait.lua) for the key of the grant. Field by field: an initialiser costs three times as much.
local function new_request(self, grant, exptime, timeout, step)
    local request = ffi_new(request_type)
    request.handle, request.key_id = grant.dict, grant.key_id
    request.exptime, request.timeout, request.step = exptime, timeout, step
    request.fair = self.settings.fair == 1
    return request
end
_M.new_request = new_request


-- Names the holder of what is waited for: the host of the caller is known by now. A semaphore's permits have none.
local function name_holder(self, request)
    if request.kind ~= SEMAPHORE then
        request.holder = task_ids.holder(self.settings.holder, request.certain)
    end
end


-- The second attempt of a caller that does not wait: a free lock may be reserved for a waiter that is gone.
local function attempt(self, request, grant, keep, why)
    if waiting.find_gone() then
        name_holder(self, request)
        if waiting.try(request, grant.lease) == OK then
            return keep(self, request, grant, 0, why)
        end
    end
    give_back(grant)
    return nil, "timeout"
end


-- How the object waits. A lock of a cluster is got for this machine only for a waiter in its queue.
local function way_of(self, request)
    if self.settings.wait == "poll" and not request.tries and not cluster.has(request.handle) then
        return poll
    end
    return wake
end


-- Waits as the object's settings say: the seconds waited; nil and the reason, after a deadlock its keys.
function _M.wait_by(host, request, self, lease)
    local elapsed, err, keys = way_of(self, request)(host, request, lease, self)
    if elapsed or err then
        return elapsed, err, keys
    end
    return poll(host, request, lease, self)
end


-- Waits for what the object wants: the results of keep(self, request, grant, seconds waited, why), which has the grant
-- to release; nil and the reason, after a deadlock its keys. A coroutine that waits keeps the frames of all functions
-- between it and the sleep, and its stack grows by doubling, so they are few and small: the results of a call are
-- declared where it is made.
local function wait(self, request, grant, keep, why)
    if request.timeout <= 0 then
        return attempt(self, request, grant, keep, why)
    end
    local host, refusal = hosts.current(self.settings.block)
    if not host then
        give_back(grant)
        return nil, refusal
    end
    name_holder(self, request)
    local elapsed, err, keys = way_of(self, request)(host, request, grant.lease, self)
    if not elapsed and not err then
        elapsed, err = poll(host, request, grant.lease, self)
    end
    if not elapsed then
        if err == "timeout" then
            err = cluster.reason_of_timeout(grant.dict, memo[request.key_id])
            if self.settings.log_timeouts then
                report_timeout(self, request, memo[request.key_id], err)
            end
        end
        give_back(grant)
        return refused(err, keys)
    end
    return keep(self, request, grant, elapsed, why)
end
_M.wait = wait


-- Asks the cluster's store for a lock that is not at this machine, for a caller that does not wait: the seconds that it
-- took; nil and "held", or why that is not known.
local function ask(self, request, grant, keep, why)
    if cluster.is_lost(grant.dict) then
        give_back(grant)
        return nil, "unavailable"
    end
    request.tries, request.timeout = true, ASKS_FOR
    local elapsed, err = wait(self, request, grant, keep, why)
    if err == "timeout" then
        err = "unavailable"
    end
    return elapsed, err
end


-- Gives the object its grant; the library has named `task_id` its holder.
local function settle(self, grant, task_id, key, exptime, why)
    hold(grant, task_id)
    self.cdata, self.key = grant, key
    if self.settings.watched then
        renewal.begin(self, exptime)
    end
    if why then  -- lost if there is no memory for it
        C.holdfast_lock_explain(grant.dict, key, #key, grant.lease, why, #why)
    end
end


-- No tail calls: those of C functions are not compiled.
local function try(handle, key, want, exptime, task_id, how, lease)
    local code
    if want then
        code = C.holdfast_permits_try(handle, key, #key, RWLOCK, want, ALL_PERMITS, exptime, task_id, how, lease)
    else
        code = C.holdfast_lock_try(handle, key, #key, exptime, task_id, how, lease)
    end
    return code
end


-- What becomes of a grant that was waited for.
local function keep(self, request, grant, elapsed, why)
    local key = memo[request.key_id]
    if self.cdata then
        -- Another coroutine got a lock with this object meanwhile.
        C.holdfast_unlock_for_certain(request.handle, key, #key, grant.lease)
        give_back(grant)
        return nil, "locked"
    end
    settle(self, grant, request.holder, key, request.exptime, why)
    return elapsed
end


-- Takes the lock of the key, or `want` permits of its rwlock, for an object that holds one thing at a time. Does not
-- wait without a timeout. `certain`: the caller will release it. The seconds waited; nil and the reason, after a
-- deadlock its keys.
function _M.take(self, key, want, certain, exptime, why, timeout, step)
    local settings = self.settings
    if settings.renew and exptime > 0 and not can_renew() then
        return nil, renewal.CANNOT_RENEW
    end
    local task_id = settings.holder
    if not task_id or certain and task_id ~= NOBODY then
        task_id = task_ids.current or task_ids.get()
    end
    local handle = self.dict[1]
    local grant = take_grant(handle, key)
    -- settings.fair is HOW_FAIR or 0.
    local how = timeout and timeout > 0 and settings.fair + HOW_FIRST or settings.fair
    local code = try(handle, key, want, exptime, task_id, how, grant.lease)
    if code == LOCKED and not timeout and waiting.find_gone() then
        code = try(handle, key, want, exptime, task_id, how, grant.lease)
    end
    if code == OK then
        if why or settings.watched then
            settle(self, grant, task_id, key, exptime, why)
        else
            hold(grant, task_id)
            self.cdata, self.key = grant, key
        end
        return 0
    end
    local asks = code == ELSEWHERE and (not timeout or timeout <= 0)
    if not asks and (not timeout or is_final(code, timeout)) then
        give_back(grant)
        return nil, code == LOCKED and "held" or reason(code)
    end
    local request = new_request(self, grant, exptime, timeout or 0, step or 0)
    request.certain = certain
    if asks then
        local elapsed, err = ask(self, request, grant, keep, why)
        return elapsed, timeout and err == "held" and "timeout" or err
    end
    if want then
        request.kind, request.want, request.total = RWLOCK, want, ALL_PERMITS
    end
    return wait(self, request, grant, keep, why)
end


return _M
