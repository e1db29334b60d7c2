-- A lock object may be given to another coroutine, which then releases what the object holds. Who is named the holder
-- (task_ids.lua) must be that one: the search for deadlocks takes for certain that nobody else releases it.
--
-- The coroutine that took the lock counts as that one; after hand_over(), the next one that uses the object. If two use
-- it without that, it is not certain which of them will release the lock, and none is named any more. What `with` holds
-- it releases itself, whichever coroutines use the object meanwhile; after hand_over() none is named.
--
-- Fields of an object, each the token of the grant that it is about: `scoped`, held by `with`; `handed`, handed over
-- and not used since.

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


-- From now on `task_id` is named the holder. The code.
local function name(grant, key, task_id)
    local code = C.holdfast_lock_adopt(grant.dict, key, #key, grant.lease, task_id)
    if code == OK then
        pass(grant, task_id)
    end
    return code
end


-- `user` is not the one that is named. If the library cannot be told, the next use does it.
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


-- The calling coroutine uses the object, which holds something. Not to be called for the library's own jobs.
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


-- No coroutine is the holder until one uses the object. The code.
function _M.hand_over(self, grant, key)
    local holder = self.settings.holder
    local code = name(grant, key, holder == NOBODY and NOBODY or base)
    if code == OK and not holder and self.scoped ~= token_of(grant) then
        self.handed = token_of(grant)
    end
    return code
end


-- What the object has got under that token is held by `with`.
function _M.keep(self, token)
    self.scoped = token
end


return _M
