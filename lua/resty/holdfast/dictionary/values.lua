-- The methods of a dictionary for single values.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local tables = require "resty.holdfast.dictionary.tables"

local C, answer, current, grow = core.C, core.answer, core.current, core.grow
local enter, enter_int, enter_value, leave = core.enter, core.enter_int, core.enter_value, core.leave
local bad_argument, bad_duration = checks.bad_argument, checks.bad_duration
local decode, encode = tables.decode, tables.encode
local error, pairs, tonumber, type = error, pairs, tonumber, type
local ffi_str = ffi.string
local is_duration, is_whole = core.is_duration, checks.is_whole
local check_zone, locate, not_stored, scalar = checks.check_zone, checks.locate, checks.not_stored, checks.scalar
local loose_duration, loose_flags, on_key = checks.loose_duration, checks.loose_flags, checks.on_key
local reason = core.reason

local ADD, REPLACE, SAFE_ADD, SAFE_SET, SET = core.ADD, core.REPLACE, core.SAFE_ADD, core.SAFE_SET, core.SET
local BOOLEAN, NIL, NUMBER, STRING, TABLE = core.BOOLEAN, core.NIL, core.NUMBER, core.STRING, core.TABLE
local BUFFER, NOT_FOUND, OK = core.BUFFER, core.NOT_FOUND, core.OK

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
        if type(value) ~= "table" or not zone.tables then
            return nil, "bad value type"
        end
        local err
        data, err = encode(value)
        if not data then
            return nil, err
        end
        kind, length, number = TABLE, #data, 0
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


for method, op in pairs { set = SET, add = ADD, replace = REPLACE, safe_set = SAFE_SET, safe_add = SAFE_ADD } do
    methods[method] = function (zone, key, value, exptime, flags)
        return store(zone, op, method, key, value, exptime, flags)
    end
end


methods.delete = on_key("delete", function (handle, key)
    local code = C.holdfast_delete(handle, key, #key)
    if code == OK then
        return true, nil, false
    end
    return false, reason(code), false
end)


-- The value in a frame; nil and the reason if it cannot be read.
local function read_value(zone, value)
    local value_type = value.type
    if value_type == STRING then
        return ffi_str(value.data, value.size)
    elseif value_type == NUMBER then
        return value.number
    elseif value_type == BOOLEAN then
        return value.number ~= 0
    elseif not zone.tables then
        return nil, "the value is a table: open the dictionary with { tables = true } to read it"
    end
    return decode(ffi_str(value.data, value.size))
end


-- Reads a value into the frame. No tail calls: those of C functions are not compiled.
local function read(handle, key, value, expired)
    local code
    if expired then
        code = C.holdfast_get_stale(handle, key, #key, value, expired)
    else
        code = C.holdfast_get(handle, key, #key, value)
    end
    return code
end


-- Reads a value again that is longer than the buffer. It may have grown once more, or gone, since.
local function read_long(handle, key, value, expired)
    local code
    repeat
        grow(current())
        code = read(handle, key, value, expired)
    until code ~= BUFFER
    return code
end


-- get and get_stale; `stale` values come with whether they have expired.
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


function methods.incr(zone, key, value, init, init_ttl)
    local handle
    handle, key = locate(zone, key, "incr")
    if not handle then
        return nil, key
    end

    local by = tonumber(value)
    if not by then
        error("bad value arg: number expected, got " .. type(value), 2)
    end
    local has_init = 0
    if init then
        local kind = type(init)
        init = tonumber(init)
        if not init then
            error("bad init arg: number expected, got " .. kind, 2)
        end
        has_init = 1
    end
    if init_ttl == nil then
        init_ttl = 0  -- and not a null pointer, which is nil, too
    else
        local kind = type(init_ttl)
        init_ttl = tonumber(init_ttl)
        if not init_ttl then
            error("bad init_ttl arg: number expected, got " .. kind, 2)
        end
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


methods.ttl = on_key("ttl", function (handle, key)
    local frame = enter()
    local code = C.holdfast_ttl(handle, key, #key, frame.double)
    local seconds = frame.double[0]
    leave()
    return answer(code, seconds)
end)


local expire = on_key("expire", function (handle, key, exptime)
    local code = C.holdfast_expire(handle, key, #key, exptime)
    return answer(code, true)
end)


function methods.expire(zone, key, exptime)
    if not is_duration(exptime) then
        -- As in the original, a negative time is none.
        local seconds = tonumber(exptime) or check_zone(zone, "expire") and bad_duration("exptime", exptime)
        exptime = loose_duration(seconds) or 0
    end
    return expire(zone, key, exptime)
end


return methods
