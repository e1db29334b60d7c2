-- Implements semaphores: a key has at most N holders at the same time, in all processes together. Manual:
-- docs/resty.semaphore.md.
--
-- An object may hold many permits of many keys, and coroutines may share the object. Keys, times and errors are the
-- same as in resty.lock.

local contended = require "resty.holdfast.lock.contended"
local core = require "resty.holdfast.core"
local held_lock = require "resty.holdfast.lock.held_lock"
local later = require "resty.holdfast.later"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local options = require "resty.holdfast.lock.options"
local with = require "resty.holdfast.lock.with"

local C, describe, enter, leave, reason = core.C, core.describe, core.enter, core.leave, core.reason
local empty, give_back, hold = lease_pool.empty, lease_pool.give_back, lease_pool.hold
local error, getmetatable, max, setmetatable = error, getmetatable, math.max, setmetatable
local find_dict = require("resty.holdfast.dictionary.registry").find
local check_time, key_string = core.check_time, core.key_string
local is_final = contended.is_final
local memo, take_grant = lease_pool.memo, lease_pool.take
local read_call = options.read_call
local tonumber, type = tonumber, type

local LOCKED, OK = core.LOCKED, core.OK
local INFINITY = math.huge
-- Any coroutine may post a permit.
local NOBODY = require("resty.holdfast.tasks.task_ids").NOBODY
local HOW_FIRST, SEMAPHORE = core.HOW_FIRST, core.SEMAPHORE

local _M = { _VERSION = core.version }
local mt = { __index = _M }

local DEFAULTS = { exptime = 0, most_permits = core.ALL_PERMITS - 1 }
local NEW_OPTIONS = options.known { "permits", "exptime", "timeout", "wait", "block", "fair", "step", "ratio",
                                    "max_step", "log_timeouts" }
local CALL_OPTIONS = options.known { "exptime", "timeout", "why" }


-- Creates an object without permits: semaphore:new(dict_name, opts).
--
-- opts: permits (required: a whole number from 1 to 1073741823), timeout (default 5 s), exptime (default 0, which means
-- never), and wait, block, fair, log_timeouts, step, ratio, max_step as in resty.lock. An unknown option raises an
-- error.
--
-- Returns the object, or nil and "dictionary not found" or another message. Does not yield.
function _M.new(class, dict_name, opts)
    options.check_class(class, "semaphore")
    local times, settings, permits = options.read_new(opts or {}, NEW_OPTIONS, DEFAULTS)
    local dict, err = find_dict(dict_name)
    if not dict then
        return nil, err
    end
    return setmetatable({
        dict = dict,
        held = {},  -- for each key, the grants of this object, from `first` to `last`
        permits = permits, settings = settings,
        exptime = times.exptime, timeout = times.timeout or 5, step = times.step or 0.001, ratio = times.ratio,
        max_step = times.max_step,
    }, mt)
end


-- Raises an error for a receiver that is not a semaphore. The error names the line that called the method.
local function check_receiver(self, method)
    if getmetatable(self) ~= mt then
        error("bad receiver of " .. method .. ": expected a semaphore, got " .. describe(self) .. "; call it as obj:"
              .. method .. "(...)", 3)
    end
end


-- Records a grant of this object. `why` is not stored if there is no memory for it.
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


local function keep_waited(self, request, grant, _, why)
    keep(self, memo[request.key_id], grant, why)
    return true
end


local function wait_for(self, grant, exptime, timeout, why)
    local request = contended.new_request(self, grant, exptime, timeout, self.step)
    request.kind, request.want, request.total = SEMAPHORE, 1, self.permits
    return contended.wait(self, request, grant, keep_waited, why)
end


