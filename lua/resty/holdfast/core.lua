-- The common code of all modules: the library `C` and its constants, error texts, argument checks, and scratch memory
-- for the results of calls.

local ffi = require "ffi"
local library = require "resty.holdfast.ffi.library"

local C = library.C
local band = require("bit").band
local ffi_cast, ffi_new, ffi_str = ffi.cast, ffi.new, ffi.string
local error, format = error, string.format
local getmetatable = debug and debug.getmetatable or getmetatable  -- ignores __metatable
local pcall, require, tonumber, tostring, type = pcall, require, tonumber, tostring, type

local INFINITY = math.huge

-- The table of constants, to which this file adds its functions. Copying the constants would take longer.
local _M = require("resty.holdfast.ffi.header").constants
_M.C, _M.path, _M.version = C, library.path, library.version

local KEY_MAX, OK = _M.KEY_MAX, _M.OK


-- Keeps the process alive when a dictionary's file is truncated; see holdfast_guard_sigbus in holdfast.h. Call this,
-- for example, in nginx's init_by_lua. `holdfast run` calls it for its workers. Returns true, or nil and a message.
-- Does not yield.
function _M.guard_sigbus()
    local code = C.holdfast_guard_sigbus()
    if code ~= OK then
        return nil, _M.sentence(code)
    end
    return true
end


-- --- errors ---

-- Returns the error message of the call that has just failed.
local function sentence(code)
    local text = ffi_str(C.holdfast_error())
    if text == "" then
        return ffi_str(C.holdfast_code_text(code))
    end
    return text
end
_M.sentence = sentence


-- The error strings with which programs compare results. As in ngx.shared, "no memory" also means that a value can
-- never fit.
local TEXTS = {
    [_M.NOT_FOUND] = "not found",
    [_M.EXISTS] = "exists",
    [_M.NO_MEMORY] = "no memory",
    [_M.TIMEOUT] = "timeout",
    [_M.NOT_A_NUMBER] = "not a number",
    [_M.NOT_OWNER] = "not owner",
    [_M.TOO_LARGE] = "no memory",
    [_M.REMOVED] = "dictionary not found",
    [_M.NOT_A_LIST] = "value not a list",
    [_M.IS_A_LIST] = "value is a list",
    [_M.DIFFERS] = "value differs",
    [_M.DEADLOCK] = "deadlock",
    [_M.UNAVAILABLE] = "unavailable",
    [_M.UNSUPPORTED] = "not supported in a cluster dictionary",
}


-- Returns the string that the methods for one key return for an error code.
function _M.reason(code)
    return TEXTS[code] or sentence(code)
end


-- Returns the value if the call succeeded, otherwise nil and the reason.
function _M.answer(code, value)
    if code == OK then
        return value
    end
    return nil, TEXTS[code] or sentence(code)
end


-- Returns the results of a method that failed to get a lock: nil, the reason and, after a deadlock, the keys.
function _M.refused(err, keys)
    if keys then
        return nil, err, keys
    end
    return nil, err
end


-- --- checks of keys and times, and names of bad values for messages ---

-- Returns whether the argument is a finite number of seconds that is at least 0.
function _M.is_duration(seconds)
    return type(seconds) == "number" and seconds >= 0 and seconds < INFINITY
end


-- Does the same as is_duration, but also accepts math.huge.
function _M.is_time(seconds)
    return type(seconds) == "number" and seconds >= 0
end


local function escape(bytes)
    return (bytes:gsub(".", function (byte) return format("\\x%02X", byte:byte()) end))
end


-- Returns a text for messages and logs. Control characters, including UTF-8's C1 characters, become \xXX.
local function printable(text)
    return (text:gsub("[%c%z]", escape):gsub("\194[\128-\159]", escape))
end
_M.printable = printable


-- Returns the printable text in quotes.
local function quote(text)
    return '"' .. printable(text) .. '"'
end
_M.quote = quote


-- Returns a text that names a bad value in an error message.
function _M.describe(given)
    if type(given) == "number" then
        return tostring(given)
    end
    if type(given) == "string" then
        return quote(given)
    end
    return type(given)
end


