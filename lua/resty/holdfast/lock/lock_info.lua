-- The holders of a key, their reasons, and the number of its waiters: for people.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local find_gate = require("resty.holdfast.dictionary.gate").find

local C, enter, key_string, leave, reason = core.C, core.enter, core.key_string, core.leave, core.reason
local ffi_new, ffi_sizeof, ffi_str = ffi.new, ffi.sizeof, ffi.string
local min, tonumber, tostring = math.min, tonumber, tostring

local holders_type = ffi.typeof("holdfast_holder[?]")
local WAITER_SIZE = ffi_sizeof("holdfast_waiter")

local ALL_PERMITS, HOLDERS_MAX, NOT_FOUND, OK = core.ALL_PERMITS, core.HOLDERS_MAX, core.NOT_FOUND, core.OK
local INFINITY, NO_WORKER = math.huge, 0xFFFFFFFF
-- holdfast_holder.alive
local ALIVE = { [0] = false, [1] = true }
-- holdfast_holder.kind
local KINDS = { [core.HELD_LOCK] = "lock", [core.HELD_RWLOCK] = "rwlock", [core.HELD_SEMAPHORE] = "semaphore" }

local _M = {
    DEFAULT_MAX = 100,
}


local function describe(found)
    local program, why = ffi_str(found.program), ffi_str(found.why)
    return {
        process = found.pid > 0 and found.pid or nil,
        program = program ~= "" and program or nil,
        worker = found.worker ~= NO_WORKER and found.worker or nil,
        alive = ALIVE[tonumber(found.alive)],
        kind = KINDS[tonumber(found.kind)],
        why = why ~= "" and why or nil,
        since = C.holdfast_now() - found.held,
        held = found.held,
        remaining = found.remaining == 0 and INFINITY or found.remaining,
        token = found.sequence > 0 and tonumber(found.sequence) or nil,
        waiters = found.waiters,
        permits = tonumber(found.permits),
        writes = found.permits == ALL_PERMITS or nil,
        revision = found.revision > 0 and tonumber(found.revision) or nil,
    }
end


-- Describes the holder in a table; nil for a free key; nil and the reason if that is unknown. Asks only this machine.
function _M.find_here(handle, key)
    local text, err = key_string(key)
    if not text then
        return nil, err
    end
    local found = ffi_new("holdfast_holder")
    local code = C.holdfast_lock_holder(handle, text, #text, found)
    if code == OK then
        return describe(found)
    end
    if code == NOT_FOUND then
        return nil
    end
    return nil, reason(code)
end


-- As find_here, wherever the holder is: a gate may have to wait for an answer, `block` says as for a lock how.
function _M.find(handle, key, block)
    local gate = find_gate(handle)
    if gate then
        return gate.holder(handle, key, block)
    end
    return _M.find_here(handle, key)
end


-- How many holders and waiters the key has; nil and the reason. Writes at most `max` of the holders.
local function count(handle, key, holders, max)
    local text, err = key_string(key)
    if not text then
        return nil, err
    end
    local frame = enter()
    local code = C.holdfast_holders(handle, text, #text, holders, max, frame.count, frame.count2)
    local held, waiters = tonumber(frame.count[0]), tonumber(frame.count2[0])
    leave()
    if code == OK then
        return held, waiters
    end
    return nil, reason(code)
end


local function describe_all(found, held, max)
    local holders = {}
    for i = 1, min(held, max) do
        holders[i] = describe(found[i - 1])
    end
    return holders
end


-- An array of the holders of the key, at most `max`, longest holder first; nil and the reason if that is unknown.
function _M.find_all(handle, key, max)
    max = min(max or _M.DEFAULT_MAX, HOLDERS_MAX)
    local found = ffi_new(holders_type, max)
    local held, err = count(handle, key, found, max)
    if not held then
        return nil, err
    end
    return describe_all(found, held, max)
end


-- Whether the process lives; nil if that cannot be told. `lives`: what was asked before, by the process.
local function is_alive(owner, lives)
    local id = tostring(owner)
    local code = lives[id]
    if not code then
        code = C.holdfast_process_lives(owner)
        lives[id] = code
    end
    if code == OK then
        return true
    end
    if code == NOT_FOUND then
        return false
    end
end


-- The holders, at most `max`, and the number of waiters; nil and the reason. Waits for no other process: one that is
-- stopped in the middle of a change holds this up for some 20 ms at most. `lives`: a table, one for all keys that are
-- looked at together.
function _M.look(handle, key, max, lives)
    local found = ffi_new(holders_type, max)
    local frame = enter()
    local code = C.holdfast_look(handle, key, #key, found, max, frame.count, nil, WAITER_SIZE, 0, frame.count2)
    local held, waiters = tonumber(frame.count[0]), tonumber(frame.count2[0])
    leave()
    if code ~= OK then
        return nil, reason(code)
    end
    local holders = describe_all(found, held, max)
    for i = 1, #holders do
        holders[i].alive = is_alive(found[i - 1].owner, lives)
    end
    return holders, waiters
end


-- How many waiters the key has; nil and the reason.
function _M.count_waiters(handle, key)
    local held, waiters = count(handle, key, nil, 0)
    if not held then
        return nil, waiters
    end
    return waiters
end


return _M