-- Takes a permit, and waits if none is free. Yields as lock() of resty.lock does. opts: timeout, exptime, why; or a
-- number, which is the timeout. Returns true, or nil and "timeout", "no memory", "dictionary not found" or another
-- error from lock().
function _M.wait(self, key, opts)
    check_receiver(self, "wait")
    local exptime, timeout, why, err
    if type(opts) == "table" then
        exptime, timeout, why = read_call(opts, "wait", CALL_OPTIONS)
    else
        timeout = opts
        if timeout ~= nil then
            check_time(timeout, "timeout", "wait", 2)
        end
    end
    key, err = key_string(key)
    if not key then
        return nil, err
    end
    exptime, timeout = exptime or self.exptime, timeout or self.timeout
    local handle = self.dict[1]
    local grant = take_grant(handle, key)
    -- settings.fair is HOW_FAIR or 0.
    local how = timeout > 0 and self.settings.fair + HOW_FIRST or self.settings.fair
    local code = C.holdfast_permits_try(handle, key, #key, SEMAPHORE, 1, self.permits, exptime, NOBODY, how,
                                        grant.lease)
    if code == OK then
        keep(self, key, grant, why)
        return true
    end
    if is_final(code, timeout) then
        give_back(grant)
        return nil, reason(code)
    end
    return wait_for(self, grant, exptime, timeout, why)
end


-- Gives back the oldest permit. Returns the code, and true if the release had no effect and the object still has the
-- permit. `for_certain`: the caller will not try again, so if the release is refused now, the library tries again.
local function give_one_back(own, key, for_certain)
    local grant = own[own.first]
    local code
    if for_certain then
        code = C.holdfast_unlock_for_certain(grant.dict, key, #key, grant.lease)
    else
        code = C.holdfast_unlock(grant.dict, key, #key, grant.lease)
    end
    if code ~= OK and grant.lease.owner ~= 0 then
        return code, true
    end
    own[own.first] = nil
    own.first = own.first + 1
    empty(grant)
    return code, false
end


-- Gives back the oldest `n` permits of the key. Returns true, or nil and the reason.
local function give_back_permits(self, key, n, for_certain)
    local own = self.held[key]
    if not own or own.last - own.first + 1 < n then
        return nil, "not owner"
    end
    local err
    for _ = 1, n do
        local code, still_held = give_one_back(own, key, for_certain)
        if code ~= OK then
            err = err or reason(code)
        end
        if still_held then
            break
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


-- Gives back `n` permits (default 1) that this object took, the oldest first, and wakes the same number of waiters.
-- Does not yield. Returns true, or nil and "not owner", "dictionary not found" or "timeout". After "timeout", which a
-- stopped process causes, call post() again.
function _M.post(self, key, n)
    check_receiver(self, "post")
    if n == nil then
        n = 1
    elseif type(n) ~= "number" or not (n >= 1 and n < INFINITY) or n % 1 ~= 0 then
        error("bad number of permits to post: expected a whole number, 1 or more, got " .. describe(n), 2)
    end
    local text, err = key_string(key)
    if not text then
        return nil, err
    end
    return give_back_permits(self, text, n, false)
end


-- Returns the number of free permits and the number of waiters. Returns nil and "held" if the key has a value or a
-- lock, or nil and an error from wait(). Does not yield.
function _M.count(self, key)
    check_receiver(self, "count")
    local text, err = key_string(key)
    if not text then
        return nil, err
    end
    local frame = enter()
    local code = C.holdfast_permits_count(self.dict[1], text, #text, frame.count, frame.count2)
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


held_lock.add_queries(_M, check_receiver)
-- with(key, [opts,] fn, ...) takes a permit as wait() does, calls fn(...), and gives the permit back even if fn raises
-- an error. Yields where wait() or fn yields. Returns the results of fn, or nil and the error from wait().
_M.with = with.method("with", {
    check = check_receiver,
    check_options = function (opts, method)
        if type(opts) == "table" then
            return read_call(opts, method, CALL_OPTIONS)
        end
        if opts ~= nil then
            check_time(opts, "timeout", method, 3)
        end
    end,
    take = function (self, key, opts) return self:wait(key, opts) end,
    keep = function (_, key) return key end,
    give_back = function (self, key) give_back_permits(self, key_string(key), 1, true) end,
})

later.count_uses(_M, { "wait" })  -- with() calls wait()

return _M
