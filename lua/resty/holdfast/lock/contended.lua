-- Takes locks and permits that are not free. Waits for the holder, or for a process that is stopped in the middle of a
-- change to the dictionary. Also contains resty.lock's method wait, which waits for the holder but does not take the
-- lock.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local find_gate = require("resty.holdfast.dictionary.gate").find
local held_lock = require "resty.holdfast.lock.held_lock"
local hosts = require "resty.holdfast.host"
local later = require "resty.holdfast.later"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local options = require "resty.holdfast.lock.options"
local holder_of = require("resty.holdfast.tasks.task_ids").holder
local waiting = require "resty.holdfast.wait.wait"

local C = core.C
local tonumber = tonumber
local ffi_new, request_type = ffi.new, waiting.request_type
local give_back, memo, take_grant = lease_pool.give_back, lease_pool.memo, lease_pool.take
local find_gone, poll, wake = waiting.find_gone, waiting.poll, waiting.wake
local key_string, reason, refused = core.key_string, core.reason, core.refused
local report_timeout = later.fn("resty.holdfast.lock.lock_info", "report_timeout")
local settle = held_lock.settle

local ALL_PERMITS, RWLOCK, SEMAPHORE = core.ALL_PERMITS, core.RWLOCK, core.SEMAPHORE
local BUSY, DEADLOCK, ELSEWHERE, LOCKED = core.BUSY, core.DEADLOCK, core.ELSEWHERE, core.LOCKED
local OK = core.OK
local SYSTEM, TIMEOUT = core.SYSTEM, core.TIMEOUT

-- The number of seconds for which trylock and similar methods wait for an answer from the gate.
local ASKS_FOR = 1

local _M = {}


-- Returns whether the code of an attempt is final, because a wait would not help or is not allowed.
function _M.is_final(code, timeout)
    return code ~= LOCKED and code ~= TIMEOUT
           and (timeout <= 0 or (code ~= SYSTEM and code ~= BUSY and code ~= ELSEWHERE))
end


-- Creates a request (wait/wait.lua) for the key of the grant. Sets the fields one by one, because an initialiser would
-- take three times as long.
local function new_request(self, grant, exptime, timeout, step)
    local request = ffi_new(request_type)
    request.handle, request.key_id = grant.dict, grant.key_id
    request.exptime, request.timeout, request.step = exptime, timeout, step
    request.fair = self.settings.fair == 1
    request.itself = self.settings.itself
    return request
end
_M.new_request = new_request


-- Sets the coroutine that will hold the requested lock. A semaphore's permits do not belong to a particular coroutine.
-- REQUIRES: the caller's host is known.
local function name_holder(self, request)
    if request.kind ~= SEMAPHORE then
        request.holder = holder_of(self.settings.holder, request.certain)
    end
end


-- Makes a second attempt for a caller that does not wait, because a free lock may be reserved for a waiter that is
-- gone.
local function attempt(self, request, grant, keep, why)
    if find_gone() then
        name_holder(self, request)
        if waiting.try(request, grant.lease) == OK then
            return keep(self, request, grant, 0, why)
        end
    end
    give_back(grant)
    return nil, "timeout"
end


-- Returns how the object waits. Two kinds of waiters must not poll. A gate admits a lock only if a waiter is in the
-- lock's queue. A reader that wants to become the writer keeps other callers out only while it is in the queue.
local function way_of(self, request)
    local must_queue = request.tries or request.upgrades or find_gate(request.handle)
    if self.settings.wait == "poll" and not must_queue then
        return poll
    end
    return wake
end


-- Returns the error for a wait that timed out.
local function reason_of_timeout(handle, key)
    local found = find_gate(handle)
    return found and found.reason_of_timeout(handle, key) or "timeout"
end


-- Waits for the lock or permits that the object requested. Returns the results of keep(self, request, grant, seconds
-- waited, why), which then owns the grant. On failure, returns nil, the reason and, after a deadlock, the keys.
--
-- A waiting coroutine keeps the stack frames of all functions between this one and the sleep, and its stack grows by
-- doubling. So there are few such functions. They have few variables, and declare them where they are assigned.
local function wait(self, request, grant, keep, why)
    if request.timeout <= 0 then
        return attempt(self, request, grant, keep, why)
    end
    local host, refusal = hosts.current(self.settings.block)
    if not host then
        give_back(grant)
        return nil, refusal
    end
    name_holder(self, request)
    local elapsed, err, keys = way_of(self, request)(host, request, grant.lease, self)
    if not elapsed and not err then
        elapsed, err = poll(host, request, grant.lease, self)
    end
    if not elapsed then
        if err == "timeout" then
            err = reason_of_timeout(grant.dict, memo[request.key_id])
            if self.settings.log_timeouts then
                report_timeout(self, request, memo[request.key_id], err)
            end
        end
        give_back(grant)
        return refused(err, keys)
    end
    return keep(self, request, grant, elapsed, why)
end
_M.wait = wait


-- For a caller that does not wait, asks the gate for a lock that it has not admitted. Returns the seconds until the
-- gate admitted the lock. Returns nil and "held" if it refused the lock, or nil and the reason if its answer is
-- unknown.
local function ask(self, request, grant, keep, why)
    local found = find_gate(grant.dict)
    local refusal = found and found.refusal(grant.dict)
    if refusal then
        give_back(grant)
        return nil, refusal
    end
    request.tries, request.timeout = true, ASKS_FOR
    local elapsed, err = wait(self, request, grant, keep, why)
    if err == "timeout" then
        err = "unavailable"
    end
    return elapsed, err
end


