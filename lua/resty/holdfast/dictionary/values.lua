-- The methods of a dictionary for one key: values, compare and swap, and lists. Manual: docs/resty.shdict.md.
--
-- These are the methods of ngx.shared.DICT, and cas. None of them yields. exptime is in seconds; the default 0 means
-- never. flags default to 0.
--
-- On failure, set and its variants, delete and cas return false, a string and forcible. For a bad key or a value of a
-- bad type, they return nil and a string, as the other methods do on any failure. Common errors are "nil key", "empty
-- key", "key too long", "bad key type" and "dictionary not found". If a stopped process has been in the middle of a
-- change for a second, a change fails with "timeout", and has no effect. A wrong receiver, exptime or flags argument
-- raises an error at the line of the call.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local tables = require "resty.holdfast.dictionary.tables"

local C, answer, current, grow = core.C, core.answer, core.current, core.grow
local bad_argument, bad_duration, bad_whole = checks.bad_argument, checks.bad_duration, checks.bad_whole
local check_zone, locate, not_stored, scalar = checks.check_zone, checks.locate, checks.not_stored, checks.scalar
local bytes_of, form_of, read_value = tables.bytes_of, tables.form_of, tables.read_value
local enter, enter_int, enter_value, leave = core.enter, core.enter_int, core.enter_value, core.leave
local error, pairs, tonumber, type = error, pairs, tonumber, type
local ffi_copy, ffi_new, ffi_str = ffi.copy, ffi.new, ffi.string
local is_duration, is_whole = core.is_duration, checks.is_whole
local loose_duration, loose_flags, on_key = checks.loose_duration, checks.loose_flags, checks.on_key
local leave_with, reason, sentence = core.leave_with, core.reason, core.sentence

local ADD, REPLACE, SAFE_ADD, SAFE_SET, SET = core.ADD, core.REPLACE, core.SAFE_ADD, core.SAFE_SET, core.SET
local NIL, NUMBER, STRING, TABLE = core.NIL, core.NUMBER, core.STRING, core.TABLE
local BUFFER, NOT_FOUND, OK, TOO_LARGE = core.BUFFER, core.NOT_FOUND, core.OK, core.TOO_LARGE
local LEFT, RIGHT = core.LEFT, core.RIGHT

local methods = {}


