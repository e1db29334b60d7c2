-- Tables as values: the bytes that LuaJIT's string.buffer makes of them, and back.
--
-- The decoder believes the lengths in the bytes: ten bytes can make it ask for gigabytes. Other processes are not
-- trusted that far, so bytes are checked first.

local bit = require "bit"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local jit = require "jit"

local band, find, gsub, lshift = bit.band, string.find, string.gsub, bit.lshift
local pcall, tonumber, tostring, type = pcall, tonumber, tostring, type
local enter, leave = core.enter, core.leave
local ffi_cast = ffi.cast

local known, buffer = pcall(require, "string.buffer")

local bytes_type = ffi.typeof("const uint8_t *")
local words_type = ffi.typeof("const uint32_t *")

local _M = {}


-- Nil, or why this LuaJIT has no tables as values.
_M.missing = not known and "tables as values need LuaJIT's string.buffer, which this LuaJIT does not have" or nil


-- pcall of fn, never in compiled code: string.buffer's errors there overwrite the frames of the callers, and LuaJIT
-- crashes on return (still in August 2026; issue 1034 is of the same kind). The caller is compiled up to gsub, which
-- never is, and again after it. A finaliser may call this inside of itself: hence a slot for each frame.
local function pcall_uncompiled(fn)
    local slots = {}

    local function make_slot(frame)
        local slot = {}
        function slot.call()
            slot.ok, slot.result = pcall(fn, slot.value)
        end
        slots[frame] = slot
        return slot
    end
    jit.off(make_slot, true)  -- and what it makes: in a finaliser it would be too late to say so

    return function (value)
        local frame = enter()
        local slot = slots[frame] or make_slot(frame)
        slot.value = value
        gsub("x", "x", slot.call)
        local ok, result = slot.ok, slot.result
        slot.value, slot.result = nil, nil
        leave()
        return ok, result
    end
end


local encode = known and pcall_uncompiled(buffer.encode)
local decode = known and pcall_uncompiled(buffer.decode)


-- LuaJIT documents the format under string.buffer. An object is a tag and its data.
local NULL_TAG = 0x03  -- and smaller: nil, false, true; the tag is all
local EMPTY_TABLE_TAG = 0x08
local FIRST_TABLE_TAG, LAST_TABLE_TAG = 0x09, 0x0d
local STRING_TAG = 0x20  -- and larger: its length comes after that

-- By tag, how many bytes follow: int, double, int64, uint64, complex. Not: pointers, and indexes of dictionaries.
local FIXED = { [0x06] = 4, [0x07] = 8, [0x10] = 8, [0x11] = 8, [0x12] = 16 }


-- A number of 1, 2 or 5 bytes that begins at `at`, and where it ends: beyond `size` if not all of it is there.
local function read_number(data, at, size)
    local first = at < size and data[at] or 0xff
    if first < 0xe0 then
        return first, at + 1
    elseif first < 0xff and at + 2 <= size then
        return lshift(band(first, 0x1f), 8) + data[at + 1] + 0xe0, at + 2
    elseif at + 5 <= size then
        return tonumber(ffi_cast(words_type, data + at + 1)[0]), at + 5
    end
    return 0, size + 1
end


-- How many objects follow the header of a table, and where they begin.
local function read_header(data, tag, at, size)
    local count, pairs_ = 0, 0
    if tag ~= 0x09 then
        count, at = read_number(data, at, size)
        if tag >= 0x0c and count > 0 then  -- from index 1
            count = count - 1
        end
    end
    if tag == 0x09 or tag == 0x0b or tag == 0x0d then
        pairs_, at = read_number(data, at, size)
    end
    return count + 2 * pairs_, at
end


-- Whether the bytes are one object, and no part of it claims more parts than bytes remain.
local function is_sound(data, size)
    local at, missing = 0, 1  -- missing: objects, of a byte at least
    while missing > 0 and missing <= size - at do
        local tag = data[at]
        missing = missing - 1
        if tag >= STRING_TAG then
            local length
            length, at = read_number(data, at, size)
            at = at + length - STRING_TAG
        elseif tag >= FIRST_TABLE_TAG and tag <= LAST_TABLE_TAG then
            local parts
            parts, at = read_header(data, tag, at + 1, size)
            missing = missing + parts
        elseif tag <= NULL_TAG or tag == EMPTY_TABLE_TAG then
            at = at + 1
        else
            local more = FIXED[tag]
            if not more then
                return false
            end
            at = at + 1 + more
        end
    end
    return missing == 0 and at == size
end


-- The table's bytes; nil and the reason if part of it has none (a function, a userdata, itself).
function _M.encode(value)
    local encoded, bytes = encode(value)
    if not encoded then
        return nil, "bad table: " .. tostring(bytes)
    end
    -- Pointers, which mean nothing elsewhere, have the tags 4 and 5.
    if (find(bytes, "\4", 1, true) or find(bytes, "\5", 1, true))
        and not is_sound(ffi_cast(bytes_type, bytes), #bytes) then
        return nil, "bad table: cannot serialize 'userdata'"
    end
    return bytes
end


-- The table of the bytes; nil and the reason if they are not a table's.
function _M.decode(bytes)
    if not is_sound(ffi_cast(bytes_type, bytes), #bytes) then
        return nil, "bad bytes of a table: string.buffer did not write them"
    end
    local decoded, value = decode(bytes)
    if not decoded then
        return nil, "bad bytes of a table: " .. tostring(value)
    end
    if type(value) ~= "table" then
        return nil, "bad bytes of a table: they are a " .. type(value)
    end
    return value
end


return _M
