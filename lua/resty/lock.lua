-- A lock that waits without stopping anybody else: lua-resty-lock for any LuaJIT process. Manual: docs/resty.lock.md.

local task_ids = require "resty.holdfast.tasks.task_ids"
local core = require "resty.holdfast.core"
local acquire = require "resty.holdfast.lock.acquire"
local ffi = require "ffi"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local held_lock = require "resty.holdfast.lock.held_lock"
local renewal = require "resty.holdfast.lock.renewal"
local refs = require "resty.holdfast.lock.refs"
local options = require "resty.holdfast.lock.options"
local with = require "resty.holdfast.lock.with"
local shdict = require "resty.shdict"

local C = core.C
local can_renew = renewal.can_renew
local error = error
local find_dict = shdict.find
local getenv = require("resty.holdfast.ffi.environment").get
local give_back = lease_pool.give_back
local hold = lease_pool.hold
local key_string = core.key_string
local min = math.min
local read_call = options.read_call
local reason = core.reason
local setmetatable = setmetatable
local settle = acquire.settle
local take_grant = lease_pool.take
local type = type
local vacate = require("resty.holdfast.lock.scopes").vacate
local wait_for = acquire.wait_for
local waiting = require "resty.holdfast.wait.wait"
local wrong_receiver = held_lock.wrong_receiver

local BUSY = core.BUSY
local CANNOT_RENEW = renewal.CANNOT_RENEW
local DEFAULT_SETTINGS = options.DEFAULT_SETTINGS
local LOCKED = core.LOCKED
local NOBODY = task_ids.NOBODY
local OK = core.OK
local SYSTEM = core.SYSTEM
local TIMEOUT = core.TIMEOUT

local _M = { _VERSION = core.version }
local mt = { __index = _M }

-- Of lua-resty-lock's methods: what it did not look at is told, and not refused.
local NEW_OPTIONS = options.known({ "exptime", "timeout", "wait", "block", "fair", "deadlock", "renew", "on_lost",
                                    "step", "ratio", "max_step" }, true)
local LOCK_OPTIONS = options.known({ "exptime", "timeout", "why" }, true)
local TRYLOCK_OPTIONS = options.known { "exptime", "why" }
local WITH_OPTIONS = options.known { "exptime", "timeout", "why" }
local DEFAULTS = { exptime = 30 }

-- What stands in for nginx may raise for what it does not have.
local function is_debug_build()
    local ngx = rawget(_G, "ngx")
    return type(ngx) == "table" and type(ngx.config) == "table" and ngx.config.debug
end

local asked, answer = pcall(is_debug_build)
local DEBUG = asked and answer or getenv("HOLDFAST_DEBUG") == "1"

-- With DEBUG, memo shows which objects there are: each refers to its dictionary as long as it lives.
local dict_ref_type
if DEBUG then
    _M.memo = refs.memo
    _M.ref_obj = refs.ref_obj
    _M.unref_obj = refs.unref_obj
    dict_ref_type = ffi.metatype("struct { int32_t id; }", { __gc = function (ref) refs.unref_obj(ref.id) end })
end


-- As in the original, timeout and first step are cut down where they are given.
local function clamp(times)
    local timeout, step = times.timeout, times.step
    if timeout then
        timeout = min(timeout, times.exptime)
        step = step and min(step, timeout)
    end
    return times.exptime, timeout or 5, step or 0.001, times.ratio, times.max_step
end


function _M.new(class, dict_name, opts)
    if type(class) == "string" and type(dict_name) ~= "string" then
        error("bad call of new: call it as resty_lock:new(dictionary, options)", 2)
    end
    local dict, err = find_dict(dict_name)
    if not dict then
        return nil, err
    end
    local exptime, timeout, step, ratio, max_step, settings = 30, 5, 0.001, 2, 0.5, DEFAULT_SETTINGS
    if opts then
        local times
        times, settings = options.read_new(opts, NEW_OPTIONS, DEFAULTS)
        exptime, timeout, step, ratio, max_step = clamp(times)
    end
    local self = setmetatable({
        cdata = false,
        dict = dict,
        timeout = timeout,
        exptime = exptime,
        step = step,
        ratio = ratio,
        max_step = max_step,
        settings = settings,
        key = nil,  -- leaves room for it: a table that grows with its first lock costs three times as much
    }, mt)
    if DEBUG then
        -- Not by an initialiser: that costs three times as much.
        local dict_ref = ffi.new(dict_ref_type)
        dict_ref.id = refs.ref_obj(dict)
        self.dict_ref = dict_ref
    end
    return self
