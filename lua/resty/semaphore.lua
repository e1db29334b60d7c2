-- At most so many at once, over processes. Manual: docs/resty.semaphore.md.

local acquire = require "resty.holdfast.lock.acquire"
local core = require "resty.holdfast.core"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local holders = require "resty.holdfast.lock.lock_info"
local options = require "resty.holdfast.lock.options"
local shdict = require "resty.shdict"
local traceback = require "resty.holdfast.tasks.traceback"

local C = core.C
local check_max = require("resty.holdfast.lock.held_lock").check_max
local count_waiters = holders.count_waiters
local describe = core.describe
local empty = lease_pool.empty
local enter = core.enter
local enter_scope = require("resty.holdfast.lock.scopes").enter
local error = error
local find_all = holders.find_all
local find_holder = holders.find
local getmetatable = getmetatable
local give_back = lease_pool.give_back
local hold = lease_pool.hold
local is_duration = core.is_duration
local key_string = core.key_string
local leave = core.leave
local leave_scope = require("resty.holdfast.lock.scopes").leave
local max = math.max
local note = traceback.note
local read_call = options.read_call
local reason = core.reason
local setmetatable = setmetatable
local take_grant = lease_pool.take
local tonumber = tonumber
local type = type
local xpcall = xpcall

local BUSY = core.BUSY
local INFINITY = math.huge
local LOCKED = core.LOCKED
-- Any coroutine may post a permit.
local NOBODY = require("resty.holdfast.tasks.task_ids").NOBODY
local OK = core.OK
local SYSTEM = core.SYSTEM
local SEMAPHORE = core.SEMAPHORE
local TIMEOUT = core.TIMEOUT

local _M = { _VERSION = core.version }
local mt = { __index = _M }

local DEFAULTS = { exptime = 0, most_permits = core.ALL_PERMITS - 1 }
local NEW_OPTIONS = options.known { "permits", "exptime", "timeout", "wait", "block", "fair", "step", "ratio",
                                    "max_step" }
local CALL_OPTIONS = options.known { "exptime", "timeout", "why" }


function _M.new(class, dict_name, opts)
    options.check_class(class, "semaphore")
    local times, settings, permits = options.read_new(opts or {}, NEW_OPTIONS, DEFAULTS)
    local dict, err = shdict.find(dict_name)
    if not dict then
        return nil, err
    end
    return setmetatable({
        dict = dict,
        held = {},  -- key to the grants of this object, those from `first` to `last`
        permits = permits,
        timeout = times.timeout or 5,
        exptime = times.exptime,
        step = times.step or 0.001,
        ratio = times.ratio,
        max_step = times.max_step,
        settings = settings,
    }, mt)
end


-- The line to blame is the one that called the method.
local function check_receiver(self, method)
    if getmetatable(self) ~= mt then
        error("bad receiver of " .. method .. ": a semaphore expected, got " .. describe(self) .. "; call it as obj:"
              .. method .. "(...)", 3)
    end
end


local function check_timeout(timeout, method)
    if timeout ~= nil and not is_duration(timeout) and timeout ~= INFINITY then
        error("bad timeout to " .. method .. ": a number, 0 or more, expected, got " .. describe(timeout), 3)
    end
end


