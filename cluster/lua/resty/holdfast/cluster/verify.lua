-- The method verify of resty.lock: asks the cluster's store whether the lock is still this machine's.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local check_lease = require("resty.holdfast.lock.renewal").check
local held_lock = require "resty.holdfast.lock.held_lock"
local question = require "resty.holdfast.cluster.question"

local outcome = held_lock.outcome

local ASK_VERIFY, NOT_OWNER = core.ASK_VERIFY, core.NOT_OWNER

local lease_type = ffi.typeof("holdfast_lease")

local _M = {}


-- The store first, then the lease: this machine has the lock without a pause for as long as the lease holds, so one
-- that holds after the answer did so when the store was read. Other coroutines may use the object in the
-- meantime.
function _M.verify(self, grant, key)
    local handle, lease = grant.dict, lease_type(grant.lease)
    local answer, err = question.ask(handle, ASK_VERIFY, key, self.settings.block)
    local now = self.cdata
    if not now or now.lease.owner ~= lease.owner or now.lease.sequence ~= lease.sequence then
        return nil, "unlocked"
    end
    if not answer then
        return nil, err
    end
    return outcome(self, key, answer.code == "yes" and check_lease(handle, key, lease) or NOT_OWNER)
end


return _M
