-- The method verify of resty.lock: asks the cluster's store whether the lock is still this machine's.

local cluster = require "resty.holdfast.lock.cluster"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local held_lock = require "resty.holdfast.lock.held_lock"
local question = require "resty.holdfast.lock.question"

local C, enter, leave = core.C, core.enter, core.leave
local outcome = held_lock.outcome

local ASK_VERIFY, NOT_OWNER = core.ASK_VERIFY, core.NOT_OWNER

local lease_type = ffi.typeof("holdfast_lease")

local _M = {}


local function look(handle, key, lease)
    local code = C.holdfast_lock_remaining(handle, key, #key, lease, enter().double)
    leave()
    return code
end


-- The store first, then the lease: this machine has the lock without a pause for as long as the lease holds, so one
-- that holds after the answer did so when the store was read. Other coroutines may use the object meanwhile.
_M.verify = held_lock.on_held("verify", function (self, grant, key)
    local handle, held = grant.dict, grant.lease
    if not cluster.has(handle) then
        return outcome(self, key, look(handle, key, held))
    end
    local lease = lease_type(held)
    local answer, err = question.ask(handle, ASK_VERIFY, key, self.settings.block)
    local now = self.cdata
    if not now or now.lease.owner ~= lease.owner or now.lease.sequence ~= lease.sequence then
        return nil, "unlocked"
    end
    if not answer then
        return nil, err
    end
    return outcome(self, key, answer.code == "yes" and look(handle, key, lease) or NOT_OWNER)
end)


return _M
