-- Takes locks and permits: makes one attempt, and leaves everything else to lock/contended.lua.

local core = require "resty.holdfast.core"
local later = require "resty.holdfast.later"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local task_ids = require "resty.holdfast.tasks.task_ids"

local C = core.C
local can_renew = later.fn("resty.holdfast.lock.renewal", "can_renew")
local find_gone = later.fn("resty.holdfast.wait.wait", "find_gone")
local give_back, hold, take_grant = lease_pool.give_back, lease_pool.hold, lease_pool.take
local is_final = later.fn("resty.holdfast.lock.contended", "is_final")
local reason = core.reason
local settle = require("resty.holdfast.lock.held_lock").settle
local take_contended = later.fn("resty.holdfast.lock.contended", "take")

local ALL_PERMITS, RWLOCK = core.ALL_PERMITS, core.RWLOCK
local ELSEWHERE, HOW_FIRST, LOCKED, OK = core.ELSEWHERE, core.HOW_FIRST, core.LOCKED, core.OK
local NOBODY = task_ids.NOBODY

local _M = {}


-- Makes one attempt. Makes no tail calls, because LuaJIT does not compile tail calls to C functions.
local function try(handle, key, want, exptime, task_id, how, lease)
    local code
    if want then
        code = C.holdfast_permits_try(handle, key, #key, RWLOCK, want, ALL_PERMITS, exptime, task_id, how, lease)
    else
        code = C.holdfast_lock_try(handle, key, #key, exptime, task_id, how, lease)
    end
    return code
end


-- Takes the lock of the key, or `want` permits of its rwlock, for an object that holds one lock at a time. Waits only
-- if a timeout is given. `certain`: the caller is sure to release the lock. Returns the seconds waited. On failure,
-- returns nil, the reason and, after a deadlock, the keys.
function _M.take(self, key, want, certain, exptime, why, timeout, step)
    local settings = self.settings
    if settings.renew and exptime > 0 then
        local can, refusal = can_renew()
        if not can then
            return nil, refusal
        end
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
    if code == LOCKED and not timeout and find_gone() then
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
    return take_contended(self, grant, want, certain, exptime, why, timeout, step, asks)
end


return _M
