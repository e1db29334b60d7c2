-- Reads the state of this machine's session with the cluster of a dictionary.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local is_held_here = require("resty.holdfast.wait.wait").is_held_here

local close = ffi.C.holdfast_close
local C, sentence = core.C, core.sentence
local ffi_new, ffi_str, tonumber = ffi.new, ffi.string, tonumber
local tohex = bit.tohex

local ASK_STATUS, NOT_FOUND, OK, UNAVAILABLE = core.ASK_STATUS, core.NOT_FOUND, core.OK, core.UNAVAILABLE

-- Result of the current call. No other Lua code runs before it is read.
local state = ffi_new("holdfast_cluster")
local descriptor = ffi_new("int[1]")

local _M = {}


-- Returns whether an agent listens on this machine. The agent serves a new dictionary as soon as it has noticed the
-- dictionary.
local function is_listened_to(handle)
    local code = C.holdfast_ask(handle, ASK_STATUS, nil, 0, 0, descriptor)
    if code == OK then
        close(descriptor[0])
    end
    return code == OK
end


-- Returns nil if this machine can get locks of the dictionary's cluster. Returns the reason if this machine has no
-- session with the store, and no session is about to begin.
function _M.refusal(handle)
    local code = C.holdfast_cluster_state(handle, state)
    if code == UNAVAILABLE and state.seconds == 0 and (state.epoch ~= 0 or not is_listened_to(handle)) then
        return "unavailable"
    end
    return nil
end


-- Returns why a wait ended at its timeout: the store may be unreachable. The store is not to blame if a process of this
-- machine holds the lock.
function _M.reason_of_timeout(handle, key)
    local code = C.holdfast_cluster_state(handle, state)
    if code == UNAVAILABLE and (state.seconds == 0 or not is_held_here(handle, key)) then
        return "unavailable"
    end
    return "timeout"
end


-- Returns a machine's number as the store's own tools print it; nil for 0.
local function digits(number)
    if number == 0 then
        return nil
    end
    local high, low = tonumber(number / 2 ^ 32), tonumber(number % 2 ^ 32)
    return tohex(high) .. tohex(low)
end


-- Returns a table that describes the session, or nil and the reason. The field `machine` identifies this machine at the
-- store; it is nil before the first session.
function _M.find(handle)
    local code = C.holdfast_cluster_state(handle, state)
    if code ~= OK and code ~= UNAVAILABLE then
        return nil, code == NOT_FOUND and sentence(code) or core.reason(code)
    end
    local agent = tonumber(state.agent)
    local trouble = code == UNAVAILABLE and sentence(code) or nil  -- before another call replaces it
    return {
        trouble = trouble,
        name = ffi_str(state.name),
        agent = agent ~= 0 and agent or nil,
        epoch = tonumber(state.epoch),
        machine = digits(state.machine),
        seconds = state.seconds,
        state = agent == 0 and "no agent" or state.seconds == 0 and "lost" or "standing",
    }
end


-- Calls add(family, label, label value, value) with one sample for each metric family of the gate.
function _M.measure(handle, add)
    local found = _M.find(handle)
    if found then
        add("holdfast_cluster_standing", "cluster", found.name, found.state == "standing" and 1 or 0)
        add("holdfast_cluster_available", "cluster", found.name, found.trouble and 0 or 1)
        add("holdfast_cluster_session_seconds", "cluster", found.name, found.seconds)
    end
end


return _M