end


-- The key as a string. false is nil here, as in the original.
local function lock_key(key)
    if not key then
        return nil, "nil key"
    end
    return key_string(key)
end


local function wait_for_lock(self, handle, key, exptime, timeout, step, certain, why)
    return wait_for(self, {
        handle = handle,
        key = key,
        exptime = exptime,
        timeout = timeout,
        certain = certain,
        fair = self.settings.fair,
        why = why,
        step = step,
        ratio = self.ratio,
        max_step = self.max_step,
    })
end


-- What is no lock object has no field cdata. The methods look for it themselves, because where Lua is interpreted one
-- more call shows in the time of a lock. For the same reason there are two of this one. `certain`: the caller will
-- release the lock.
local function locker(certain)
    return function (self, key, opts)
        if type(self) ~= "table" or self.cdata == nil then
            wrong_receiver(self, "lock")
        end
        local err
        key, err = lock_key(key)
        if not key then
            return nil, err
        end
        if self.cdata and not vacate(self) then
            return nil, "locked"
        end
        local exptime, timeout, step, why = self.exptime, self.timeout, self.step, nil
        if opts then
            local given_exptime, given_timeout
            given_exptime, given_timeout, why = read_call(opts, "lock", LOCK_OPTIONS)
            exptime = given_exptime or exptime
            if given_timeout then
                timeout = min(given_timeout, exptime)
                step = min(step, timeout)
            end
        end

        local settings = self.settings
        if settings.renew and exptime > 0 and not can_renew() then
            return nil, CANNOT_RENEW
        end
        local task_id = settings.holder
        if not task_id or certain and task_id ~= NOBODY then
            task_id = task_ids.current or task_ids.get()
        end
        local handle = self.dict[1]
        local grant = take_grant(handle, key)
        local code = C.holdfast_lock_try(handle, key, #key, exptime, task_id, settings.fair, grant.lease)
        if code == OK then
            if why or settings.watched then
                settle(self, grant, task_id, handle, key, exptime, why)
            else
                hold(grant, task_id)
                self.cdata = grant
            end
            self.key = key
            return 0
        end
        give_back(grant)
        if code ~= LOCKED and code ~= TIMEOUT and (timeout <= 0 or (code ~= SYSTEM and code ~= BUSY)) then
            return nil, reason(code)
        end
        return wait_for_lock(self, handle, key, exptime, timeout, step, certain, why)
    end
end

_M.lock = locker(false)


function _M.trylock(self, key, opts)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "trylock")
    end
    local err
    key, err = lock_key(key)
    if not key then
        return nil, err
    end
    if self.cdata and not vacate(self) then
        return nil, "locked"
    end
    local exptime, why = self.exptime, nil
    if opts then
        local given_exptime, _
        given_exptime, _, why = read_call(opts, "trylock", TRYLOCK_OPTIONS)
        exptime = given_exptime or exptime
    end

    local settings = self.settings
    if settings.renew and exptime > 0 and not can_renew() then
        return nil, CANNOT_RENEW
    end
    local handle = self.dict[1]
    local grant = take_grant(handle, key)
    local task_id = settings.holder or task_ids.current or task_ids.get()
    local code = C.holdfast_lock_try(handle, key, #key, exptime, task_id, settings.fair, grant.lease)
    if code == LOCKED and waiting.find_gone() then
        code = C.holdfast_lock_try(handle, key, #key, exptime, task_id, settings.fair, grant.lease)
    end
    if code == OK then
        if why or settings.watched then
            settle(self, grant, task_id, handle, key, exptime, why)
        else
            hold(grant, task_id)
            self.cdata = grant
        end
        self.key = key
        return true
    end
    give_back(grant)
    if code == LOCKED then
        return nil, "held"
    end
    return nil, reason(code)
end


_M.unlock = held_lock.unlock
_M.expire = held_lock.expire
_M.token = held_lock.token
_M.remaining = held_lock.remaining
_M.valid = held_lock.valid
_M.hand_over = held_lock.hand_over
_M.with = with.method("with", locker(true), WITH_OPTIONS)
_M.holder = held_lock.holder
_M.holders = held_lock.holders
_M.waiters = held_lock.waiters
_M.wait = require("resty.holdfast.lock.watch").wait


return _M
