-- Methods of objects that hold one lock at a time (resty.lock and resty.rwlock), by the grant in their field `cdata`,
-- which is false when they hold none.

local core = require "resty.holdfast.core"
local later = require "resty.holdfast.later"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local options = require "resty.holdfast.lock.options"
local task_ids = require "resty.holdfast.tasks.task_ids"

local C, enter, leave, reason = core.C, core.enter, core.leave, core.reason
local base, NOBODY = task_ids.base, task_ids.NOBODY
local begin_watch = later.fn("resty.holdfast.lock.renewal", "begin")
local count_waiters = later.fn("resty.holdfast.lock.lock_info", "count_waiters")
local check_time, describe, key_string = core.check_time, core.describe, core.key_string
local empty, hold, memo, pass = lease_pool.empty, lease_pool.hold, lease_pool.memo, lease_pool.pass
local error, pairs, setmetatable, tonumber, type = error, pairs, setmetatable, tonumber, type
local find_all = later.fn("resty.holdfast.lock.lock_info", "find_all")
local find_holder = later.fn("resty.holdfast.lock.lock_info", "find")
local finish = later.fn("resty.holdfast.lock.renewal", "finish")
local loss = later.fn("resty.holdfast.lock.renewal", "loss")
local lost = later.fn("resty.holdfast.lock.renewal", "lost")
local read_call, read_time = options.read_call, options.read_time
local restart = later.fn("resty.holdfast.lock.renewal", "restart")
local vacate = later.fn("resty.holdfast.lock.with", "vacate")

local NOT_FOUND, NOT_OWNER, OK, REMOVED = core.NOT_FOUND, core.NOT_OWNER, core.OK, core.REMOVED
local INFINITY, KEY_MAX = math.huge, core.KEY_MAX

local methods = {}

local _M = { methods = methods }


-- What polling does between two attempts, in objects that were not told otherwise. Eight fields are what fits into the
-- room of an object before that doubles.
local RATIO, MAX_STEP = 2, 0.5


-- Gives a class of objects the methods of this file, and returns its metatable.
function _M.new_class(class)
    for name, method in pairs(methods) do
        class[name] = method
    end
    class.ratio, class.max_step = RATIO, MAX_STEP
    return { __index = class }
end


-- A new object of that metatable, which holds nothing.
function _M.new(mt, dict, settings, exptime, timeout, step, ratio, max_step)
    local self = setmetatable({
        cdata = false, dict = dict, settings = settings, exptime = exptime, timeout = timeout, step = step,
        key = nil,  -- reserves its place: a table that grows with its first lock costs three times as much
    }, mt)
    if ratio ~= RATIO or max_step ~= MAX_STEP then
        self.ratio, self.max_step = ratio, max_step
    end
    return self
end


local function bad_receiver(self, method)
    error("bad receiver of " .. method .. ": a lock object expected, got " .. describe(self) .. "; call it as obj:"
          .. method .. "(...)", 4)
end


-- Every lock object has the field cdata. The line to blame is the method's caller.
function _M.check(self, method)
    if type(self) ~= "table" or self.cdata == nil then
        bad_receiver(self, method)
    end
end

local check = _M.check


-- The key as a string, for an object that holds nothing; nil and the reason.
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


-- The grant of an object and its key; none if the collector was there first, in a finaliser that has the object.
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