local function store(zone, op, method, key, value, exptime, flags)
    if not exptime then
        exptime = 0
    elseif not is_duration(exptime) then
        exptime = loose_duration(exptime) or check_zone(zone, method) and bad_duration("exptime", exptime)
    end
    if not flags then
        flags = 0
    elseif not is_whole(flags) then
        flags = loose_flags(flags) or check_zone(zone, method) and bad_argument("flags", "a number", flags)
    end
    local handle
    handle, key = locate(zone, key, method)
    if not handle then
        return nil, key
    end

    local kind, data, length, number = scalar(value)
    if kind == NIL and op ~= SET and op ~= SAFE_SET then
        return false, "attempt to add or replace nil values", false
    elseif not kind then
        kind, data, length, number = form_of(zone, value)
        if not kind then
            return nil, data
        end
    end

    local removed = enter_int()
    local code = C.holdfast_store(handle, op, key, #key, kind, data, length, number, exptime, flags, removed)
    local forcible = removed[0] ~= 0
    leave()
    if code == OK then
        return true, nil, forcible
    end
    return not_stored(code, forcible)
end


-- set, add, replace, safe_set, safe_add (key, value [, exptime [, flags]]) store a value; set with nil deletes the key.
-- add fails with "exists" if there is a value, and replace with "not found" if there is none. If there is no room, set,
-- add and replace evict values, while the safe methods fail with "no memory". On success, the methods return true, nil
-- and whether unexpired values were evicted. On failure, they return false, the error, the same flag and, if the value
-- is too large, a message.
for method, op in pairs { set = SET, add = ADD, replace = REPLACE, safe_set = SAFE_SET, safe_add = SAFE_ADD } do
    methods[method] = function (zone, key, value, exptime, flags)
        return store(zone, op, method, key, value, exptime, flags)
    end
end


-- Removes the key, and releases its lock if it has one. Returns true, even if the key did not exist.
methods.delete = on_key("delete", function (handle, key)
    local code = C.holdfast_delete(handle, key, #key)
    if code == OK then
        return true, nil, false
    end
    return false, reason(code), false
end)


-- Reads a value into the frame. Makes no tail call, because LuaJIT does not compile tail calls to C functions.
local function read(handle, key, value, expired)
    local code
    if expired then
        code = C.holdfast_get_stale(handle, key, #key, value, expired)
    else
        code = C.holdfast_get(handle, key, #key, value)
    end
    return code
end


-- Repeats a read whose value did not fit into the buffer. The value may have grown or vanished in the meantime.
local function read_long(handle, key, value, expired)
    local code
    repeat
        grow(current())
        code = read(handle, key, value, expired)
    until code ~= BUFFER
    return code
end


-- Makes get and get_stale. get(key) returns the value and its flags (nil for 0), or nil if there is no value.
-- get_stale(key) also finds expired values; its third result says whether the value has expired.
local function getter(method, stale)
    return function (zone, key)
        local handle
        handle, key = locate(zone, key, method)
        if not handle then
            return nil, key
        end
        local value, expired
        if stale then
            local frame = enter()
            value, expired = frame.value, frame.int
        else
            value = enter_value()
        end
        local code = read(handle, key, value, expired)
        if code == BUFFER then
            code = read_long(handle, key, value, expired)
        end
        local flags, err
        if code == OK then
            flags, expired = value.flags, stale and expired[0] ~= 0
            value, err = read_value(zone, value)
        end
        leave()
        if err then
            return nil, err
        elseif code == NOT_FOUND then
            return nil
        elseif code ~= OK then
            return nil, reason(code)
        elseif stale then
            return value, flags ~= 0 and flags or nil, expired
        elseif flags ~= 0 then
            return value, flags
        end
        return value
    end
end

methods.get = getter("get", false)
methods.get_stale = getter("get_stale", true)


-- Converts an argument of incr. Raises an error at the line that called the method.
local function to_number(name, given)
    local number = tonumber(given)
    if not number then
        error("bad " .. name .. " arg: number expected, got " .. type(given), 3)
    end
    return number
end


-- Adds `value` to the number under the key, and returns the sum. If there is no value but `init` is given, stores init
-- + value for init_ttl seconds (default 0, which means forever), and returns the sum, nil and forcible. Without init,
-- returns nil and "not found". Other errors are "not a number" and "no memory". Raises an error for arguments that are
-- not numbers.
function methods.incr(zone, key, value, init, init_ttl)
    local handle
    handle, key = locate(zone, key, "incr")
    if not handle then
        return nil, key
    end

    local by = to_number("value", value)
    local has_init = 0
    if init then
        init = to_number("init", init)
        has_init = 1
    end
    if init_ttl == nil then
        init_ttl = 0  -- also replaces a null pointer, which equals nil
    else
        init_ttl = to_number("init_ttl", init_ttl)
        if not is_duration(init_ttl) then
            init_ttl = loose_duration(init_ttl) or bad_duration("init_ttl", init_ttl)
        end
        if not init then
            error('must provide "init" when providing "init_ttl"', 2)
        end
    end

    local frame = enter()
    local code = C.holdfast_incr(handle, key, #key, by, has_init, init or 0, init_ttl, frame.double, frame.int)
    local sum, forcible = frame.double[0], frame.int[0] ~= 0
    leave()
    if code ~= OK then
        return nil, reason(code)
    end
    if has_init == 0 then
        return sum
    end
    return sum, nil, forcible
end


-- Returns the seconds until the value expires. The number is 0 if the value never expires, and negative if it has
-- expired. If there is no value, returns nil and "not found".
methods.ttl = on_key("ttl", function (handle, key)
    local seconds = enter().double
    return leave_with(seconds, C.holdfast_ttl(handle, key, #key, seconds))
end)


-- Returns the number of elements of a list, or 0 if there is no value. For other values, returns nil and "value not a
-- list".
methods.llen = on_key("llen", function (handle, key)
    local count = enter().count
    return leave_with(count, C.holdfast_llen(handle, key, #key, count))
end)


local expire = on_key("expire", function (handle, key, exptime)
    local code = C.holdfast_expire(handle, key, #key, exptime)
    return answer(code, true)
end)


-- Makes the value expire `exptime` seconds from now; 0 means never. Returns true, or nil and "not found".
function methods.expire(zone, key, exptime)
    if not is_duration(exptime) then
        -- A negative time means never, as in ngx.shared.
        local seconds = tonumber(exptime) or check_zone(zone, "expire") and bad_duration("exptime", exptime)
        exptime = loose_duration(seconds) or 0
    end
    return expire(zone, key, exptime)
end


-- --- compare and swap ---

-- Creates a value for the library with memory for its bytes. The bytes are copied, because a pointer into a Lua string
-- would not keep the string alive.
local function new_slot()
    local slot = { value = ffi_new("holdfast_value"), bytes = ffi_new("char[?]", 256), capacity = 256 }
    slot.value.data = slot.bytes
    return slot
end


-- Returns the two slots of a frame.
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


-- Writes a scalar value into the slot. Returns false for other types.
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


-- Writes the new value into the slot. Returns true, or nil and the reason.
local function put_desired(desired, zone, value)
    if put(desired, value) then
        return true
    end
    local bytes, err = bytes_of(zone, value)
    if not bytes then
        return nil, err
    end
    put_bytes(desired, TABLE, bytes)
    return true
end


-- Calls the library. Returns the code and forcible, or nil and the reason for a bad value.
local function swap(frame, zone, handle, key, old, new, exptime, flags)
    local expected, desired = slots_of(frame)
    if not put(expected, old) then
        return nil, "bad old value type: expected string, number, boolean or nil, got " .. type(old)
    end
    local ok, err = put_desired(desired, zone, new)
    if not ok then
        return nil, err
    end
    desired.value.flags = flags
    local code = C.holdfast_cas(handle, key, #key, expected.value, desired.value, exptime, frame.int)
    return code, frame.int[0] ~= 0
end


-- Compares and swaps: stores `new` if the value of the key is `old`. If `old` is nil, the key must have no value; if
-- `new` is nil, the key is deleted. Flags and times are not compared. Returns true, nil and forcible. On failure,
-- returns false and "not found", "exists", "value differs" or an error from set. Raises an error for a bad exptime or
-- bad flags.
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


-- --- lists ---

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

-- lpush and rpush (key, value) add a string or a number at the head or tail of a list, and create the list if the key
-- has no value. They return the length of the list, or nil and "value not a list", "bad value type" or "no memory" (and
-- a message if the element can never fit). They do not evict values.
methods.lpush = on_key("lpush", function (handle, key, value) return push(handle, key, LEFT, value) end)
methods.rpush = on_key("rpush", function (handle, key, value) return push(handle, key, RIGHT, value) end)


local function pop(handle, key, side)
    local frame = enter()
    local value = frame.value
    local code = C.holdfast_pop(handle, key, #key, side, value)
    while code == BUFFER do  -- nothing was removed
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

-- lpop and rpop (key) remove the element at the head or tail of a list and return it. If there is no element, they
-- return nil; for other values, nil and "value not a list".
methods.lpop = on_key("lpop", function (handle, key) return pop(handle, key, LEFT) end)
methods.rpop = on_key("rpop", function (handle, key) return pop(handle, key, RIGHT) end)


return methods
