-- A lock object may be handed to another coroutine, which then releases the lock. The named holder (tasks/task_ids.lua)
-- must be the coroutine that releases it: the search for deadlocks relies on it.
--
-- The holder is the coroutine that took the lock; after hand_over(), the next one to use the object. If two use it
-- without hand_over(), either may release the lock, and none is named any more. `with` releases its own lock, whichever
-- coroutines use the object meanwhile; after hand_over() none is named.
--
-- Fields of an object, each the token of a grant: `scoped`, held by `with`; `handed`, handed over and not used since.

local core = require "resty.holdfast.core"
local pass = require("resty.holdfast.lock.lease_pool").pass
local task_ids = require "resty.holdfast.tasks.task_ids"

local C = core.C
local base = task_ids.base
local tonumber = tonumber

local NOBODY, OK = task_ids.NOBODY, core.OK

local _M = {}


local function token_of(grant)
    return tonumber(grant.lease.sequence)
end


-- Names `task_id` the holder. The code.
local function name(grant, key, task_id)
    local code = C.holdfast_lock_adopt(grant.dict, key, #key, grant.lease, task_id)
    if code == OK then
        pass(grant, task_id)
    end
    return code
end


-- `user` is not the named holder. If the library cannot be told now, the next use tells it.
local function change_hands(self, grant, key, user)
    local token = token_of(grant)
    if self.handed == token then
        if name(grant, key, user) == OK then
            self.handed = nil
        end
    elseif grant.task_id ~= base and self.scoped ~= token then
        name(grant, key, base)
    end
end


-- Notes that the calling coroutine uses an object that holds something. Background jobs must not call this.
function _M.used(self, grant, key)
    local task_id = grant.task_id
    if task_id == NOBODY or task_id == base and not self.handed then
        return
    end
    local user = task_ids.current or task_ids.get()
    if user ~= task_id then
        change_hands(self, grant, key, user)
    end
end


-- Names no holder until a coroutine uses the object. The code.
function _M.hand_over(self, grant, key)
    local holder = self.settings.holder
    local code = name(grant, key, holder == NOBODY and NOBODY or base)
    if code == OK and not holder and self.scoped ~= token_of(grant) then
        self.handed = token_of(grant)
    end
    return code
end


-- Marks the grant of that token as held by `with`.
function _M.keep(self, token)
    self.scoped = token
end


return _M
