-- Locks that processes and coroutines share; while a caller waits, other coroutines run. Offers the interface of
-- lua-resty-lock to any LuaJIT process. Manual: docs/resty.lock.md.
--
-- These rules hold for all methods: `key` is a string of 1 to 65535 bytes, or something that tostring() converts. Times
-- are in seconds and may be fractions. A failure returns nil and a string. A wrong receiver, or an option that is out
-- of range, raises an error at the line of the call. A method yields only if its comment says so.

local acquire = require "resty.holdfast.lock.acquire"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local gate = require "resty.holdfast.dictionary.gate"
local held_lock = require "resty.holdfast.lock.held_lock"
local later = require "resty.holdfast.later"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local lock_settings = require "resty.holdfast.lock.settings"
local program = require "resty.holdfast.program"

local error, ipairs, min, pairs, rawset, setmetatable, type = error, ipairs, math.min, pairs, rawset, setmetatable, type
local check_gate, find_gate = gate.check, gate.find
local check_lease = later.fn("resty.holdfast.lock.renewal", "check")
local find_dict = require("resty.holdfast.dictionary.registry").find
local free_key, new_lock = held_lock.free_key, held_lock.new
local read_call = later.fn("resty.holdfast.lock.options", "read_call")
local read_new = later.fn("resty.holdfast.lock.options", "read_new")
local take, take_again = acquire.take, acquire.take_again
local warn_once = program.warn_once

local DEFAULT_SETTINGS = lock_settings.DEFAULT_SETTINGS

local _M = { _VERSION = core.version }
local mt = held_lock.new_class(_M)

-- The methods that lua-resty-lock also has accept options that it would ignore, but log a warning.
local NEW_OPTIONS = lock_settings.known({ "exptime", "timeout", "wait", "block", "fair", "deadlock", "renew", "on_lost",
                                          "step", "ratio", "max_step", "cluster", "log_timeouts" }, true)
local LOCK_OPTIONS = lock_settings.known({ "exptime", "timeout", "why" }, true)
local TRYLOCK_OPTIONS = lock_settings.known { "exptime", "why" }
local WITH_OPTIONS = lock_settings.known { "exptime", "timeout", "why" }
local DEFAULTS = { exptime = 30 }

-- A stand-in for nginx may raise an error for a missing field.
local function is_debug_build()
    local ngx = rawget(_G, "ngx")
    return type(ngx) == "table" and type(ngx.config) == "table" and ngx.config.debug
end

local asked, answer = pcall(is_debug_build)
local DEBUG = asked and answer or program.getenv("HOLDFAST_DEBUG") == "1"

-- With DEBUG, memo contains the live objects, as in lua-resty-lock: each object refers to its dictionary while it
-- lives. Objects then cost eight times as much, and Debian's nginx is a debug build, so memo is filled only after the
-- program has read one of the three names.
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
    acquire.binds = false  -- memo contains only the keys of locks that are held
    dict_ref_type = ffi.metatype("struct { int32_t id; }", { __gc = function (ref) lease_pool.unref_obj(ref.id) end })
    return lease_pool[name]
end


-- Returns the given timeout, but at most exptime, as in lua-resty-lock. Although an exptime of 0 means never, it
-- reduces the timeout to 0.
local function cut_down(timeout, exptime, method)
    if exptime == 0 and timeout > 0 then
        warn_once('bad option "timeout" to ' .. method .. ": " .. timeout
                  .. " is limited to exptime, which is 0, so there is no wait; omit timeout to wait for 5"
                  .. " seconds, or use exptime = math.huge, which never expires either")
    end
    return min(timeout, exptime)
end


-- Reduces timeout and step if they are given, as lua-resty-lock does.
local function clamp(times)
    local timeout, step = times.timeout, times.step
    if timeout then
        timeout = cut_down(timeout, times.exptime, "new")
        step = step and min(step, timeout)
    end
    return times.exptime, timeout or 5, step or 0.001, times.ratio, times.max_step
end