-- Raises an error for a bad time. `name` is the name of the method's argument. `level` selects the line that the error
-- names, as in error().
function _M.check_time(seconds, name, method, level)
    if not _M.is_time(seconds) then
        error("bad " .. name .. " to " .. method .. ": expected a number, 0 or more, got " .. _M.describe(seconds),
              level + 1)
    end
end


-- Converts numbers, booleans, cdata numbers and objects with __tostring to strings. For other values, tostring()
-- returns an address, which has no meaning in another process.
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


-- Returns the key as a string, or nil and the reason if it has the wrong type or length.
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


-- --- scratch memory ---

-- Creates a table with preallocated elements, because a growing table is copied repeatedly. All current versions of
-- LuaJIT have table.new.
local has_new, new_table = pcall(require, "table.new")
if not has_new then
    function new_table()
        return {}
    end
end

-- A frame receives the results of one call. Calls in finalisers have separate frames, because a finaliser may run
-- whenever Lua allocates memory, even between a call and the reading of its results. FRAMES is the maximum number of
-- frames in use at the same time: two for a call that makes a table, two for a finaliser in that call, and two for a
-- debug hook in each. Frames are used in rotation. So if an error (a stack overflow, a lack of memory) occurs between
-- `enter` and `leave`, no frame is lost.
local FRAMES = 8

local frames = {}
-- The values and the integers of all frames. Each kind is in one array, so that a call that needs only one kind need
-- not read a table.
local values = ffi_new("holdfast_value[?]", FRAMES)
local integers = ffi_new("int[?]", FRAMES)
-- The number of frames in use. It is a C integer, because computing the remainder of a Lua number requires a division.
local depth = ffi_new("int[1]")

local BUFFER_SIZE = 4096

-- The type of the lengths of packed keys. It is signed, because Lua computes with signed integers; keys are shorter
-- than 2 ^ 16 bytes.
local lengths_type = ffi.typeof("const int32_t *")


-- Creates a frame, which has out-parameters and a value with a buffer. The buffer grows to the length of the longest
-- value that is read, and never shrinks.
local function make_frame(number)
    local frame = {
        int = integers + number,
        double = ffi_new("double[1]"),
        count = ffi_new("uint32_t[1]"),
        count2 = ffi_new("uint32_t[1]"),
        value = values[number],
        buffer = ffi_new("char[?]", BUFFER_SIZE),
    }
    frame.value.data = frame.buffer
    frame.value.capacity = BUFFER_SIZE
    frames[number] = frame
    return frame
end


-- Enters a frame. Every enter needs a leave.
function _M.enter()
    local number = band(depth[0] + 1, FRAMES - 1)
    depth[0] = number
    return frames[number] or make_frame(number)
end


-- Enters a frame for a call that needs only the value. The value has no buffer before the first grow(current()).
function _M.enter_value()
    local number = band(depth[0] + 1, FRAMES - 1)
    depth[0] = number
    return values + number
end


-- Enters a frame for a call that needs only the integer.
function _M.enter_int()
    local number = band(depth[0] + 1, FRAMES - 1)
    depth[0] = number
    return integers + number
end


-- Returns the frame that was entered last.
function _M.current()
    local number = depth[0]
    return frames[number] or make_frame(number)
end


function _M.leave()
    depth[0] = band(depth[0] - 1, FRAMES - 1)
end


-- Leaves the frame. Returns the number that a call wrote to `out`, or nil and the reason if the call failed.
function _M.leave_with(out, code)
    local number = out[0]
    _M.leave()
    return _M.answer(code, number)
end


-- Returns the keys in the frame, which are packed as "length, bytes, length, bytes, ...".
function _M.unpack_keys(frame)
    local count = frame.count[0]
    local keys = new_table(count, 0)
    local packed = frame.value.data
    for i = 1, count do
        local length = ffi_cast(lengths_type, packed)[0]
        keys[i] = ffi_str(packed + 4, length)
        packed = packed + 4 + length
    end
    return keys
end


-- Enlarges the buffer for a value that did not fit.
function _M.grow(frame)
    local value = frame.value
    local size, capacity = tonumber(value.size), tonumber(value.capacity)
    while capacity < size do
        capacity = capacity * 2
    end
    frame.buffer = ffi_new("char[?]", capacity)
    value.data = frame.buffer
    value.capacity = capacity
end


return _M
