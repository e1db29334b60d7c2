-- Implements locks that many objects may hold for reading, or one object for writing. Manual: docs/resty.rwlock.md.
--
-- In the dictionary, an rwlock is a number of permits. A reader takes one permit, and a writer takes all. Keys, times,
-- errors and the methods that are not in this file are the same as in resty.lock.

local core = require "resty.holdfast.core"
local held_lock = require "resty.holdfast.lock.held_lock"
local later = require "resty.holdfast.later"
local options = require "resty.holdfast.lock.options"
local take = require("resty.holdfast.lock.acquire").take

local C, read_call = core.C, options.read_call
local check, free_key, held_by, used = held_lock.check, held_lock.free_key, held_lock.held_by, held_lock.used
local refused = core.refused
local find_dict = require("resty.holdfast.dictionary.registry").find

local upgrade_contended = later.fn("resty.holdfast.lock.contended", "upgrade")

local ALL, HOW_FIRST, OK = core.ALL_PERMITS, core.HOW_FIRST, core.OK

local _M = { _VERSION = core.version }
local mt = held_lock.new_class(_M)

local DEFAULTS = { exptime = 30 }
local NEW_OPTIONS = options.known { "exptime", "timeout", "wait", "block", "fair", "deadlock", "renew", "on_lost",
                                    "log_timeouts", "step", "ratio", "max_step" }
local LOCK_OPTIONS = options.known { "exptime", "timeout", "why" }
local TRY_OPTIONS = options.known { "exptime", "why" }
local UPGRADE_OPTIONS = options.known { "timeout", "why" }


-- Creates an object that holds nothing: rwlock:new(dict_name [, opts]). The options and defaults are the same as in
-- resty.lock, but there is no option cluster, timeout is not reduced to exptime, and an unknown option raises an error.
-- Returns the object, or nil and "dictionary not found" or another message. Does not yield.
function _M.new(class, dict_name, opts)
    options.check_class(class, "rwlock")
    local times, settings = options.read_new(opts or {}, NEW_OPTIONS, DEFAULTS)
    local dict, err = find_dict(dict_name)
    if not dict then
        return nil, err
    end
    return held_lock.new(mt, dict, settings, times.exptime, times.timeout or 5, times.step or 0.001, times.ratio,
                         times.max_step)
end


-- Makes a method that takes `want` permits. `certain`: the caller is sure to release them. `waits`: the method waits,
-- and may yield, as lock() does.
--
-- method(key [, opts]): opts has exptime, why and, if the method waits, timeout. Returns the seconds waited, or true if
-- the method does not wait. On failure, returns nil and "timeout", "held" (only without waiting), "locked", "no
-- memory", "dictionary not found" or another error from lock(), or returns nil, "deadlock" and the keys.
local function taker(name, want, waits, certain)
    local known = waits and LOCK_OPTIONS or TRY_OPTIONS
    return function (self, key, opts)
        check(self, name)
        local exptime, timeout, why, err
        if opts ~= nil then
            exptime, timeout, why = read_call(opts, name, known)
        end
        key, err = free_key(self, key, name)
        if not key then
            return nil, err
        end
        exptime = exptime or self.exptime
        if waits then
            return take(self, key, want, certain, exptime, why, timeout or self.timeout, self.step)
        end
        local taken
        taken, err = take(self, key, want, certain, exptime, why)
        if taken then
            return true
        end
        return nil, err
    end
end


_M.rdlock = taker("rdlock", 1, true, false)
_M.wrlock = taker("wrlock", ALL, true, false)
_M.tryrdlock = taker("tryrdlock", 1, false, false)
_M.trywrlock = taker("trywrlock", ALL, false, false)
-- with_rd(key, [opts,] fn, ...) and with_wr take a read lock or the write lock, call fn(...), and release the lock even
-- if fn raises an error. They yield where rdlock(), wrlock() or fn yields. They return the results of fn, or nil and
-- the error from rdlock() or wrlock().
_M.with_rd = held_lock.with("with_rd", taker("rdlock", 1, true, true), LOCK_OPTIONS)
_M.with_wr = held_lock.with("with_wr", taker("wrlock", ALL, true, true), LOCK_OPTIONS)


-- Turns the write lock of this object into a read lock; a read lock remains a read lock. Does not yield. Returns true,
-- or nil and "unlocked", "not owner", "dictionary not found" or "timeout".
_M.downgrade = held_lock.on_held("downgrade", function (self, grant, key)
    used(self, grant, key)
    local code = C.holdfast_permits_keep(grant.dict, key, #key, grant.lease, 1)
    return held_lock.outcome(self, key, code)
end)


-- Turns the read lock of this object into the write lock, and waits for all other readers: upgrade([opts]). opts:
-- timeout and why. A write lock remains a write lock. May yield, as lock() does. Returns the seconds waited. On
-- failure, returns nil and "unlocked", "timeout" or another string that expire() may return, or nil, "deadlock" and the
-- keys. On failure, the object keeps its read lock, unless the lock is lost.
function _M.upgrade(self, opts)
    local grant, key = held_by(self, "upgrade")
    local timeout, why, _
    if opts ~= nil then
        _, timeout, why = read_call(opts, "upgrade", UPGRADE_OPTIONS)
    end
    if not grant then
        return nil, "unlocked"
    end
    timeout = timeout or self.timeout
    used(self, grant, key)
    local code = C.holdfast_permits_upgrade(grant.dict, key, #key, timeout > 0 and HOW_FIRST or 0, nil, grant.lease)
    local elapsed, err, keys = 0, nil, nil
    if code ~= OK then
        elapsed, err, keys = upgrade_contended(self, grant, key, code, timeout)
    end
    if not elapsed then
        if self.settings.watched then
            self:valid()  -- calls on_lost if the lock is lost
        end
        return refused(err, keys)
    end
    if why then  -- not stored if there is no memory for it
        C.holdfast_lock_explain(grant.dict, key, #key, grant.lease, why, #why)
    end
    return elapsed
end

later.count_uses(_M, { "rdlock", "wrlock", "tryrdlock", "trywrlock", "with_rd", "with_wr" })

return _M
