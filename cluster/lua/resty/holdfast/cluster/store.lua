-- Asks the cluster's store, through this machine's agent, who holds a lock and whether this machine still has it. While
-- the caller waits for the answer, other coroutines of its host run.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C = core.C
local check_lease = require("resty.holdfast.lock.renewal").check
local close = ffi.C.holdfast_close
local current_host = require("resty.holdfast.host").current
local ffi_gc, ffi_new, ffi_str = ffi.gc, ffi.new, ffi.string
local find_here = require("resty.holdfast.lock.lock_info").find_here
local find_session = require("resty.holdfast.cluster.state").find
local max, min, tonumber = math.max, math.min, tonumber
local outcome = require("resty.holdfast.lock.held_lock").outcome
local reason = core.reason

local ANSWER_MAX, NOT_OWNER, OK = core.ANSWER_MAX, core.NOT_OWNER, core.OK
local ASK_HOLDER, ASK_VERIFY = core.ASK_HOLDER, core.ASK_VERIFY
local TIMEOUT, UNSUPPORTED = core.TIMEOUT, core.UNSUPPORTED

local CLOCK_REALTIME = 0
local HOST_MAX = 256

-- Timeout for the agent's answer, in seconds. The agent asks each server of the store and waits at most a second for
-- its answer.
local ANSWER_TIMEOUT = 5
-- Pauses between polls for the answer, in seconds: the first and the longest. No benchmark covers them, because none
-- asks the store.
local FIRST_POLL, LONGEST_POLL = 0.001, 0.01

local descriptor_type, lease_type = ffi.typeof("int[1]"), ffi.typeof("holdfast_lease")

-- Results of the current call. No other Lua code runs before they are read.
local text = ffi_new("char[?]", ANSWER_MAX)
local size = ffi_new("size_t[1]")

local _M = {}


-- Closes the descriptor if the caller is terminated while it waits.
local function give_up(descriptor)
    close(descriptor[0])
end


-- Returns the fields of an answer, by name.
local function parse(answer)
    local fields = {}
    for name, value in answer:gmatch("([^\n=]+)=([^\n]*)") do
        fields[name] = value
    end
    return fields
end


local function await(host, descriptor)
    local deadline = C.holdfast_now() + ANSWER_TIMEOUT
    local pause = FIRST_POLL
    repeat
        host.sleep(pause)
        size[0] = ANSWER_MAX
        local code = C.holdfast_answer(descriptor[0], text, size)
        if code ~= TIMEOUT then
            ffi_gc(descriptor, nil)  -- already closed
            return code
        end
        pause = min(pause * 1.5, LONGEST_POLL)
    until C.holdfast_now() >= deadline
    ffi_gc(descriptor, nil)
    close(descriptor[0])
    return TIMEOUT
end


-- Sends a question to the agent. Returns the descriptor of the answer, or nil and the reason.
local function send(handle, question, key)
    local descriptor = descriptor_type()
    local code = C.holdfast_ask(handle, question, key, #key, 0, descriptor)
    if code ~= OK then
        return nil, reason(code)
    end
    return ffi_gc(descriptor, give_up)
end


-- Asks a question about a key. Returns the fields of the answer; the field `code` is "yes" or "no". Returns nil and the
-- reason if the agent or the store does not answer ("unavailable"), or if the caller may not wait here.
local function ask(handle, question, key, block)
    local host, refusal = current_host(block)
    if not host then
        return nil, refusal
    end
    local descriptor, err = send(handle, question, key)
    if not descriptor then
        return nil, err
    end
    local code = await(host, descriptor)
    if code ~= OK then
        return nil, code == TIMEOUT and "unavailable" or reason(code)
    end
    local fields = parse(ffi_str(text, size[0]))
    if fields.code == "unavailable" then
        return nil, "unavailable"
    end
    if fields.code == "unsupported" then
        return nil, reason(UNSUPPORTED)
    end
    return fields
end


-- --- the holder ---

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


-- Like lock_info.find_here. If no process of this machine has the lock, waits for the store's answer.
function _M.find_holder(handle, key, block)
    local found, err = find_here(handle, key)
    if err then
        return nil, err
    end
    local session = find_session(handle)
    local machine = session and session.machine
    if found then
        found.host, found.machine = name_of_host(), machine
        return found
    end
    local answer
    answer, err = ask(handle, ASK_HOLDER, (core.key_string(key)), block)
    if not answer then
        return nil, err
    end
    -- This machine may keep a lock for a moment after the last holder has released it.
    if answer.code ~= "yes" or answer.machine == machine then
        return nil
    end
    return describe_remote(answer)
end


-- --- the method verify of resty.lock ---

-- Asks the store, then checks the lease. A valid lease means that this machine has had the lock without interruption,
-- so a lease that is valid after the answer was also valid when the store was read. Other coroutines may use the object
-- in the meantime.
function _M.verify(self, grant, key)
    local handle, lease = grant.dict, lease_type(grant.lease)
    local answer, err = ask(handle, ASK_VERIFY, key, self.settings.block)
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
