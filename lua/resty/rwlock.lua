-- A lock that many may hold to read, or one to write. Manual: docs/resty.rwlock.md.
--
-- In the dictionary it is a number of permits: a reader takes one, a writer takes all.

local acquire = require "resty.holdfast.lock.acquire"
local task_ids = require "resty.holdfast.tasks.task_ids"
local core = require "resty.holdfast.core"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local held_lock = require "resty.holdfast.lock.held_lock"
local renewal = require "resty.holdfast.lock.renewal"
local options = require "resty.holdfast.lock.options"
local with = require "resty.holdfast.lock.with"
local shdict = require "resty.shdict"

local C = core.C
local can_renew = renewal.can_renew
local give_back = lease_pool.give_back
local held_by = held_lock.held_by
local holder = task_ids.holder
local key_string = core.key_string
local read_call = options.read_call
local reason = core.reason
local settle = acquire.settle
local setmetatable = setmetatable
local take_grant = lease_pool.take
local type = type
local used = require("resty.holdfast.lock.hand_over").used
local vacate = require("resty.holdfast.lock.scopes").vacate
local wait_for = acquire.wait_for
local waiting = require "resty.holdfast.wait.wait"
local wrong_receiver = held_lock.wrong_receiver

local BUSY = core.BUSY
local CANNOT_RENEW = renewal.CANNOT_RENEW
local LOCKED = core.LOCKED
local OK = core.OK
local SYSTEM = core.SYSTEM
local RWLOCK = core.RWLOCK
local TIMEOUT = core.TIMEOUT

local ALL = core.ALL_PERMITS

local _M = { _VERSION = core.version }
local mt = { __index = _M }

local DEFAULTS = { exptime = 30 }
local NEW_OPTIONS = options.known { "exptime", "timeout", "wait", "block", "fair", "deadlock", "renew", "on_lost",
                                    "step", "ratio", "max_step" }
local LOCK_OPTIONS = options.known { "exptime", "timeout", "why" }
local TRY_OPTIONS = options.known { "exptime", "why" }


function _M.new(class, dict_name, opts)
    options.check_class(class, "rwlock")
    local times, settings = options.read_new(opts or {}, NEW_OPTIONS, DEFAULTS)
    local dict, err = shdict.find(dict_name)
    if not dict then
        return nil, err
    end
    return setmetatable({
        cdata = false,
        dict = dict,
        timeout = times.timeout or 5,
        exptime = times.exptime,
        step = times.step or 0.001,
        ratio = times.ratio,
        max_step = times.max_step,
        settings = settings,
        key = nil,  -- as in resty.lock
    }, mt)
end


-- Takes a share of `want` permits. Without a timeout it does not wait. `certain`: the caller will release the share.
-- The seconds waited; nil and the reason.
local function take(self, key, want, certain, exptime, timeout, why)
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end
    if self.cdata and not vacate(self) then
        return nil, "locked"
    end
    exptime = exptime or self.exptime
    local settings = self.settings
    if settings.renew and exptime > 0 and not can_renew() then
        return nil, CANNOT_RENEW
    end
    local handle = self.dict[1]
    local grant = take_grant(handle, key)
    local task_id = holder(settings.holder, certain)
    local code = C.holdfast_permits_try(handle, key, #key, RWLOCK, want, ALL, exptime, task_id, settings.fair,
                                        grant.lease)
    if code == LOCKED and not timeout and waiting.find_gone() then
        code = C.holdfast_permits_try(handle, key, #key, RWLOCK, want, ALL, exptime, task_id, settings.fair,
                                      grant.lease)
    end
    if code == OK then
        settle(self, grant, task_id, handle, key, exptime, why)
        return 0
    end
    give_back(grant)
    if code == LOCKED and not timeout then
        return nil, "held"
    end
    if not timeout or (code ~= LOCKED and code ~= TIMEOUT and code ~= SYSTEM and code ~= BUSY) then
        return nil, reason(code)
    end
    return wait_for(self, {
        handle = handle,
        key = key,
        kind = RWLOCK,
        want = want,
        total = ALL,
        exptime = exptime,
        timeout = timeout,
        certain = certain,
        fair = settings.fair,
        why = why,
        step = self.step,
        ratio = self.ratio,
        max_step = self.max_step,
    })
end


-- A method that waits.
local function locker(name, want, certain)
    return function (self, key, opts)
        if type(self) ~= "table" or self.cdata == nil then
            wrong_receiver(self, name)
        end
        local exptime, timeout, why
        if opts ~= nil then
            exptime, timeout, why = read_call(opts, name, LOCK_OPTIONS)
        end
        return take(self, key, want, certain, exptime, timeout or self.timeout, why)
    end
end


-- A method that does not wait.
local function trier(name, want)
    return function (self, key, opts)
        if type(self) ~= "table" or self.cdata == nil then
            wrong_receiver(self, name)
        end
        local exptime, why, _
        if opts ~= nil then
            exptime, _, why = read_call(opts, name, TRY_OPTIONS)
        end
        local elapsed, err = take(self, key, want, false, exptime, nil, why)
        if elapsed then
            return true
        end
        return nil, err
    end
end


_M.rdlock = locker("rdlock", 1, false)
_M.wrlock = locker("wrlock", ALL, false)
_M.tryrdlock = trier("tryrdlock", 1)
_M.trywrlock = trier("trywrlock", ALL)
_M.with_rd = with.method("with_rd", locker("rdlock", 1, true), LOCK_OPTIONS)
_M.with_wr = with.method("with_wr", locker("wrlock", ALL, true), LOCK_OPTIONS)
_M.unlock = held_lock.unlock
_M.expire = held_lock.expire
_M.token = held_lock.token
_M.remaining = held_lock.remaining
_M.valid = held_lock.valid
_M.hand_over = held_lock.hand_over
_M.holder = held_lock.holder
_M.holders = held_lock.holders
_M.waiters = held_lock.waiters


-- From now on others may read, too. For a reader nothing changes.
function _M.downgrade(self)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "downgrade")
    end
    local grant, key = held_by(self)
    if not grant then
        return nil, "unlocked"
    end
    used(self, grant, key)
    local code = C.holdfast_permits_keep(grant.dict, key, #key, grant.lease, 1)
    if code == OK then
        return true
    end
    return nil, held_lock.failure(self, key, code)
end


return _M
