-- The methods of a dictionary for values that are lists.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C = core.C
local check_zone = checks.check_zone
local enter = core.enter
local ffi_str = ffi.string
local grow = core.grow
local key_string = core.key_string
local leave = core.leave
local reason = core.reason
local type = type

local BUFFER = core.BUFFER
local LEFT = core.LEFT
local NOT_FOUND = core.NOT_FOUND
local NUMBER = core.NUMBER
local OK = core.OK
local RIGHT = core.RIGHT
local STRING = core.STRING

local methods = {}

local PUSH_METHODS = { [LEFT] = "lpush", [RIGHT] = "rpush" }
local POP_METHODS = { [LEFT] = "lpop", [RIGHT] = "rpop" }


local function push(zone, side, key, value)
    local handle = check_zone(zone, PUSH_METHODS[side])
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end

    local value_type = type(value)
    local data, length, number = nil, 0, 0
    if value_type == "string" then
        value_type, data, length = STRING, value, #value
    elseif value_type == "number" then
        value_type, number = NUMBER, value
    else
        return nil, "bad value type"
    end

    local frame = enter()
    local code = C.holdfast_push(handle, key, #key, side, value_type, data, length, number, frame.count)
    local count = frame.count[0]
    leave()
    if code ~= OK then
        return nil, reason(code)
    end
    return count
end


function methods.lpush(zone, key, value)
    return push(zone, LEFT, key, value)
end


function methods.rpush(zone, key, value)
    return push(zone, RIGHT, key, value)
end


local function pop(zone, side, key)
    local handle = check_zone(zone, POP_METHODS[side])
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
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
    return pop(zone, LEFT, key)
end


function methods.rpop(zone, key)
    return pop(zone, RIGHT, key)
end


function methods.llen(zone, key)
    local handle = check_zone(zone, "llen")
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end
    local frame = enter()
    local code = C.holdfast_llen(handle, key, #key, frame.count)
    local count = frame.count[0]
    leave()
    if code ~= OK then
        return nil, reason(code)
    end
    return count
end


return methods
