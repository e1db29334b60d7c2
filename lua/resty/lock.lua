-- A lock that stops only the caller while it waits: lua-resty-lock for any LuaJIT process. Manual: docs/resty.lock.md.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local gate = require "resty.holdfast.dictionary.gate"
local held_lock = require "resty.holdfast.lock.held_lock"
local later = require "resty.holdfast.later"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local options = require "resty.holdfast.lock.options"
local program = require "resty.holdfast.program"
local take = require("resty.holdfast.lock.acquire").take

local error, ipairs, min, pairs, rawset, setmetatable, type = error, ipairs, math.min, pairs, rawset, setmetatable, type
local check_gate, find_gate = gate.check, gate.find
local check_lease = later.fn("resty.holdfast.lock.renewal", "check")
local find_dict = require("resty.holdfast.dictionary.registry").find
local free_key, new_lock = held_lock.free_key, held_lock.new
local read_call, warn_once = options.read_call, program.warn_once

local DEFAULT_SETTINGS = options.DEFAULT_SETTINGS

local _M = { _VERSION = core.version }
local mt = held_lock.new_class(_M)

-- Methods of lua-resty-lock warn of options that it ignored, and accept them.
local NEW_OPTIONS = options.known({ "exptime", "timeout", "wait", "block", "fair", "deadlock", "renew", "on_lost",
                                    "step", "ratio", "max_step", "cluster", "log_timeouts" }, true)
local LOCK_OPTIONS = options.known({ "exptime", "timeout", "why" }, true)
local TRYLOCK_OPTIONS = options.known { "exptime", "why" }
local WITH_OPTIONS = options.known { "exptime", "timeout", "why" }
local DEFAULTS = { exptime = 30 }

-- A stand-in for nginx may raise for a missing field.
local function is_debug_build()
    local ngx = rawget(_G, "ngx")
    return type(ngx) == "table" and type(ngx.config) == "table" and ngx.config.debug
end

local asked, answer = pcall(is_debug_build)
local DEBUG = asked and answer or program.getenv("HOLDFAST_DEBUG") == "1"

-- With DEBUG, memo shows the live objects: each refers to its dictionary as long as it lives. Objects cost eight times
-- as much then, and Debian's nginx is one for debugging. So this begins when somebody asks for one of the three.
local dict_ref_type
local SHOWN = { memo = true, ref_obj = true, unref_obj = true }

local function show(module, name)
    if not SHOWN[name] then
        return nil
    end
    for shown in pairs(SHOWN) do
        rawset(module, shown, lease_pool[shown])
    end
    setmetatable(module, nil)
    dict_ref_type = ffi.metatype("struct { int32_t id; }", { __gc = function (ref) lease_pool.unref_obj(ref.id) end })
    return lease_pool[name]
end


-- As in the original, a given timeout is cut down to exptime, also to 0, which means never there. Returns it.
local function cut_down(timeout, exptime, method)
    if exptime == 0 and timeout > 0 then
        warn_once('bad option "timeout" to ' .. method .. ": " .. timeout
                  .. " is limited to exptime, which is 0, so the lock does not wait; omit timeout to wait for 5"
                  .. " seconds, or use exptime = math.huge, which never expires either")
    end
    return min(timeout, exptime)
end


-- As in the original, timeout and first step are cut down where they are given.
local function clamp(times)
    local timeout, step = times.timeout, times.step
    if timeout then
        timeout = cut_down(timeout, times.exptime, "new")
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
        if times.cluster then
            local belongs
            belongs, err = check_gate(dict, times.cluster)
            if not belongs then
                return nil, err
            end
        end
        exptime, timeout, step, ratio, max_step = clamp(times)
    end
    local self = new_lock(mt, dict, settings, exptime, timeout, step, ratio, max_step)
    if dict_ref_type then
        -- An initialiser costs three times as much.
        local dict_ref = ffi.new(dict_ref_type)
        dict_ref.id = lease_pool.ref_obj(dict)
        self.dict_ref = dict_ref
    end
    return self
end


-- `certain`: the caller will release the lock.
local function locker(certain)
    return function (self, key, opts)
        local err
        key, err = free_key(self, key or nil, "lock")  -- false counts as nil, as in lua-resty-lock
        if not key then
            return nil, err
        end
        local exptime, timeout, step, why = self.exptime, self.timeout, self.step, nil
        if opts then
            local given_exptime, given_timeout
            given_exptime, given_timeout, why = read_call(opts, "lock", LOCK_OPTIONS)
            exptime = given_exptime or exptime
            if given_timeout then
                timeout = cut_down(given_timeout, exptime, "lock")
                step = min(step, timeout)
            end
        end
        return take(self, key, nil, certain, exptime, why, timeout, step)
    end
end

_M.lock = locker(false)


function _M.trylock(self, key, opts)
    local err
    key, err = free_key(self, key or nil, "trylock")
    if not key then
        return nil, err
    end
    local exptime, why, _
    if opts then
        exptime, _, why = read_call(opts, "trylock", TRYLOCK_OPTIONS)
    end
    local taken
    taken, err = take(self, key, nil, false, exptime or self.exptime, why)
    if taken then
        return true
    end
    return nil, err
end


for _, name in ipairs { "holder", "holders", "waiters" } do
    local of_key = held_lock.methods[name]
    _M[name] = function (self, key, ...) return of_key(self, key or nil, ...) end  -- false counts as nil here, too
end


-- Whether the lock is still held, and still this machine's.
_M.verify = held_lock.on_held("verify", function (self, grant, key)
    local found = find_gate(grant.dict)
    if found then
        return found.verify(self, grant, key)
    end
    return held_lock.outcome(self, key, check_lease(grant.dict, key, grant.lease))
end)

_M.with = held_lock.with("with", locker(true), WITH_OPTIONS)
_M.wait = later.fn("resty.holdfast.lock.contended", "wait_for_release")

later.count_uses(_M, { "lock", "trylock", "with" })

if DEBUG then
    setmetatable(_M, { __index = show })
end


return _M
