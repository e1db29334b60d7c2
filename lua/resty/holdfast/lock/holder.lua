-- Who holds something, and why: for people.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C = core.C
local ffi_new = ffi.new
local ffi_str = ffi.string
local key_string = core.key_string
local reason = core.reason
local tonumber = tonumber

local INFINITY = math.huge
local NOT_FOUND = core.NOT_FOUND
local NO_WORKER = 0xFFFFFFFF
local OK = core.OK
-- holdfast_holder.alive
local ALIVE = { [0] = false, [1] = true }

local _M = {}


local function describe(found)
    local program, why = ffi_str(found.program), ffi_str(found.why)
    return {
        process = found.pid > 0 and found.pid or nil,
        program = program ~= "" and program or nil,
        worker = found.worker ~= NO_WORKER and found.worker or nil,
        alive = ALIVE[tonumber(found.alive)],
        why = why ~= "" and why or nil,
        since = C.holdfast_now() - found.held,
        held = found.held,
        remaining = found.remaining == 0 and INFINITY or found.remaining,
        token = tonumber(found.sequence),
        waiters = found.waiters,
    }
end


-- A table; nil where nobody holds the key; nil and the reason where that cannot be said.
function _M.find(handle, key)
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end
    local found = ffi_new("holdfast_holder")
    local code = C.holdfast_lock_holder(handle, key, #key, found)
    if code == OK then
        return describe(found)
    end
    if code == NOT_FOUND then
        return nil
    end
    return nil, reason(code)
end


return _M
