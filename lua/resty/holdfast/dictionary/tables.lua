-- Converts tables, which are stored as values, to bytes and back with LuaJIT's string.buffer.
--
-- The decoder of string.buffer trusts the lengths in the bytes, so ten bytes can make it allocate gigabytes. The bytes
-- come from other processes, so this file checks them before it decodes them.

local bit = require "bit"
local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local jit = require "jit"

local band, find, gsub, lshift = bit.band, string.find, string.gsub, bit.lshift
local pcall, tonumber, tostring, type = pcall, tonumber, tostring, type
local enter, leave = core.enter, core.leave
local ffi_cast, ffi_str = ffi.cast, ffi.string
local scalar = checks.scalar

local BOOLEAN, NUMBER, STRING, TABLE = core.BOOLEAN, core.NUMBER, core.STRING, core.TABLE

local known, buffer = pcall(require, "string.buffer")

local bytes_type = ffi.typeof("const uint8_t *")
local words_type = ffi.typeof("const uint32_t *")

local _M = {}


-- The reason why this LuaJIT cannot store tables, or nil if it can.
_M.missing = not known and "table values need LuaJIT's string.buffer, which this LuaJIT lacks" or nil


-- Returns a function that calls fn like pcall, but never in compiled code. In compiled code, an error in string.buffer
-- overwrites the stack frames of the callers, and LuaJIT crashes on return (still in August 2026; issue 1034 is
-- similar). LuaJIT never compiles a call to gsub: it compiles the caller up to this call, and again after it. A
-- finaliser may call the function during another call, so each frame has its own slot.
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
    jit.off(make_slot, true)  -- also applies to the functions that it creates; in a finaliser, this would be too late

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


-- LuaJIT's manual for string.buffer documents the format. An object consists of a tag and data.
local NULL_TAG = 0x03  -- this tag and smaller ones (nil, false, true) have no data
local EMPTY_TABLE_TAG = 0x08
local FIRST_TABLE_TAG, LAST_TABLE_TAG = 0x09, 0x0d
local STRING_TAG = 0x20  -- this tag and larger ones: the length is added to the tag

-- The number of bytes after these tags: int, double, int64, uint64 and complex. Pointers and dictionary indexes are not
-- allowed.
local FIXED = { [0x06] = 4, [0x07] = 8, [0x10] = 8, [0x11] = 8, [0x12] = 16 }


-- Reads a number of 1, 2 or 5 bytes at `at`. Returns the number and the position after it, which exceeds `size` if
-- bytes are missing.
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


-- Returns the number of objects that follow the header of a table, and the position where they begin.
local function read_header(data, tag, at, size)
    local count, pairs_ = 0, 0
    if tag ~= 0x09 then
        count, at = read_number(data, at, size)
        if tag >= 0x0c and count > 0 then  -- the array begins at index 1
            count = count - 1
        end
    end
    if tag == 0x09 or tag == 0x0b or tag == 0x0d then
        pairs_, at = read_number(data, at, size)
    end
    return count + 2 * pairs_, at
end


-- Returns whether the bytes are exactly one object, and no part of the object claims to have more parts than there are
-- bytes left.
local function is_sound(data, size)
    local at, missing = 0, 1  -- missing: the number of objects still to come, each of at least one byte
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


-- Returns the bytes of a table, or nil and the reason if it contains a function, a userdata or itself.
local function encode_table(value)
    local encoded, bytes = encode(value)
    if not encoded then
        return nil, "bad table: " .. tostring(bytes)
    end
    -- Pointers, whose tags are 4 and 5, have no meaning in another process.
    if (find(bytes, "\4", 1, true) or find(bytes, "\5", 1, true))
        and not is_sound(ffi_cast(bytes_type, bytes), #bytes) then
        return nil, "bad table: cannot serialize 'userdata'"
    end
    return bytes
end


-- Returns the table, or nil and the reason if the bytes do not encode a table.
local function decode_table(bytes)
    if not is_sound(ffi_cast(bytes_type, bytes), #bytes) then
        return nil, "bad table bytes: string.buffer did not write them"
    end
    local decoded, value = decode(bytes)
    if not decoded then
        return nil, "bad table bytes: " .. tostring(value)
    end
    if type(value) ~= "table" then
        return nil, "bad table bytes: expected a table, got " .. type(value)
    end
    return value
end


-- Returns the bytes of a table, or nil and the reason for a value that the dictionary cannot store.
function _M.bytes_of(zone, value)
    if type(value) ~= "table" or not zone.tables then
        return nil, "bad value type"
    end
    return encode_table(value)
end


-- Returns the arguments that describe a value to the library: type, data, length and number. Returns nil and the reason
-- for a value that the dictionary cannot store.
function _M.form_of(zone, value)
    local kind, data, length, number = scalar(value)
    if kind then
        return kind, data, length, number
    end
    local bytes, err = _M.bytes_of(zone, value)
    if not bytes then
        return nil, err
    end
    return TABLE, bytes, #bytes, 0
end


-- Returns the value in a frame, or nil and the reason if it cannot be read.
function _M.read_value(zone, value)
    local value_type = value.type
    if value_type == STRING then
        return ffi_str(value.data, value.size)
    elseif value_type == NUMBER then
        return value.number
    elseif value_type == BOOLEAN then
        return value.number ~= 0
    elseif not zone.tables then
        return nil, "the value is a table; open the dictionary with { tables = true } to read it"
    end
    return decode_table(ffi_str(value.data, value.size))
end


return _M
