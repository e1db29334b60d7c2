-- Takes locks and permits: makes one attempt, and leaves everything else to lock/contended.lua.

local core = require "resty.holdfast.core"
local later = require "resty.holdfast.later"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local task_ids = require "resty.holdfast.tasks.task_ids"

local C = core.C
local can_renew = later.fn("resty.holdfast.lock.renewal", "can_renew")
local find_gone = later.fn("resty.holdfast.wait.wait", "find_gone")
local give_back, hold, memo = lease_pool.give_back, lease_pool.hold, lease_pool.memo
local is_final = later.fn("resty.holdfast.lock.contended", "is_final")
local pcall = pcall
local reason = core.reason
local settle = require("resty.holdfast.lock.held_lock").settle
local take_bound, take_grant = lease_pool.take_bound, lease_pool.take
local take_contended = later.fn("resty.holdfast.lock.contended", "take")

local ALL_PERMITS, RWLOCK = core.ALL_PERMITS, core.RWLOCK
local ELSEWHERE, HOW_FIRST, LOCKED, OK = core.ELSEWHERE, core.HOW_FIRST, core.LOCKED, core.OK
local NOBODY = task_ids.NOBODY

-- `binds`: whether objects keep a grant for a repeated key. Version 0.2.0 of the library has the same ABI, but no calls
-- for this.
local _M = { binds = pcall(function () return C.holdfast_lock_bind end) }


-- Makes one attempt. `repeats`: the object has already taken this lock. Makes no tail calls, because LuaJIT does not
-- compile tail calls to C functions.
local function try(handle, key, want, repeats, exptime, task_id, how, grant)
    local code
    if want then
        code = C.holdfast_permits_try(handle, key, #key, RWLOCK, want, ALL_PERMITS, exptime, task_id, how, grant.lease)
    elseif repeats then
        code = C.holdfast_lock_bind(handle, key, #key, exptime, task_id, how, grant.bound)
    else
        code = C.holdfast_lock_try(handle, key, #key, exptime, task_id, how, grant.lease)
    end
    return code
end


-- Takes the object's bound grant out of the object, so that the collector releases it after an error, even a stack
-- overflow. Returns nil unless the grant is for this key.
local function take_own(self, key)
    local grant = self.bound
    if grant and memo[grant.key_id] == key then
        self.bound = false
        return grant
    end
    return nil
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
    local repeats = not want and self.key == key and not settings.watched and _M.binds
    local grant
    if repeats then
        grant = take_own(self, key) or take_bound(handle, key)
    else
        grant = take_grant(handle, key)
    end
    -- settings.fair is HOW_FAIR or 0.
    local waits = timeout and timeout > 0
    local how = waits and settings.fair + HOW_FIRST or settings.fair
    local code = try(handle, key, want, repeats, exptime, task_id, how, grant)
    if code == LOCKED and not waits and find_gone() then
        code = try(handle, key, want, repeats, exptime, task_id, how, grant)
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
    local asks = code == ELSEWHERE and not waits
    if not asks and (not waits or is_final(code, timeout)) then
        give_back(grant)
        return nil, code == LOCKED and (timeout and "timeout" or "held") or reason(code)
    end
    return take_contended(self, grant, want, certain, exptime, why, timeout, step, asks)
end


-- Takes the lock whose place the object knows (lease_pool.lua), if it is free and the key is the same. Returns whether
-- the object now has the lock. If not, take() decides.
function _M.take_again(self, key, certain)
    if self.key ~= key or self.cdata then
        return false
    end
    local grant = take_own(self, key)
    if not grant then
        return false
    end
    local task_id = self.settings.holder
    if not task_id or certain and task_id ~= NOBODY then
        task_id = task_ids.current or task_ids.get()
    end
    local taken = C.holdfast_lock_again(grant.dict, key, #key, self.exptime, task_id, grant.bound)
    if taken == 1 then
        hold(grant, task_id)
        self.cdata = grant
        return true
    end
    self.bound = grant
    return false
end


return _M
