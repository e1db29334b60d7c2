-- The holder of a lock of a cluster: a process of this machine, or what the store says of another machine.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local lock_info = require "resty.holdfast.lock.lock_info"
local question = require "resty.holdfast.cluster.question"
local state = require "resty.holdfast.cluster.state"

local C = core.C
local max, tonumber = math.max, tonumber

local ASK_HOLDER = core.ASK_HOLDER
local CLOCK_REALTIME = 0
local HOST_MAX = 256

local _M = {}


local function name_of_host()
    local name = ffi.new("char[?]", HOST_MAX)
    local failed = ffi.C.holdfast_gethostname(name, HOST_MAX - 1) ~= 0
    return not failed and ffi.string(name) or nil
end


local function wall_clock()
    local time = ffi.new("struct holdfast_timespec[1]")
    ffi.C.holdfast_clock_gettime(CLOCK_REALTIME, time)
    return tonumber(time[0].sec) + tonumber(time[0].nsec) / 1e9
end


local function describe_remote(answer)
    local found = {
        host = answer.host, machine = answer.machine, revision = tonumber(answer.revision),
        process = tonumber(answer.pid), program = answer.program, why = answer.why, kind = "lock",
    }
    if answer.when then
        found.held = max(0, wall_clock() - tonumber(answer.when) / 1000)
        found.since = C.holdfast_now() - found.held
    end
    return found
end


-- As lock_info.find_here. Waits for the store's answer where no process of this machine has the lock.
function _M.find(handle, key, block)
    local found, err = lock_info.find_here(handle, key)
    if err then
        return nil, err
    end
    local session = state.find(handle)
    local machine = session and session.machine
    if found then
        found.host, found.machine = name_of_host(), machine
        return found
    end
    local answer
    answer, err = question.ask(handle, ASK_HOLDER, (core.key_string(key)), block)
    if not answer then
        return nil, err
    end
    -- This machine may keep a lock for a moment after its last holder.
    if answer.code ~= "yes" or answer.machine == machine then
        return nil
    end
    return describe_remote(answer)
end


return _M
