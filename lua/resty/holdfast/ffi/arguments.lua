-- Checks of keys and times, and how messages name unacceptable values.

local KEY_MAX = require("resty.holdfast.ffi.header").constants.KEY_MAX

local format = string.format
local getmetatable = debug and debug.getmetatable or getmetatable  -- not what a __metatable pretends
local tonumber, tostring, type = tonumber, tostring, type

local INFINITY = math.huge

local _M = {}


-- Whether this is a finite number of seconds, 0 or more.
function _M.is_duration(seconds)
    return type(seconds) == "number" and seconds >= 0 and seconds < INFINITY
end


local function escape(bytes)
    return (bytes:gsub(".", function (byte) return format("\\x%02X", byte:byte()) end))
end


-- A text for messages and logs: control characters, also those of UTF-8, as \xXX.
local function printable(text)
    return (text:gsub("[%c%z]", escape):gsub("\194[\128-\159]", escape))
end
_M.printable = printable


-- The same in quotes.
local function quote(text)
    return '"' .. printable(text) .. '"'
end
_M.quote = quote


-- How an error message names an unacceptable value.
function _M.describe(given)
    if type(given) == "number" then
        return tostring(given)
    end
    if type(given) == "string" then
        return quote(given)
    end
    return type(given)
end


-- Converts numbers, booleans, cdata numbers and objects with __tostring. tostring of anything else is an address, which
-- means nothing to another process.
local function convert_key(key)
    local kind = type(key)
    if kind == "number" or kind == "boolean" then
        return tostring(key)
    end
    if kind == "cdata" then
        return tonumber(key) and tostring(key)
    end
    local metatable = getmetatable(key)
    local text = type(metatable) == "table" and metatable.__tostring and tostring(key)
    return type(text) == "string" and text
end


-- The key as a string of acceptable length; nil and the reason for anything else.
function _M.key_string(key)
    if type(key) ~= "string" then
        if key == nil then
            return nil, "nil key"
        end
        key = convert_key(key)
        if not key then
            return nil, "bad key type"
        end
    end
    local length = #key
    if length == 0 then
        return nil, "empty key"
    end
    if length > KEY_MAX then
        return nil, "key too long"
    end
    return key
end


return _M
