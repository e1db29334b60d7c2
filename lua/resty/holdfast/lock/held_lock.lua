-- What an object that holds a lock can do with it: methods of resty.lock and its kin. An object holds one lock at a
-- time, by the grant in its field `cdata`, which is false when it holds none.

local core = require "resty.holdfast.core"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local hand_over = require "resty.holdfast.lock.hand_over"
local holders = require "resty.holdfast.lock.lock_info"
local renewal = require "resty.holdfast.lock.renewal"
local refs = require "resty.holdfast.lock.refs"

local C = core.C
local count_waiters = holders.count_waiters
local describe = core.describe
local empty = lease_pool.empty
local enter = core.enter
local error = error
local find_all = holders.find_all
local find_holder = holders.find
local finish = renewal.finish
local is_duration = core.is_duration
local leave = core.leave
local loss = renewal.loss
local lost = renewal.lost
local memo = refs.memo
local read_time = require("resty.holdfast.lock.options").read_time
local reason = core.reason
local restart = renewal.restart
local tonumber = tonumber
local type = type
local used = hand_over.used

local BUSY = core.BUSY
local DEFAULT_MAX = holders.DEFAULT_MAX
local INFINITY = math.huge
local NOT_FOUND = core.NOT_FOUND
local NOT_OWNER = core.NOT_OWNER
local OK = core.OK
local REMOVED = core.REMOVED
local TIMEOUT = core.TIMEOUT

local _M = {}


-- The line to blame is the one that called the method.
function _M.wrong_receiver(self, method)
    error("bad receiver of " .. method .. ": a lock object expected, got " .. describe(self) .. "; call it as obj:"
          .. method .. "(...)", 3)
end

local wrong_receiver = _M.wrong_receiver


-- The grant of an object and its key. None where the collector was there first: in a finaliser that has the object.
local function held_by(self)
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


function _M.unlock(self)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "unlock")
    end
    local grant, key = held_by(self)
    if not grant then
        return nil, "unlocked"
    end
    local code = C.holdfast_unlock(grant.dict, key, #key, grant.lease)
    if code == TIMEOUT or code == BUSY then
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
    if watch then
        lost(watch, self, key, err)
    end
    return nil, err
end


-- The reason for the caller, and for on_lost where it says that the lock is lost.
local function failure(self, key, code)
    local err = reason(code)
    if self.settings.watched and (code == NOT_OWNER or code == NOT_FOUND or code == REMOVED) then
        lost(self.watch, self, key, loss(code))
    end
    return err
end
_M.failure = failure


function _M.expire(self, time)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "expire")
    end
    local grant, key = held_by(self)
    if not grant then
        return nil, "unlocked"
    end
    time = read_time(time)
    if not time then
        time = self.exptime
    elseif not is_duration(time) and time ~= INFINITY then
        error("bad time to expire: a number, 0 or more, expected, got " .. describe(time), 2)
    end
    used(self, grant, key)
    local code = C.holdfast_lock_renew(grant.dict, key, #key, grant.lease, time)
    if code == OK then
        if self.settings.watched then
            restart(self, time)
        end
        return true
    end
    return nil, failure(self, key, code)
end


function _M.hand_over(self)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "hand_over")
    end
    local grant, key = held_by(self)
    if not grant then
        return nil, "unlocked"
    end
    local code = hand_over.hand_over(self, grant, key)
    if code == OK then
        return true
    end
    return nil, failure(self, key, code)
end


function _M.token(self)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "token")
    end
    local grant, key = held_by(self)
    if not grant then
        return nil, "unlocked"
    end
    used(self, grant, key)
    return tonumber(grant.lease.sequence)
end


-- Seconds that the lock which is held has left; nil and the reason.
local function time_left(self)
    local grant, key = held_by(self)
    if not grant then
        return nil, "unlocked"
    end
    used(self, grant, key)
    local seconds = enter().double
    local code = C.holdfast_lock_remaining(grant.dict, key, #key, grant.lease, seconds)
    local left = seconds[0]
    leave()
    if code == OK then
        return left == 0 and INFINITY or left
    end
    return nil, failure(self, key, code)
end


function _M.remaining(self)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "remaining")
    end
    return time_left(self)
end


function _M.valid(self)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "valid")
    end
    return time_left(self) ~= nil
end


-- Who holds the lock of a key, whichever object took it; nil if nobody does.
function _M.holder(self, key)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "holder")
    end
    return find_holder(self.dict[1], key or nil)
end


-- How many of those that are told of: a whole number.
function _M.check_max(max)
    if max == nil then
        return DEFAULT_MAX
    end
    if type(max) ~= "number" or not (max >= 0 and max < INFINITY) or max % 1 ~= 0 then
        error("bad max to holders: a whole number, 0 or more, expected, got " .. describe(max), 3)
    end
    return max
end

local check_max = _M.check_max


-- All of them.
function _M.holders(self, key, max)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "holders")
    end
    max = check_max(max)
    return find_all(self.dict[1], key or nil, max)
end


-- How many wait for what is under a key.
function _M.waiters(self, key)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "waiters")
    end
    return count_waiters(self.dict[1], key or nil)
end


return _M
