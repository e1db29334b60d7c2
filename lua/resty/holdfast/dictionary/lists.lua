-- The methods of a dictionary for values that are lists.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C, answer, enter, grow, leave = core.C, core.answer, core.enter, core.grow, core.leave
local ffi_str = ffi.string
local on_key, scalar = checks.on_key, checks.scalar
local reason, sentence = core.reason, core.sentence

local BUFFER, NOT_FOUND, OK, TOO_LARGE = core.BUFFER, core.NOT_FOUND, core.OK, core.TOO_LARGE
local LEFT, RIGHT = core.LEFT, core.RIGHT
local NUMBER, STRING = core.NUMBER, core.STRING

local methods = {}


local function push(handle, key, side, value)
    local kind, data, length, number = scalar(value)
    if kind ~= STRING and kind ~= NUMBER then
        return nil, "bad value type"
    end
    local frame = enter()
    local code = C.holdfast_push(handle, key, #key, side, kind, data, length, number, frame.count)
    local count = frame.count[0]
    leave()
    if code == TOO_LARGE then
        return nil, reason(code), sentence(code)
    end
    return answer(code, count)
end

methods.lpush = on_key("lpush", function (handle, key, value) return push(handle, key, LEFT, value) end)
methods.rpush = on_key("rpush", function (handle, key, value) return push(handle, key, RIGHT, value) end)


local function pop(handle, key, side)
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

methods.lpop = on_key("lpop", function (handle, key) return pop(handle, key, LEFT) end)
methods.rpop = on_key("rpop", function (handle, key) return pop(handle, key, RIGHT) end)


methods.llen = on_key("llen", function (handle, key)
    local frame = enter()
    local code = C.holdfast_llen(handle, key, #key, frame.count)
    local count = frame.count[0]
    leave()
    return answer(code, count)
end)


return methods
