-- Compare and swap: the method cas.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C, enter, leave = core.C, core.enter, core.leave
local bad_duration, bad_whole = checks.bad_duration, checks.bad_whole
local encode = require("resty.holdfast.dictionary.tables").encode
local ffi_copy, ffi_new = ffi.copy, ffi.new
local is_duration, is_whole = core.is_duration, checks.is_whole
local check_zone, locate, not_stored, scalar = checks.check_zone, checks.locate, checks.not_stored, checks.scalar
local type = type

local OK, STRING, TABLE = core.OK, core.STRING, core.TABLE

local methods = {}


-- A value for the library with memory for its bytes. The bytes are copied: a pointer into a string of Lua would not
-- keep it alive.
local function new_slot()
    local slot = { value = ffi_new("holdfast_value"), bytes = ffi_new("char[?]", 256), capacity = 256 }
    slot.value.data = slot.bytes
    return slot
end


-- The two slots of a frame.
local function slots_of(frame)
    local expected, desired = frame.expected, frame.desired
    if not expected then
        expected, desired = new_slot(), new_slot()
        frame.expected, frame.desired = expected, desired
    end
    return expected, desired
end


local function put_bytes(slot, kind, bytes)
    local length = #bytes
    if length > slot.capacity then
        slot.capacity = length * 2
        slot.bytes = ffi_new("char[?]", slot.capacity)
        slot.value.data = slot.bytes
    end
    ffi_copy(slot.bytes, bytes, length)
    slot.value.type = kind
    slot.value.size = length
end


-- Puts a single value; false for other types.
local function put(slot, value)
    local kind, bytes, _, number = scalar(value)
    if kind == STRING then
        put_bytes(slot, STRING, bytes)
    elseif kind then
        slot.value.type = kind
        slot.value.number = number
    end
    return kind ~= nil
end


-- Puts the new value. As in the other methods, a value that cannot be stored raises no error.
local function put_desired(desired, zone, value)
    if put(desired, value) then
        return true
    end
    if type(value) ~= "table" or not zone.tables then
        return nil, "bad value type"
    end
    local bytes, err = encode(value)
    if not bytes then
        return nil, err
    end
    put_bytes(desired, TABLE, bytes)
    return true
end


-- The code and forcible; nil and the reason for a bad value.
local function swap(frame, zone, handle, key, old, new, exptime, flags)
    local expected, desired = slots_of(frame)
    if not put(expected, old) then
        return nil, "bad old value type: string, number, boolean or nil expected, got " .. type(old)
    end
    local ok, err = put_desired(desired, zone, new)
    if not ok then
        return nil, err
    end
    desired.value.flags = flags
    local code = C.holdfast_cas(handle, key, #key, expected.value, desired.value, exptime, frame.int)
    return code, frame.int[0] ~= 0
end


function methods.cas(zone, key, old, new, exptime, flags)
    exptime, flags = exptime or 0, flags or 0
    if not is_duration(exptime) then
        check_zone(zone, "cas")
        bad_duration("exptime", exptime)
    end
    if not is_whole(flags) then
        check_zone(zone, "cas")
        bad_whole("flags", flags)
    end
    local handle
    handle, key = locate(zone, key, "cas")
    if not handle then
        return nil, key
    end
    local code, forcible = swap(enter(), zone, handle, key, old, new, exptime, flags)
    leave()
    if code == OK then
        return true, nil, forcible
    elseif not code then
        return nil, forcible
    end
    return not_stored(code, forcible)
end


return methods
