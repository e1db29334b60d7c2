-- Scratch memory for the results of calls to the library.

local ffi = require "ffi"

require "resty.holdfast.ffi.cdef"

local band = require("bit").band
local ffi_cast, ffi_new, ffi_str = ffi.cast, ffi.new, ffi.string
local pcall, require, tonumber = pcall, require, tonumber

-- A table with room for so many elements: one that grows is copied again and again. Every LuaJIT of today can make it.
local has_new, new_table = pcall(require, "table.new")
if not has_new then
    function new_table()
        return {}
    end
end

local _M = {}

-- A frame takes the results of one call. A finaliser may run wherever Lua allocates, also between a call and the
-- reading of its results, and may make calls: those have their own frames. There are more frames than can be in use at
-- once: two of a call that makes a table, two of a finaliser in it, and two of a hook in each. They are used in turns,
-- so an error between `enter` and `leave`, for want of stack or memory, costs none.
local FRAMES = 8

local frames = {}
-- The values and integers of all frames, in one piece each: a call that needs only one finds it without a look into a
-- table.
local values = ffi_new("holdfast_value[?]", FRAMES)
local integers = ffi_new("int[?]", FRAMES)
-- How many are in use: an integer of C, as a number of Lua takes a division for the remainder.
local depth = ffi_new("int[1]")

local BUFFER_SIZE = 4096

-- Signed, as Lua computes with such integers; keys are shorter than 2 ^ 16.
local lengths_type = ffi.typeof("const int32_t *")


-- Out-parameters, and a value with a buffer that grows to the longest value read, and stays.
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


-- Begins to use a frame. Each enter has its leave.
function _M.enter()
    local number = band(depth[0] + 1, FRAMES - 1)
    depth[0] = number
    return frames[number] or make_frame(number)
end


-- The same for a call that needs only the value, which has no buffer before the first grow(current()).
function _M.enter_value()
    local number = band(depth[0] + 1, FRAMES - 1)
    depth[0] = number
    return values + number
end


-- The same for a call that needs only the integer.
function _M.enter_int()
    local number = band(depth[0] + 1, FRAMES - 1)
    depth[0] = number
    return integers + number
end


-- The frame that was entered last.
function _M.current()
    local number = depth[0]
    return frames[number] or make_frame(number)
end


function _M.leave()
    depth[0] = band(depth[0] - 1, FRAMES - 1)
end


-- The keys in the frame, packed as "length, bytes, length, bytes, ...".
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


-- Makes room for a value that did not fit.
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