-- Creates an object that holds no lock: resty_lock:new(dict_name [, opts]).
--
-- dict_name: the name of a dictionary, of a lua_shared_dict in nginx, or the dictionary itself.
-- opts: exptime (30 s; 0: never), timeout (5 s; at most exptime), wait ("wake" or "poll"), block (false), fair (false),
-- deadlock (nil), renew (false), on_lost (none), log_timeouts (false), cluster (false); for "poll" step (0.001 s),
-- ratio (2), max_step (0.5 s).
--
-- Returns the object, or nil and "dictionary not found" or another message.
function _M.new(class, dict_name, opts)
    if type(class) == "string" and type(dict_name) ~= "string" then
        error("bad call to new: call it as resty_lock:new(dictionary, options)", 2)
    end
    local dict, err = find_dict(dict_name)
    if not dict then
        return nil, err
    end
    local exptime, timeout, step, ratio, max_step, settings = 30, 5, 0.001, 2, 0.5, DEFAULT_SETTINGS
    if opts then
        local times
        times, settings = read_new(opts, NEW_OPTIONS, DEFAULTS)
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
        -- An initialiser would take three times as long.
        local dict_ref = ffi.new(dict_ref_type)
        dict_ref.id = lease_pool.ref_obj(dict)
        self.dict_ref = dict_ref
    end
    return self
end


local make_all = later.fn("resty.holdfast.lock.all", "make")


-- Creates an object for several locks, which holds none of them: resty_lock:all(dict_name, keys [, opts]). opts are the
-- options of new(). The object takes and releases all locks together: lock([opts]), trylock([opts]), unlock(),
-- expire([exptime]), valid(), with([opts,] fn, ...).
--
-- Returns the object, or nil and "dictionary not found" or another message.
function _M.all(class, dict_name, keys, opts)
    return make_all(_M.new, class, dict_name, keys, opts)
end


-- Makes lock() and the function that takes the lock for with(). `certain`: the caller is sure to release the lock.
--
-- lock(key [, opts]) takes the lock and waits if it is held. Yields, or blocks the process where the host has no
-- coroutines. opts: exptime, timeout, why (a text that holder() shows).
--
-- Returns the seconds waited: 0 if the lock was free. On failure, returns nil and an error: "timeout", "locked" (this
-- object holds a lock), "deadlock" (an array of keys follows), "no memory", "dictionary not found", an error for the
-- key such as "nil key", or a message.
local function locker(certain)
    return function (self, key, opts)
        if not opts and type(self) == "table" and take_again(self, key, certain) then
            return 0
        end
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


-- Takes the lock if it is free. Waits only for an answer from a cluster's store; it then yields for at most a second.
-- opts: exptime, why. Returns true, or nil and "held" or an error of lock().
function _M.trylock(self, key, opts)
    if not opts and type(self) == "table" and take_again(self, key, false) then
        return true
    end
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
    _M[name] = function (self, key, ...) return of_key(self, key or nil, ...) end  -- false counts as nil here too
end


-- Checks whether this object still holds its lock. Yields in a cluster, where the store answers; otherwise answers
-- immediately. Returns true, or nil and "unlocked", "not owner", "unavailable" (nobody answered within 5 s; the lock
-- may still be held) or a message.
_M.verify = held_lock.on_held("verify", function (self, grant, key)
    local found = find_gate(grant.dict)
    if found then
        return found.verify(self, grant, key)
    end
    return held_lock.outcome(self, key, check_lease(grant.dict, key, grant.lease))
end)

-- with(key, [opts,] fn, ...) takes the lock as lock() does, calls fn(...), and releases the lock even if fn raises an
-- error. Yields where lock() or fn does. Returns the results of fn, or nil and the error of lock(). Raises the error of
-- fn unchanged.
_M.with = held_lock.with("with", locker(true), WITH_OPTIONS)
-- wait(key [, { timeout = seconds }]) waits until the present holder no longer has the lock, but does not take the
-- lock. Yields as lock() does. Returns the seconds waited, 0 for a free key, or nil and an error of lock().
_M.wait = later.fn("resty.holdfast.lock.contended", "wait_for_release")

if DEBUG then
    setmetatable(_M, { __index = show })
end


return _M
