-- Takes locks and permits: one attempt, then a wait for the holder, or for a process that is stopped inside the
-- dictionary.

local core = require "resty.holdfast.core"
local hosts = require "resty.holdfast.host"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local renewal = require "resty.holdfast.lock.renewal"
local task_ids = require "resty.holdfast.tasks.task_ids"
local waiting = require "resty.holdfast.wait.wait"

local C, reason = core.C, core.reason
local can_renew = renewal.can_renew
local poll, wake = waiting.poll, waiting.wake
local give_back, hold, take_grant = lease_pool.give_back, lease_pool.hold, lease_pool.take

local ALL_PERMITS, RWLOCK = core.ALL_PERMITS, core.RWLOCK
local BUSY, LOCKED, OK, SYSTEM, TIMEOUT = core.BUSY, core.LOCKED, core.OK, core.SYSTEM, core.TIMEOUT
local NOBODY = task_ids.NOBODY

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
    return code ~= LOCKED and code ~= TIMEOUT and (timeout <= 0 or (code ~= SYSTEM and code ~= BUSY))
end
_M.is_final = is_final


-- A request (wait/wait.lua) with the defaults of an object. Each waiting coroutine has one: a field more would double
-- the room that it takes.
local function new_request(self, handle, key, exptime, timeout, step, certain)
    return { handle = handle, key = key, exptime = exptime, timeout = timeout, fair = self.settings.fair, step = step,
             certain = certain, holder = false }
end
_M.new_request = new_request


-- The second attempt of a caller that does not wait: a free lock may be reserved for a waiter that is gone.
local function attempt(self, request, keep, why)
    if not waiting.find_gone() then
        return nil, "timeout"
    end
    request.holder = request.holder or task_ids.holder(self.settings.holder, request.certain)
    local grant = take_grant(request.handle, request.key)
    if waiting.try(request, grant.lease) == OK then
        return keep(self, request, grant, 0, why)
    end
    give_back(grant)
    return nil, "timeout"
end


-- Waits as the object's settings say: the seconds waited; nil and the reason, after a deadlock its keys.
function _M.wait_by(host, request, self, lease)
    if self.settings.wait == "wake" then
        local elapsed, err, keys = wake(host, request, lease)
        if elapsed or err then
            return elapsed, err, keys
        end
    end
    return poll(host, request, lease, self)
end


-- Waits for what the object wants: the results of keep(self, request, grant, seconds waited, why), which has the grant
-- to release; nil and the reason, after a deadlock its keys. Names the holder if the request does not: the host of a
-- waiting caller is known by now. A coroutine that waits keeps the frames of all functions between it and the sleep,
-- and its stack grows by doubling, so they are few.
local function wait(self, request, keep, why)
    local settings = self.settings
    if request.timeout <= 0 then
        return attempt(self, request, keep, why)
    end
    local host, err = hosts.current(settings.block)
    if not host then
        return nil, err
    end
    request.holder = request.holder or task_ids.holder(settings.holder, request.certain)
    local grant = take_grant(request.handle, request.key)
    local elapsed, keys
    if settings.wait == "wake" then
        elapsed, err, keys = wake(host, request, grant.lease)
    end
    if not elapsed and not err then
        elapsed, err = poll(host, request, grant.lease, self)
    end
    if not elapsed then
        give_back(grant)
        return refused(err, keys)
    end
    return keep(self, request, grant, elapsed, why)
end
_M.wait = wait


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
local function try(handle, key, want, exptime, task_id, fair, lease)
    local code
    if want then
        code = C.holdfast_permits_try(handle, key, #key, RWLOCK, want, ALL_PERMITS, exptime, task_id, fair, lease)
    else
        code = C.holdfast_lock_try(handle, key, #key, exptime, task_id, fair, lease)
    end
    return code
end


-- What becomes of a grant that was waited for.
local function keep(self, request, grant, elapsed, why)
    local key = request.key
    if self.cdata then
        -- Another coroutine got a lock with this object meanwhile.
        C.holdfast_unlock(request.handle, key, #key, grant.lease)
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
    local code = try(handle, key, want, exptime, task_id, settings.fair, grant.lease)
    if code == LOCKED and not timeout and waiting.find_gone() then
        code = try(handle, key, want, exptime, task_id, settings.fair, grant.lease)
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
    give_back(grant)
    if code == LOCKED and not timeout then
        return nil, "held"
    elseif not timeout or is_final(code, timeout) then
        return nil, reason(code)
    end
    local request = new_request(self, handle, key, exptime, timeout, step, certain)
    if want then
        request.kind, request.want, request.total = RWLOCK, want, ALL_PERMITS
    end
    return wait(self, request, keep, why)
end


return _M
