-- The methods of objects that hold one lock at a time: the objects of resty.lock and resty.rwlock. The field `cdata` is
-- the object's grant (lease_pool.lua), or false while the object holds no lock.

local core = require "resty.holdfast.core"
local later = require "resty.holdfast.later"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local task_ids = require "resty.holdfast.tasks.task_ids"

local C, enter, leave, reason = core.C, core.enter, core.leave, core.reason
local base, NOBODY = task_ids.base, task_ids.NOBODY
local begin_watch = later.fn("resty.holdfast.lock.renewal", "begin")
local count_waiters = later.fn("resty.holdfast.lock.lock_info", "count_waiters")
local check_time, describe, key_string = core.check_time, core.describe, core.key_string
local empty, give_back, hold, is_bound = lease_pool.empty, lease_pool.give_back, lease_pool.hold, lease_pool.is_bound
local memo, pass, release = lease_pool.memo, lease_pool.pass, lease_pool.release
local error, pairs, setmetatable, tonumber, type = error, pairs, setmetatable, tonumber, type
local find_all = later.fn("resty.holdfast.lock.lock_info", "find_all")
local find_holder = later.fn("resty.holdfast.lock.lock_info", "find")
local finish = later.fn("resty.holdfast.lock.renewal", "finish")
local loss = later.fn("resty.holdfast.lock.renewal", "loss")
local lost = later.fn("resty.holdfast.lock.renewal", "lost")
local read_call = later.fn("resty.holdfast.lock.options", "read_call")
local read_time = later.fn("resty.holdfast.lock.options", "read_time")
local restart = later.fn("resty.holdfast.lock.renewal", "restart")
local vacate = later.fn("resty.holdfast.lock.with", "vacate")

local NOT_FOUND, NOT_OWNER, OK, REMOVED = core.NOT_FOUND, core.NOT_OWNER, core.OK, core.REMOVED
local INFINITY, KEY_MAX = math.huge, core.KEY_MAX

local methods = {}

local _M = { methods = methods }


-- The defaults of the options `ratio` and `max_step`. They are fields of the class, because an object with more than
-- eight fields takes twice the memory. The eighth field of an object that repeats a key is `bound` (lease_pool.lua).
local RATIO, MAX_STEP = 2, 0.5


-- Adds the methods of this file to a class, and returns the metatable of its objects.
function _M.new_class(class)
    for name, method in pairs(methods) do
        class[name] = method
    end
    class.ratio, class.max_step, class.bound = RATIO, MAX_STEP, false
    return { __index = class }
end


-- Creates an object that holds no lock.
function _M.new(mt, dict, settings, exptime, timeout, step, ratio, max_step)
    local self = setmetatable({
        cdata = false, dict = dict, settings = settings, exptime = exptime, timeout = timeout, step = step,
        key = nil,  -- reserves the field, because growing the table later costs three times as much
    }, mt)
    if ratio ~= RATIO or max_step ~= MAX_STEP then
        self.ratio, self.max_step = ratio, max_step
    end
    return self
end


local function bad_receiver(self, method)
    error("bad receiver of " .. method .. ": expected a lock object, got " .. describe(self) .. "; call it as obj:"
          .. method .. "(...)", 4)
end


-- Raises an error for a receiver that is not a lock object. The error names the line that called the method. Every lock
-- object has the field cdata.
function _M.check(self, method)
    if type(self) ~= "table" or self.cdata == nil then
        bad_receiver(self, method)
    end
end

local check = _M.check


-- Returns the key as a string, or nil and the reason if the key is not valid or the object already holds something.
function _M.free_key(self, key, method)
    if type(self) ~= "table" or self.cdata == nil then
        bad_receiver(self, method)
    end
    if type(key) ~= "string" or key == "" or #key > KEY_MAX then
        local err
        key, err = key_string(key)
        if not key then
            return nil, err
        end
    end
    if self.cdata and not vacate(self) then
        return nil, "locked"
    end
    return key
end


-- Returns the grant of an object and its key, or nil if the object holds nothing. In a finaliser, the collector may
-- already have released the grant.
local function held_by(self, method)
    if type(self) ~= "table" or self.cdata == nil then
        bad_receiver(self, method)
    end
    local grant = self.cdata
    if grant then
        local key_id = grant.key_id
        if key_id > 0 then
            return grant, memo[key_id]
        end
        self.cdata = false
    end
    return nil
end
_M.held_by = held_by


