-- A lock that waits without stopping anybody else: lua-resty-lock for any LuaJIT process. Manual: docs/resty.lock.md.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local hosts = require "resty.holdfast.host"
local shdict = require "resty.shdict"
local waiting = require "resty.holdfast.waiting"

local C = core.C
local describe = core.describe
local error = error
local ffi_metatype = ffi.metatype
local ffi_new = ffi.new
local find_dict = shdict.find
local getenv = os.getenv
local is_duration = core.is_duration
local key_string = core.key_string
local min = math.min
local pairs = pairs
local reason = core.reason
local setmetatable = setmetatable
local tonumber = tonumber
local tostring = tostring
local type = type

local BUSY = core.BUSY
local INFINITY = math.huge
local LOCKED = core.LOCKED
local OK = core.OK
local TIMEOUT = core.TIMEOUT

local _M = { _VERSION = core.version }
local mt = { __index = _M }

local ngx = rawget(_G, "ngx")
local DEBUG = (ngx and ngx.config and ngx.config.debug) or getenv("HOLDFAST_DEBUG") == "1"

-- memo holds what a finaliser needs, because it gets nothing but its cdata: keys, and with DEBUG
-- dictionaries, each under a number. Free numbers form a list that starts at memo[FREE_LIST_REF]; 0 or nil ends it.
local FREE_LIST_REF = 0
local memo = {}


local function ref_obj(obj)
    if obj == nil then
        return -1
    end
    local ref = memo[FREE_LIST_REF]
    if ref and ref ~= 0 then
        memo[FREE_LIST_REF] = memo[ref]
    else
        ref = #memo + 1
    end
    memo[ref] = obj
    return ref
end


local function unref_obj(ref)
    if ref >= 0 then
        memo[ref] = memo[FREE_LIST_REF]
        memo[FREE_LIST_REF] = ref
    end
end


if DEBUG then
    _M.memo = memo
    _M.ref_obj = ref_obj
    _M.unref_obj = unref_obj
end


local function default_wait()
    local wait = getenv("HOLDFAST_WAIT")
    if wait == nil or wait == "" then
        return "wake"
    end
    if wait ~= "wake" and wait ~= "poll" then
        error('holdfast: HOLDFAST_WAIT is "' .. wait .. '": accepted are "wake" and "poll"', 0)
    end
    return wait
end

local DEFAULT_WAIT = default_wait()


-- --- grants --------------------------------------------------------------------------------------------

-- A grant outlives the lock object until the collector has released what the object still held. Making one, with its
-- finaliser, costs ten times as much as making the object: objects have a grant only while they hold a lock, and pass
-- it on after that. key_id: 0 when nothing is held.


