-- Tables as values: the bytes that LuaJIT's string.buffer makes of them, and back. What the bytes are is LuaJIT's
-- matter; processes that share tables have to run a LuaJIT of the same format.

local pcall = pcall
local tostring = tostring
local type = type

local known, buffer = pcall(require, "string.buffer")
local encode = known and buffer.encode
local decode = known and buffer.decode

local _M = {}


-- Nil, or why this LuaJIT has no tables as values.
_M.missing = not known and "tables as values need LuaJIT's string.buffer, which this LuaJIT does not have" or nil


-- The table's bytes; nil and the reason when something in it has none (a function, a userdata, itself).
function _M.encode(value)
    local encoded, bytes = pcall(encode, value)
    if not encoded then
        return nil, "bad table: " .. tostring(bytes)
    end
    return bytes
end


-- The table of these bytes; nil and the reason when they are not those of a table.
function _M.decode(bytes)
    local decoded, value = pcall(decode, bytes)
    if not decoded then
        return nil, "bad bytes of a table: " .. tostring(value)
    end
    if type(value) ~= "table" then
        return nil, "bad bytes of a table: they are a " .. type(value)
    end
    return value
end


return _M
