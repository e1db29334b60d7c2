-- The gate of dictionaries that belong to a cluster, loaded by dictionary/gate.lua. Answers the library's questions
-- from the state of this machine's session with the cluster. libholdfast decides which machine has a lock.

local later = require "resty.holdfast.later"
local state = require "resty.holdfast.cluster.state"

return {
    NO_HOLDER = "no program on this machine holds it, but another machine may",
    -- name, type, help
    FAMILIES = {
        { "holdfast_cluster_standing", "gauge", "1 if this machine's agent has a session with the cluster." },
        { "holdfast_cluster_available", "gauge", "1 if this machine can get new locks of the cluster." },
        { "holdfast_cluster_session_seconds", "gauge", "Time until the session ends unless the agent renews it." },
    },
    holder = later.fn("resty.holdfast.cluster.store", "find_holder"),
    measure = state.measure,
    reason_of_timeout = state.reason_of_timeout,
    refusal = state.refusal,
    state = state.find,
    verify = later.fn("resty.holdfast.cluster.store", "verify"),
}