-- The library compares the lease with the holder's: a lock that has another owner by now, and one that this process
-- has from its parent, stay as they are. A lock that cannot be released now lapses.
local function collect_grant(grant)
    local key_id = grant.key_id
    if key_id > 0 then
        local key = memo[key_id]
        grant.key_id = 0
        unref_obj(key_id)
        C.holdfast_unlock(grant.dict, key, #key, grant.lease)
    end
end


local grant_type = ffi_metatype("struct { int32_t key_id; holdfast_dict *dict; holdfast_lease lease; }",
                                { __gc = collect_grant })

local spare, spare_count = {}, 0


-- The caller gives it back, or keeps it for the object that holds the lock.
local function take_grant()
    local grant = spare[spare_count]
    if not grant then
        return ffi_new(grant_type)
    end
    spare[spare_count] = nil
    spare_count = spare_count - 1
    return grant
end


local function give_back(grant)
    spare_count = spare_count + 1
    spare[spare_count] = grant
end


local function keep(self, grant, handle, key)
    grant.key_id = ref_obj(key)
    grant.dict = handle
    self.cdata = grant
end


-- With DEBUG, memo shows which objects there are: each refers to its dictionary as long as it lives.
local dict_ref_type = ffi_metatype("struct { int32_t id; }", { __gc = function (ref) unref_obj(ref.id) end })


-- --- options -------------------------------------------------------------------------------------------

-- `level` counts from here to the line to blame.
local function bad_number(name, who, accepted, given, level)
    error('bad option "' .. name .. '" to ' .. who .. ": a number" .. accepted .. " expected, got " .. describe(given),
          level)
end


-- An option that is nil or a number of at least 0.
local function number_option(opts, name, who, level, accept_infinity)
    local given = opts[name]
    if given == nil or is_duration(given) or (given == INFINITY and accept_infinity) then
        return given
    end
    bad_number(name, who, ", 0 or more,", given, level + 1)
end


local function max_step_option(opts)
    local given = opts.max_step
    if given == nil or (given ~= 0 and (is_duration(given) or given == INFINITY)) then
        return given
    end
    bad_number("max_step", "new", " greater than 0", given, 5)
end


local function wait_option(opts)
    local given = opts.wait
    if given == nil then
        return DEFAULT_WAIT
    end
    if given ~= "wake" and given ~= "poll" then
        error('bad option "wait" to new: "wake" or "poll" expected, got ' .. describe(given), 4)
    end
    return given
end


local function read_options(opts)
    if type(opts) ~= "table" then
        error("bad options to new: table expected, got " .. type(opts), 3)
    end
    local exptime = number_option(opts, "exptime", "new", 4) or 30
    local timeout = number_option(opts, "timeout", "new", 4, true)
    local step = number_option(opts, "step", "new", 4)
    local ratio = number_option(opts, "ratio", "new", 4)
    local max_step = max_step_option(opts)
    if timeout then
        timeout = min(timeout, exptime)
        if step then
            step = min(step, timeout)
        end
    end
    return exptime, timeout or 5, step or 0.001, ratio or 2, max_step or 0.5, wait_option(opts)
end


-- The exptime, timeout and first step of one call.
local function call_options(self, opts, who, accepts_timeout)
    if type(opts) ~= "table" then
        error("bad options to " .. who .. ": table expected, got " .. type(opts), 3)
    end
    for name in pairs(opts) do
        if name ~= "exptime" and not (accepts_timeout and name == "timeout") then
            error('unknown option "' .. tostring(name) .. '" to ' .. who .. ": accepted "
                  .. (accepts_timeout and "are exptime and timeout" or "is exptime"), 3)
        end
    end
    local exptime = number_option(opts, "exptime", who, 4) or self.exptime
    local timeout = number_option(opts, "timeout", who, 4, true)
    if timeout then
        timeout = min(timeout, exptime)
        return exptime, timeout, min(self.step, timeout)
    end
    return exptime, self.timeout, self.step
end


-- --- methods -------------------------------------------------------------------------------------------

-- What is no lock object has no field cdata. The methods look for it themselves, because where Lua is interpreted one
-- more call shows in the time of a lock. The line to blame is the one that called the method.
local function wrong_receiver(self, method)
    error("bad receiver of " .. method .. ": a lock object expected, got " .. describe(self) .. "; call it as obj:"
          .. method .. "(...)", 3)
end


function _M.new(_, dict_name, opts)
    local dict, err = find_dict(dict_name)
    if not dict then
        return nil, err
    end
    local exptime, timeout, step, ratio, max_step, wait = 30, 5, 0.001, 2, 0.5, DEFAULT_WAIT
    if opts then
        exptime, timeout, step, ratio, max_step, wait = read_options(opts)
    end
    local self = setmetatable({
        cdata = false,
        dict = dict,
        timeout = timeout,
        exptime = exptime,
        step = step,
        ratio = ratio,
        max_step = max_step,
        wait = wait,
    }, mt)
    if DEBUG then
        -- Not by an initialiser: that costs three times as much.
        local dict_ref = ffi_new(dict_ref_type)
        dict_ref.id = ref_obj(dict)
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


-- Waits for a lock that somebody else holds, or that a stopped process keeps from being looked at.
local function wait_for(self, handle, key, exptime, timeout, step)
    if timeout <= 0 then
        return nil, "timeout"
    end
    local host, err = hosts.current()
    if not host then
        return nil, err
    end
    local grant = take_grant()
    local elapsed
    if self.wait == "wake" then
        elapsed, err = waiting.wake(host, handle, key, exptime, timeout, grant.lease)
    end
    if not elapsed and not err then
        elapsed, err = waiting.poll(host, handle, key, exptime, timeout, grant.lease, step, self.ratio, self.max_step)
    end
    if not elapsed then
        give_back(grant)
        return nil, err
    end
    if self.cdata then
        -- Another coroutine got a lock with this object meanwhile.
        C.holdfast_unlock(handle, key, #key, grant.lease)
        give_back(grant)
        return nil, "locked"
    end
    keep(self, grant, handle, key)
    return elapsed
end


function _M.lock(self, key, opts)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "lock")
    end
    local err
    key, err = lock_key(key)
    if not key then
        return nil, err
    end
    if self.cdata then
        return nil, "locked"
    end
    local exptime, timeout, step = self.exptime, self.timeout, self.step
    if opts then
        exptime, timeout, step = call_options(self, opts, "lock", true)
    end

    local handle = self.dict[1]
    local grant = take_grant()
    local code = C.holdfast_lock_try(handle, key, #key, exptime, grant.lease)
    if code == OK then
        keep(self, grant, handle, key)
        return 0
    end
    give_back(grant)
    if code ~= LOCKED and code ~= TIMEOUT then
        return nil, reason(code)
    end
    return wait_for(self, handle, key, exptime, timeout, step)
end


function _M.trylock(self, key, opts)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "trylock")
    end
    local err
    key, err = lock_key(key)
    if not key then
        return nil, err
    end
    if self.cdata then
        return nil, "locked"
    end
    local exptime = self.exptime
    if opts then
        exptime = call_options(self, opts, "trylock", false)
    end

    local handle = self.dict[1]
    local grant = take_grant()
    local code = C.holdfast_lock_try(handle, key, #key, exptime, grant.lease)
    if code == OK then
        keep(self, grant, handle, key)
        return true
    end
    give_back(grant)
    if code == LOCKED then
        return nil, "held"
    end
    return nil, reason(code)
end


function _M.unlock(self)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "unlock")
    end
    local grant = self.cdata
    if not grant then
        return nil, "unlocked"
    end
    local key_id = grant.key_id
    local key = memo[key_id]
    local code = C.holdfast_unlock(grant.dict, key, #key, grant.lease)
    if code == TIMEOUT or code == BUSY then
        -- Nothing has changed; the caller may try again.
        return nil, reason(code)
    end
    grant.key_id = 0
    unref_obj(key_id)
    self.cdata = false
    give_back(grant)
    if code == OK then
        return 1
    end
    return nil, reason(code)
end


function _M.expire(self, time)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "expire")
    end
    if not self.cdata then
        return nil, "unlocked"
    end
    if time == nil then
        time = self.exptime
    elseif not is_duration(time) then
        error("bad time to expire: a number, 0 or more, expected, got " .. describe(time), 2)
    end
    local grant = self.cdata
    local key = memo[grant.key_id]
    local code = C.holdfast_lock_renew(grant.dict, key, #key, grant.lease, time)
    if code == OK then
        return true
    end
    return nil, reason(code)
end


function _M.token(self)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "token")
    end
    if not self.cdata then
        return nil, "unlocked"
    end
    return tonumber(self.cdata.lease.sequence)
end


return _M
