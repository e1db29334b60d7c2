-- Questions to the agent of a cluster. Only the caller waits for the answer, as its host does it.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local hosts = require "resty.holdfast.host"

local C, reason = core.C, core.reason
local close = ffi.C.holdfast_close
local ffi_gc, ffi_new, ffi_str = ffi.gc, ffi.new, ffi.string
local min = math.min

local ANSWER_MAX, OK, TIMEOUT, UNSUPPORTED = core.ANSWER_MAX, core.OK, core.TIMEOUT, core.UNSUPPORTED

-- How long an agent may take: it asks each server of the store for a second at most.
local PATIENCE = 5
-- Between looks for the answer, in seconds: the first, and the longest.
local FIRST_LOOK, LONGEST_LOOK = 0.001, 0.01

local descriptor_type = ffi.typeof("int[1]")

-- Of the present call: nothing else runs before they are read.
local text = ffi_new("char[?]", ANSWER_MAX)
local size = ffi_new("size_t[1]")

local _M = {}


-- Of a caller that was ended while it waited.
local function give_up(descriptor)
    close(descriptor[0])
end


-- The fields of an answer, by name.
local function parse(answer)
    local fields = {}
    for name, value in answer:gmatch("([^\n=]+)=([^\n]*)") do
        fields[name] = value
    end
    return fields
end


local function await(host, descriptor)
    local deadline = C.holdfast_now() + PATIENCE
    local pause = FIRST_LOOK
    repeat
        host.sleep(pause)
        size[0] = ANSWER_MAX
        local code = C.holdfast_answer(descriptor[0], text, size)
        if code ~= TIMEOUT then
            ffi_gc(descriptor, nil)  -- it is closed
            return code
        end
        pause = min(pause * 1.5, LONGEST_LOOK)
    until C.holdfast_now() >= deadline
    ffi_gc(descriptor, nil)
    close(descriptor[0])
    return TIMEOUT
end


-- Asks about a key: the fields of the answer, of which `code` is "yes" or "no". nil and the reason: "unavailable" if no
-- agent answers, or the store does not, or why the caller may not wait here.
function _M.ask(handle, question, key, block)
    local host, refusal = hosts.current(block)
    if not host then
        return nil, refusal
    end
    local descriptor = descriptor_type()
    local code = C.holdfast_ask(handle, question, key, #key, 0, descriptor)
    if code ~= OK then
        return nil, reason(code)
    end
    code = await(host, ffi_gc(descriptor, give_up))
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


return _M
