-- Waits for what somebody else holds, or what a stopped process keeps from being looked at.

local task_ids = require "resty.holdfast.tasks.task_ids"
local core = require "resty.holdfast.core"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local hosts = require "resty.holdfast.host"
local renewal = require "resty.holdfast.lock.renewal"
local waiting = require "resty.holdfast.wait.wait"

local C = core.C
local give_back = lease_pool.give_back
local hold = lease_pool.hold
local take_grant = lease_pool.take

local OK = core.OK

local _M = {}


-- For one that does not wait, and who has been refused.
local function attempt(request, settings)
    if not waiting.find_gone() then
        return nil, "timeout"
    end
    request.holder = request.holder or task_ids.holder(settings.holder, request.certain)
    local grant = take_grant(request.handle, request.key)
    if waiting.try(request, grant.lease) == OK then
        return 0, grant
    end
    give_back(grant)
    return nil, "timeout"
end


-- As the object's settings say: the seconds waited; nil and the reason, after a deadlock its keys.
function _M.wait_by(host, request, settings, lease)
    if settings.wait == "wake" then
        local elapsed, err, keys = waiting.wake(host, request, lease)
        if elapsed or err then
            return elapsed, err, keys
        end
    end
    return waiting.poll(host, request, lease)
end

local wait_by = _M.wait_by


-- The seconds waited and the grant, which is the caller's to release; nil and the reason, after a deadlock its keys.
-- waiting.lua says what a request is, options.lua what settings are. Where the request names no holder, it is named as
-- task_ids.lua says; not before, as only who waits is sure to have a host that is known.
function _M.wait(request, settings)
    if request.timeout <= 0 then
        return attempt(request, settings)
    end
    local host, err = hosts.current(settings.block)
    if not host then
        return nil, err
    end
    request.holder = request.holder or task_ids.holder(settings.holder, request.certain)
    local grant = take_grant(request.handle, request.key)
    local elapsed, keys
    elapsed, err, keys = wait_by(host, request, settings, grant.lease)
    if not elapsed then
        give_back(grant)
        if keys then
            return nil, err, keys
        end
        return nil, err
    end
    return elapsed, grant
end


-- The grant is the object's from now on; the library has named `task_id` its holder. `why` is lost without memory
-- for it.
function _M.settle(self, grant, task_id, handle, key, exptime, why)
    hold(grant, task_id)
    self.cdata, self.key = grant, key
    if self.settings.watched then
        renewal.begin(self, exptime)
    end
    if why then
        C.holdfast_lock_explain(handle, key, #key, grant.lease, why, #why)
    end
end


-- As wait, for an object that holds one thing at a time.
function _M.wait_for(self, request)
    local elapsed, grant, keys = _M.wait(request, self.settings)
    if not elapsed then
        if keys then
            return nil, grant, keys
        end
        return nil, grant
    end
    if self.cdata then
        -- Another coroutine got a lock with this object meanwhile.
        local key = request.key
        C.holdfast_unlock(request.handle, key, #key, grant.lease)
        give_back(grant)
        return nil, "locked"
    end
    _M.settle(self, grant, request.holder, request.handle, request.key, request.exptime, request.why)
    return elapsed
end


return _M