-- Stores the grant in the object. The library has already recorded `task_id` as the holder.
function _M.settle(self, grant, task_id, key, exptime, why)
    hold(grant, task_id)
    self.cdata, self.key = grant, key
    if self.settings.watched then
        begin_watch(self, exptime)
    end
    if why then  -- not stored if there is no memory for it
        C.holdfast_lock_explain(grant.dict, key, #key, grant.lease, why, #why)
    end
end


-- Keeps a released grant, which knows the place of its lock, for the next lock of its key.
local function keep_bound(self, grant)
    local before = self.bound
    if before then
        give_back(before)
    end
    release(grant)
    self.cdata = false  -- first, in case there is no memory for the other field
    self.bound = grant
end


-- Finishes a release, and returns the results of unlock(). The library clears the lease if the lock was released or
-- lost, or if the library will release it later.
local function conclude(self, grant, key, code)
    if code ~= OK and grant.lease.owner ~= 0 then
        -- Nothing has changed; the caller may try again.
        return nil, reason(code)
    end
    self.cdata = false
    empty(grant)
    local watch = self.settings.watched and finish(self)
    if code == OK then
        return 1
    end
    local err = reason(code)
    if watch and (code == NOT_OWNER or code == REMOVED) then
        lost(watch, self, key, err)
    end
    return nil, err
end


-- Releases the lock of this object and wakes a waiter. Does not yield. Returns 1, or nil and "unlocked", "not owner"
-- (the lock was lost), "dictionary not found" or "timeout". After "timeout" (a process is stopped in the middle of a
-- change), the lock is still held: call unlock() again.
function methods.unlock(self)
    local grant, key = held_by(self, "unlock")
    if not grant then
        return nil, "unlocked"
    end
    if is_bound(grant) then
        local released = C.holdfast_unlock_again(grant.dict, key, #key, grant.bound)
        if released == 1 then
            keep_bound(self, grant)
            return 1
        end
    end
    local code = C.holdfast_unlock(grant.dict, key, #key, grant.lease)
    return conclude(self, grant, key, code)
end


-- Returns the error for the caller. If the lock is lost, calls on_lost.
local function failure(self, key, code)
    local err = reason(code)
    if self.settings.watched and (code == NOT_OWNER or code == NOT_FOUND or code == REMOVED) then
        lost(self.watch, self, key, loss(code))
    end
    return err
end


-- Returns the results of a method for the held lock, which are true, or nil and the reason.
local function outcome(self, key, code)
    if code == OK then
        return true
    end
    return nil, failure(self, key, code)
end
_M.outcome = outcome


-- --- hand-over ---
--
-- A program may pass an object to another coroutine, which then releases the lock. The library records one coroutine as
-- the holder (tasks/task_ids.lua), and the search for deadlocks assumes that this coroutine will release the lock.
--
-- The holder is the coroutine that took the lock or, after hand_over(), the next coroutine that uses the object. If two
-- coroutines use an object without hand_over(), either may release the lock, so no holder is recorded any more. `with`
-- releases its own lock, whichever coroutines use the object. If hand_over() is called for such a lock, no holder is
-- recorded for it.
--
-- Two fields of an object contain the token of a grant: `scoped` if `with` holds the grant, and `handed` if the grant
-- was handed over and has not been used since.

local function token_of(grant)
    return tonumber(grant.lease.sequence)
end


-- Records `task_id` as the holder. Returns the code.
local function name_holder(grant, key, task_id)
    local code = C.holdfast_lock_adopt(grant.dict, key, #key, grant.lease, task_id)
    if code == OK then
        pass(grant, task_id)
    end
    return code
end


-- Changes the recorded holder to `user`, which is a different coroutine. If the library cannot record this now, the
-- next use tries again.
local function change_hands(self, grant, key, user)
    local token = token_of(grant)
    if self.handed == token then
        if name_holder(grant, key, user) == OK then
            self.handed = nil
        end
    elseif grant.task_id ~= base and self.scoped ~= token then
        name_holder(grant, key, base)
    end
end


-- Records that the calling coroutine uses an object that holds a lock. Background jobs must not call this function.
local function used(self, grant, key)
    local task_id = grant.task_id
    if task_id == NOBODY or task_id == base and not self.handed then
        return
    end
    local user = task_ids.current or task_ids.get()
    if user ~= task_id then
        change_hands(self, grant, key, user)
    end
end
_M.used = used


-- Removes the recorded holder until a coroutine uses the object. Returns the code.
local function hand_over(self, grant, key)
    local holder = self.settings.holder
    local code = name_holder(grant, key, holder == NOBODY and NOBODY or base)
    if code == OK and not holder and self.scoped ~= token_of(grant) then
        self.handed = token_of(grant)
    end
    return code
end


-- --- methods for the held lock ---

-- Makes the held lock expire `time` seconds from now; 0 and math.huge mean never. The default is the exptime of new().
-- Does not yield. Returns true, or nil and one of "unlocked", "not found" (lost, and free now), "not owner" (lost, and
-- held by someone else), "dictionary not found" and "timeout".
function methods.expire(self, time)
    local grant, key = held_by(self, "expire")
    if not grant then
        return nil, "unlocked"
    end
    time = read_time(time) or self.exptime
    check_time(time, "time", "expire", 2)
    used(self, grant, key)
    local code = C.holdfast_lock_renew(grant.dict, key, #key, grant.lease, time)
    if code == OK and self.settings.watched then
        restart(self, time)
    end
    return outcome(self, key, code)
end


-- Makes a method from body(self, grant, key). The method returns nil and "unlocked" if the object holds no lock.
local function on_held(method, body)
    return function (self)
        local grant, key = held_by(self, method)
        if not grant then
            return nil, "unlocked"
        end
        return body(self, grant, key)
    end
end
_M.on_held = on_held


-- Declares that another coroutine will release this object's lock. Does not yield. Returns true, or nil and an error
-- from expire().
methods.hand_over = on_held("hand_over", function (self, grant, key)
    return outcome(self, key, hand_over(self, grant, key))
end)


-- Returns the fencing token of the held lock, an integer that grows with each grant of the key, or nil and "unlocked".
-- Does not yield.
methods.token = on_held("token", function (self, grant, key)
    used(self, grant, key)
    return token_of(grant)
end)


-- Returns the seconds until the held lock expires; math.huge means never. On failure, returns nil and "unlocked", "not
-- owner" or "dictionary not found". Does not yield.
methods.remaining = on_held("remaining", function (self, grant, key)
    used(self, grant, key)
    local seconds = enter().double
    local code = C.holdfast_lock_remaining(grant.dict, key, #key, grant.lease, seconds)
    local left = seconds[0]
    leave()
    if code == OK then
        return left == 0 and INFINITY or left
    end
    return nil, failure(self, key, code)
end)


-- Returns whether this object holds a lock that has not expired and was not taken away. Does not yield.
function methods.valid(self)
    check(self, "valid")
    return methods.remaining(self) ~= nil
end


-- Raises an error unless `max` is nil or an integer that is at least 0.
local function check_max(max)
    if max ~= nil and (type(max) ~= "number" or not (max >= 0 and max < INFINITY) or max % 1 ~= 0) then
        error("bad max to holders: expected a whole number, 0 or more, got " .. describe(max), 3)
    end
end


-- Adds methods to a class that describe a key, whichever object holds it. check_self(self, name) raises an error for a
-- wrong receiver.
function _M.add_queries(class, check_self)
    -- Returns a table that describes the holder that has held the key longest, nil if the key is free, or nil and a
    -- reason. Yields only in a cluster, for a lock that no process on this machine holds.
    function class.holder(self, key)
        check_self(self, "holder")
        return find_holder(self.dict[1], key, self.settings.block)
    end

    -- Returns an array of such tables for at most `max` holders (default 100, limit 4096), the longest holder first. On
    -- failure, returns nil and a reason. Does not yield.
    function class.holders(self, key, max)
        check_self(self, "holders")
        check_max(max)
        return find_all(self.dict[1], key, max)
    end

    -- Returns the number of waiters, or nil and a reason. Does not yield.
    function class.waiters(self, key)
        check_self(self, "waiters")
        return count_waiters(self.dict[1], key)
    end
end

_M.add_queries(methods, check)


-- Releases only the lock that `with` took, because the function may have released this lock and taken the lock of
-- another key. If the release is refused now, the library tries again later.
local function give_back_own(self, token)
    local grant, key = held_by(self, "with")
    if grant and token_of(grant) == token then
        local code = C.holdfast_unlock_for_certain(grant.dict, key, #key, grant.lease)
        conclude(self, grant, key, code)
    end
end


local function keep(self)
    local token = token_of(self.cdata)
    self.scoped = token
    return token
end


-- Makes the method `with` for objects whose locks are taken by take(self, key, opts).
function _M.with(name, take, known)
    return later.fn("resty.holdfast.lock.with", function (with)
        return with.method(name, {
            check = check,
            check_options = function (opts, method)
                if opts ~= nil then
                    return read_call(opts, method, known)
                end
            end,
            take = take,
            keep = keep,
            give_back = give_back_own,
        })
    end)
end


return _M