-- `why`, if there is no memory for it, is not told to anybody.
local function keep(self, key, grant, why)
    hold(grant, NOBODY)
    if why then
        C.holdfast_lock_explain(grant.dict, key, #key, grant.lease, why, #why)
    end
    local own = self.held[key]
    if not own then
        own = { first = 1, last = 0 }
        self.held[key] = own
    end
    local last = own.last + 1
    own[last] = grant
    own.last = last
end


local function wait_for(self, handle, key, exptime, timeout, why)
    local elapsed, grant, keys = acquire.wait({
        handle = handle,
        key = key,
        kind = SEMAPHORE,
        want = 1,
        total = self.permits,
        exptime = exptime,
        timeout = timeout,
        holder = NOBODY,
        fair = self.settings.fair,
        step = self.step,
        ratio = self.ratio,
        max_step = self.max_step,
    }, self.settings)
    if not elapsed then
        if keys then
            return nil, grant, keys
        end
        return nil, grant
    end
    keep(self, key, grant, why)
    return true
end


-- Takes a permit.
local function take(self, key, exptime, timeout, why)
    local handle = self.dict[1]
    local grant = take_grant(handle, key)
    local code = C.holdfast_permits_try(handle, key, #key, SEMAPHORE, 1, self.permits, exptime, NOBODY,
                                        self.settings.fair, grant.lease)
    if code == OK then
        keep(self, key, grant, why)
        return true
    end
    give_back(grant)
    if code ~= LOCKED and code ~= TIMEOUT and (timeout <= 0 or (code ~= SYSTEM and code ~= BUSY)) then
        return nil, reason(code)
    end
    return wait_for(self, handle, key, exptime, timeout, why)
end


-- A number in place of the options is a timeout.
function _M.wait(self, key, opts)
    check_receiver(self, "wait")
    local exptime, timeout, why, err
    if type(opts) == "table" then
        exptime, timeout, why = read_call(opts, "wait", CALL_OPTIONS)
    else
        check_timeout(opts, "wait")
        timeout = opts
    end
    key, err = key_string(key)
    if not key then
        return nil, err
    end
    return take(self, key, exptime or self.exptime, timeout or self.timeout, why)
end


-- Gives back the permit that was taken first. The code; nothing has changed after TIMEOUT and BUSY.
local function give_one_back(own, key)
    local grant = own[own.first]
    local code = C.holdfast_unlock(grant.dict, key, #key, grant.lease)
    if code ~= TIMEOUT and code ~= BUSY then
        own[own.first] = nil
        own.first = own.first + 1
        empty(grant)
    end
    return code
end


function _M.post(self, key, n)
    check_receiver(self, "post")
    if n == nil then
        n = 1
    elseif type(n) ~= "number" or not (n >= 1 and n < INFINITY) or n % 1 ~= 0 then
        error("bad number of permits to post: a whole number, 1 or more, expected, got " .. describe(n), 2)
    end
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end
    local own = self.held[key]
    if not own or own.last - own.first + 1 < n then
        return nil, "not owner"
    end
    for _ = 1, n do
        local code = give_one_back(own, key)
        if code ~= OK then
            err = err or reason(code)
            if code == TIMEOUT or code == BUSY then
                break
            end
        end
    end
    if own.first > own.last then
        self.held[key] = nil
    end
    if err then
        return nil, err
    end
    return true
end


-- Permits that are free, and how many wait for one.
function _M.count(self, key)
    check_receiver(self, "count")
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end
    local frame = enter()
    local code = C.holdfast_permits_count(self.dict[1], key, #key, frame.count, frame.count2)
    local used, waiters = tonumber(frame.count[0]), tonumber(frame.count2[0])
    leave()
    if code == LOCKED then
        return nil, "held"
    end
    if code ~= OK then
        return nil, reason(code)
    end
    return max(self.permits - used, 0), waiters
end


function _M.holder(self, key)
    check_receiver(self, "holder")
    return find_holder(self.dict[1], key)
end


function _M.holders(self, key, max_count)
    check_receiver(self, "holders")
    max_count = check_max(max_count)
    return find_all(self.dict[1], key, max_count)
end


function _M.waiters(self, key)
    check_receiver(self, "waiters")
    return count_waiters(self.dict[1], key)
end


local function posted(self, key, scope, ok, ...)
    if scope then
        leave_scope(scope)
    end
    self:post(key)
    if not ok then
        error((...), 0)
    end
    return ...
end


local function run_with_permit(self, key, opts, fn, ...)
    local ok, err, keys = self:wait(key, opts)
    if not ok then
        if keys then
            return nil, err, keys
        end
        return nil, err
    end
    return posted(self, key, enter_scope(self, self.post, key), xpcall(fn, note, ...))
end


-- with(key, fn, ...) or with(key, opts, fn, ...)
function _M.with(self, key, ...)
    check_receiver(self, "with")
    local opts, fn = ...
    if type(opts) == "function" then
        return run_with_permit(self, key, nil, ...)
    end
    if type(opts) == "table" then
        read_call(opts, "with", CALL_OPTIONS)
    else
        check_timeout(opts, "with")
    end
    if type(fn) ~= "function" then
        error("bad function to with: function expected, got " .. type(fn), 2)
    end
    return run_with_permit(self, key, ...)
end


return _M