-- Stores a grant in the object after the wait. Returns the results of lock().
local function keep(self, request, grant, elapsed, why)
    local key = memo[request.key_id]
    if self.cdata then
        -- Another coroutine took a lock with this object in the meantime.
        C.holdfast_unlock_for_certain(request.handle, key, #key, grant.lease)
        give_back(grant)
        return nil, "locked"
    end
    settle(self, grant, request.holder, key, request.exptime, why)
    return elapsed
end


-- Waits for the lock of the key, or for `want` permits of its rwlock, for an object that holds one lock at a time. If
-- `asks` is true, only asks the gate. Returns the same results as acquire.take().
function _M.take(self, grant, want, certain, exptime, why, timeout, step, asks)
    local request = new_request(self, grant, exptime, timeout or 0, step or 0)
    request.certain = certain
    if asks then
        local elapsed, err = ask(self, request, grant, keep, why)
        return elapsed, timeout and err == "held" and "timeout" or err
    end
    if want then
        request.kind, request.want, request.total = RWLOCK, want, ALL_PERMITS
    end
    return wait(self, request, grant, keep, why)
end


-- Waits for an event that does not give the object a new grant. The object's settings say how to wait. Returns the
-- seconds waited. On failure, returns nil, the reason and, after a deadlock, the keys.
local function wait_without_grant(self, request, lease)
    if request.timeout <= 0 then
        return nil, "timeout"
    end
    local host, err = hosts.current(self.settings.block)
    if not host then
        return nil, err
    end
    local elapsed, keys
    elapsed, err, keys = way_of(self, request)(host, request, lease, self)
    if not elapsed and not err then
        elapsed, err = poll(host, request, lease, self)
    end
    if elapsed then
        return elapsed
    end
    return refused(err, keys)
end


local function finish(grant, ...)
    give_back(grant)
    return ...
end


-- --- the method upgrade of resty.rwlock ---

local lease_type = ffi.typeof("holdfast_lease")


-- Returns the results of the method after a wait.
local function conclude_upgrade(self, request, key, elapsed, err, keys)
    if err == "timeout" and self.settings.log_timeouts then
        report_timeout(self, request, key, err)
    elseif err == "deadlock" and #keys == 0 then
        keys = { key, key }  -- another reader of the key also wants to become the writer
    end
    return elapsed, err, keys
end


-- Makes the reader with this lease the writer, after an attempt was refused. `code` is the code of that attempt.
-- Returns the seconds waited. On failure, returns nil, the reason and, after a deadlock, the keys.
function _M.upgrade(self, held, key, code, timeout)
    if code == DEADLOCK and find_gone() then
        code = C.holdfast_permits_upgrade(held.dict, key, #key, 0, nil, held.lease)
        if code == OK then
            return 0
        end
    end
    if _M.is_final(code, timeout) then
        return nil, reason(code), code == DEADLOCK and { key, key } or nil
    end
    -- Another coroutine may release the object's grant while this one waits.
    local lease = ffi_new(lease_type, held.lease)
    local grant = take_grant(held.dict, key)  -- holds no lock, only the key
    local request = new_request(self, grant, 0, timeout, self.step)
    request.upgrades, request.kind, request.total = true, RWLOCK, ALL_PERMITS
    return conclude_upgrade(self, request, key, finish(grant, wait_without_grant(self, request, lease)))
end


-- --- the method wait of resty.lock ---

-- The fencing token of the grant that the current call has found. No other Lua code runs before the token is read.
local watched = ffi_new("uint64_t[1]")

local WAIT_OPTIONS = options.known { "timeout" }


-- Implements the method wait of resty.lock. Returns the seconds waited, which are 0 for a free key. On failure, returns
-- nil, the reason and, after a deadlock, the keys.
function _M.wait_for_release(self, key, opts)
    held_lock.check(self, "wait")
    local timeout, err, _
    if opts ~= nil then
        _, timeout = options.read_call(opts, "wait", WAIT_OPTIONS)
    end
    key, err = key_string(key or nil)
    if not key then
        return nil, err
    end
    timeout = timeout or self.timeout
    local handle = self.dict[1]
    watched[0] = 0  -- 0 begins a wait
    local code = C.holdfast_lock_watch(handle, key, #key, nil, watched)
    if code == OK then
        return 0
    elseif code == ELSEWHERE then
        return nil, "held"  -- perhaps held by another machine, whose release cannot be noticed here
    elseif _M.is_final(code, timeout) then
        return nil, reason(code)
    end
    local number = watched[0]
    local grant = take_grant(handle, key)  -- contains only the key and holds no lock
    local request = new_request(self, grant, 0, timeout, self.step)
    request.watches, request.fair, request.watched[0] = true, false, number
    return finish(grant, wait_without_grant(self, request, nil))
end


-- --- the method wait of dictionaries with versions ---

-- A stand-in for an object without options, which says how to wait.
local PLAIN = { settings = options.DEFAULT_SETTINGS, ratio = 2, max_step = 0.5 }
local STEP = 0.001


-- Waits until the version of the key is no longer `known` or, if `deaths` is true, until a process has died. `way`: an
-- object whose settings say how to wait. Returns the version, or nil and the reason.
function _M.wait_for_change(handle, key, known, timeout, deaths, way)
    way = way or PLAIN
    local grant = take_grant(handle, key)  -- contains only the key and holds no lock
    local request = new_request(way, grant, 0, timeout, STEP)
    request.changes, request.version[0].number = true, known
    request.version[0].deaths = deaths and 1 or 0
    local elapsed, err = finish(grant, wait_without_grant(way, request, nil))
    if not elapsed then
        return nil, err
    end
    return tonumber(request.version[0].number)
end


return _M
