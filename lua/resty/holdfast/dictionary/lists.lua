-- The methods of a dictionary for values that are lists.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C, answer, enter, grow, leave = core.C, core.answer, core.enter, core.grow, core.leave
local ffi_str = ffi.string
local locate, scalar = checks.locate, checks.scalar
local reason = core.reason

local BUFFER, NOT_FOUND, OK = core.BUFFER, core.NOT_FOUND, core.OK
local LEFT, RIGHT = core.LEFT, core.RIGHT
local NUMBER, STRING = core.NUMBER, core.STRING

local methods = {}


local function push(zone, side, method, key, value)
    local handle
    handle, key = locate(zone, key, method)
    if not handle then
        return nil, key
    end
    local kind, data, length, number = scalar(value)
    if kind ~= STRING and kind ~= NUMBER then
        return nil, "bad value type"
    end
    local frame = enter()
    local code = C.holdfast_push(handle, key, #key, side, kind, data, length, number, frame.count)
    local count = frame.count[0]
    leave()
    return answer(code, count)
end


function methods.lpush(zone, key, value)
    return push(zone, LEFT, "lpush", key, value)
end


function methods.rpush(zone, key, value)
    return push(zone, RIGHT, "rpush", key, value)
end


local function pop(zone, side, method, key)
    local handle
    handle, key = locate(zone, key, method)
    if not handle then
        return nil, key
    end
    local frame = enter()
    local value = frame.value
    local code = C.holdfast_pop(handle, key, #key, side, value)
    while code == BUFFER do  -- nothing was taken out
        grow(frame)
        code = C.holdfast_pop(handle, key, #key, side, value)
    end
    if code == OK then
        value = value.type == STRING and ffi_str(value.data, value.size) or value.number
    end
    leave()
    if code == OK then
        return value
    elseif code == NOT_FOUND then
        return nil
    end
    return nil, reason(code)
end


function methods.lpop(zone, key)
    return pop(zone, LEFT, "lpop", key)
end


function methods.rpop(zone, key)
    return pop(zone, RIGHT, "rpop", key)
end


function methods.llen(zone, key)
    local handle
    handle, key = locate(zone, key, "llen")
    if not handle then
        return nil, key
    end
    local frame = enter()
    local code = C.holdfast_llen(handle, key, #key, frame.count)
    local count = frame.count[0]
    leave()
    return answer(code, count)
end


return methods