-- Gives an object that holds one thing at a time its grant; the library has named `task_id` its holder.
function _M.settle(self, grant, task_id, key, exptime, why)
    hold(grant, task_id)
    self.cdata, self.key = grant, key
    if self.settings.watched then
        begin_watch(self, exptime)
    end
    if why then  -- lost if there is no memory for it
        C.holdfast_lock_explain(grant.dict, key, #key, grant.lease, why, #why)
    end
end


-- Concludes a release: what unlock() returns. The library clears the lease when the lock is given back or lost, and
-- when it gives the lock back later.
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


function methods.unlock(self)
    local grant, key = held_by(self, "unlock")
    if not grant then
        return nil, "unlocked"
    end
    local code = C.holdfast_unlock(grant.dict, key, #key, grant.lease)
    return conclude(self, grant, key, code)
end


-- The reason for the caller; tells on_lost if it means that the lock is lost.
local function failure(self, key, code)
    local err = reason(code)
    if self.settings.watched and (code == NOT_OWNER or code == NOT_FOUND or code == REMOVED) then
        lost(self.watch, self, key, loss(code))
    end
    return err
end


-- true, or nil and the reason: what a method returns after a call for the held lock.
local function outcome(self, key, code)
    if code == OK then
        return true
    end
    return nil, failure(self, key, code)
end
_M.outcome = outcome


-- --- hand-over ---
--
-- An object may be handed to another coroutine, which then releases the lock. The named holder (tasks/task_ids.lua)
-- must be the coroutine that releases it: the search for deadlocks relies on it.
--
-- The holder is the coroutine that took the lock; after hand_over(), the next one to use the object. If two use it
-- without hand_over(), either may release the lock, and none is named any more. `with` releases its own lock, whichever
-- coroutines use the object; after hand_over() none is named.
--
-- Fields of an object, each the token of a grant: `scoped`, held by `with`; `handed`, handed over and not used since.

local function token_of(grant)
    return tonumber(grant.lease.sequence)
end


-- Names `task_id` the holder. The code.
local function name_holder(grant, key, task_id)
    local code = C.holdfast_lock_adopt(grant.dict, key, #key, grant.lease, task_id)
    if code == OK then
        pass(grant, task_id)
    end
    return code
end


-- `user` is not the named holder. If the library cannot be told now, the next use does that.
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


-- Notes that the calling coroutine uses an object that holds something. Background jobs must not call this.
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


-- Names no holder until a coroutine uses the object. The code.
local function hand_over(self, grant, key)
    local holder = self.settings.holder
    local code = name_holder(grant, key, holder == NOBODY and NOBODY or base)
    if code == OK and not holder and self.scoped ~= token_of(grant) then
        self.handed = token_of(grant)
    end
    return code
end


-- --- methods for the held lock ---

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


-- A method for an object that holds a lock: body(self, grant, key). For another the method returns nil, "unlocked".
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


methods.hand_over = on_held("hand_over", function (self, grant, key)
    return outcome(self, key, hand_over(self, grant, key))
end)


methods.token = on_held("token", function (self, grant, key)
    used(self, grant, key)
    return token_of(grant)
end)


-- Seconds until the held lock lapses; nil and the reason.
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


function methods.valid(self)
    check(self, "valid")
    return methods.remaining(self) ~= nil
end


-- How many holders to name at most: a whole number; nil for the default.
local function check_max(max)
    if max ~= nil and (type(max) ~= "number" or not (max >= 0 and max < INFINITY) or max % 1 ~= 0) then
        error("bad max to holders: a whole number, 0 or more, expected, got " .. describe(max), 3)
    end
end


-- Adds the methods that describe a key, whichever object took it, to a class whose methods call check(self, name).
function _M.add_queries(class, check_self)
    -- nil if the key is free.
    function class.holder(self, key)
        check_self(self, "holder")
        return find_holder(self.dict[1], key, self.settings.block)
    end

    function class.holders(self, key, max)
        check_self(self, "holders")
        check_max(max)
        return find_all(self.dict[1], key, max)
    end

    -- How many waiters the key has.
    function class.waiters(self, key)
        check_self(self, "waiters")
        return count_waiters(self.dict[1], key)
    end
end

_M.add_queries(methods, check)


-- Releases only what `with` has taken: the function may have unlocked it, and locked another key. Nobody comes again
-- for it: if the release is refused now, the library tries again.
local function give_back(self, token)
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


-- The method `with` for objects that take by take(self, key, opts).
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
            give_back = give_back,
        })
    end)
end


return _M
