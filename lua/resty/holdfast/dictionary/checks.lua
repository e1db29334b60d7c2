-- Checks of the arguments of a dictionary's methods. Only a method, or a function that it tail-calls, may call these
-- functions, because their errors name the line that called the method.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local describe, is_duration, key_string = core.describe, core.is_duration, core.key_string
local error, floor, tonumber, type = error, math.floor, tonumber, type
local ffi_istype = ffi.istype
local reason, sentence = core.reason, core.sentence

local BOOLEAN, NIL, NUMBER, STRING = core.BOOLEAN, core.NIL, core.NUMBER, core.STRING
local KEY_MAX, TOO_LARGE = core.KEY_MAX, core.TOO_LARGE

local handle_type = ffi.typeof("holdfast_dict *")

-- From this number on, a Lua number cannot represent every integer.
local FIRST_INEXACT = 2 ^ 53
-- The result when the processor converts NaN, or a number that does not fit into 32 bits, to an integer.
local NO_INTEGER = 2 ^ 31

local _M = {}


local function bad_zone(zone, method)
    error('bad "zone" argument: expected a dictionary, got ' .. describe(zone) .. "; call it as dict:" .. method
          .. "(...)", 4)
end


-- Returns the C handle of a dictionary.
function _M.check_zone(zone, method)
    local handle = type(zone) == "table" and zone[1]
    if not ffi_istype(handle_type, handle) then
        bad_zone(zone, method)
    end
    return handle
end


-- Returns the C handle of a dictionary and the key as a string, or nil and the reason for a bad key. If the key is a
-- string, as most keys are, checks both without a further call.
local function locate(zone, key, method)
    local handle = type(zone) == "table" and zone[1]
    if not ffi_istype(handle_type, handle) then
        bad_zone(zone, method)
    end
    if type(key) == "string" and #key > 0 and #key <= KEY_MAX then
        return handle, key
    end
    local text, err = key_string(key)
    if not text then
        return nil, err
    end
    return handle, text
end
_M.locate = locate


-- Makes a method for one key from body(handle, key, value). The fastest methods, such as get and set, call locate()
-- themselves.
function _M.on_key(method, body)
    return function (zone, key, value)
        local handle
        handle, key = locate(zone, key, method)
        if not handle then
            return nil, key
        end
        return body(handle, key, value)
    end
end


-- Returns a scalar value as the library's type, bytes, length and number. Returns nothing for other types.
function _M.scalar(value)
    local kind = type(value)
    if kind == "string" then
        return STRING, value, #value, 0
    elseif kind == "number" then
        return NUMBER, nil, 0, value
    elseif kind == "boolean" then
        return BOOLEAN, nil, 0, value and 1 or 0
    elseif value == nil then
        return NIL, nil, 0, 0
    end
end


-- Returns the results of a method that has stored no value. If the value can never fit, the results include a message.
function _M.not_stored(code, forcible)
    if code == TOO_LARGE then
        return false, reason(code), forcible, sentence(code)
    end
    return false, reason(code), forcible
end


-- The next functions also accept times, flags and counts that are not plain numbers but that ngx.shared accepts. They
-- return nil for values that ngx.shared refuses.

-- Reads a time. Infinity and NaN mean never.
function _M.loose_duration(given)
    if type(given) == "cdata" then
        given = tonumber(given)
    end
    if type(given) ~= "number" or given < 0 then
        return nil
    end
    return is_duration(given) and given or 0
end


-- Reads flags: the low 32 bits of a C integer.
function _M.loose_flags(given)
    if given == true then
        return 1
    end
    given = type(given) ~= "string" and tonumber(given) or nil
    if not given then
        return nil
    elseif not (given < FIRST_INEXACT and given > -FIRST_INEXACT) then
        return NO_INTEGER
    end
    return (given < 0 and -floor(-given) or floor(given)) % 2 ^ 32
end


-- Reads a count; 0 means all.
function _M.loose_count(given)
    given = type(given) ~= "cdata" and tonumber(given) or nil
    if not given then
        return nil
    end
    return given >= 1 and given <= 0xffffffff and floor(given) or 0
end


function _M.is_whole(number)
    return type(number) == "number" and number >= 0 and number <= 0xffffffff and number == floor(number)
end


-- Raises an error for a bad argument. `accepted` describes the values that the method accepts. `level` selects the line
-- that the error names if the caller is not the method itself.
function _M.bad_argument(name, accepted, given, level)
    error('bad "' .. name .. '" argument: expected ' .. accepted .. ", got " .. describe(given), level or 3)
end


function _M.bad_duration(name, given)
    _M.bad_argument(name, "a number of seconds, 0 or more", given, 4)
end


function _M.bad_whole(name, given)
    _M.bad_argument(name, "a whole number from 0 to 4294967295", given, 4)
end


-- Reads a maximum. Raises an error at the line that called the method.
function _M.read_max(max_count, default)
    if max_count == nil then
        return default
    elseif _M.is_whole(max_count) then
        return max_count
    end
    return _M.loose_count(max_count) or _M.bad_argument("max_count", "a number", max_count, 4)
end


return _M
