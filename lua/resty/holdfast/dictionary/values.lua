-- The methods of a dictionary for single values.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local tables = require "resty.holdfast.dictionary.tables"

local C = core.C
local bad_argument = checks.bad_argument
local bad_duration = checks.bad_duration
local check_zone = checks.check_zone
local decode = tables.decode
local encode = tables.encode
local enter = core.enter
local error = error
local ffi_str = ffi.string
local grow = core.grow
local is_duration = core.is_duration
local is_whole = checks.is_whole
local key_string = core.key_string
local leave = core.leave
local loose_duration = checks.loose_duration
local loose_flags = checks.loose_flags
local reason = core.reason
local tonumber = tonumber
local type = type

local ADD = core.ADD
local BOOLEAN = core.BOOLEAN
local BUFFER = core.BUFFER
local NIL = core.NIL
local NOT_FOUND = core.NOT_FOUND
local NUMBER = core.NUMBER
local OK = core.OK
local REPLACE = core.REPLACE
local SAFE_ADD = core.SAFE_ADD
local SAFE_SET = core.SAFE_SET
local SET = core.SET
local STRING = core.STRING
local TABLE = core.TABLE

local methods = {}

local STORE_METHODS = {
    [SET] = "set", [ADD] = "add", [REPLACE] = "replace", [SAFE_SET] = "safe_set", [SAFE_ADD] = "safe_add",
}


local function store(zone, op, key, value, exptime, flags)
    local handle = check_zone(zone, STORE_METHODS[op])

    if not exptime then
        exptime = 0
    elseif not is_duration(exptime) then
        exptime = loose_duration(exptime) or bad_duration("exptime", exptime)
    end

    if not flags then
        flags = 0
    elseif not is_whole(flags) then
        flags = loose_flags(flags) or bad_argument("flags", "a number", flags)
    end

    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end

    local value_type = type(value)
    local data, length, number = nil, 0, 0
    if value_type == "string" then
        value_type, data, length = STRING, value, #value
    elseif value_type == "number" then
        value_type, number = NUMBER, value
    elseif value_type == "boolean" then
        value_type, number = BOOLEAN, value and 1 or 0
    elseif value == nil then
        if op ~= SET and op ~= SAFE_SET then
            return false, "attempt to add or replace nil values", false
        end
        value_type = NIL
    elseif value_type == "table" and zone.tables then
        data, err = encode(value)
        if not data then
            return nil, err
        end
        value_type, length = TABLE, #data
    else
        return nil, "bad value type"
    end

    local frame = enter()
    local code = C.holdfast_store(handle, op, key, #key, value_type, data, length, number, exptime, flags, frame.int)
    local forcible = frame.int[0] ~= 0
    leave()
    if code == OK then
        return true, nil, forcible
    end
    return false, reason(code), forcible
end


function methods.set(zone, key, value, exptime, flags)
    return store(zone, SET, key, value, exptime, flags)
end


function methods.safe_set(zone, key, value, exptime, flags)
    return store(zone, SAFE_SET, key, value, exptime, flags)
end


function methods.add(zone, key, value, exptime, flags)
    return store(zone, ADD, key, value, exptime, flags)
end


function methods.safe_add(zone, key, value, exptime, flags)
    return store(zone, SAFE_ADD, key, value, exptime, flags)
end


function methods.replace(zone, key, value, exptime, flags)
    return store(zone, REPLACE, key, value, exptime, flags)
end


function methods.delete(zone, key)
    local handle = check_zone(zone, "delete")
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end
    local code = C.holdfast_delete(handle, key, #key)
    if code == OK then
        return true, nil, false
    end
    return false, reason(code), false
end


-- What the library wrote to a frame's value; nil and the reason if it cannot be read.
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


-- A value that was longer than the buffer is read again. It may have grown once more, or gone, since.
local function get_long(handle, key, frame)
    local code
    repeat
        grow(frame)
        code = C.holdfast_get(handle, key, #key, frame.value)
    until code ~= BUFFER
    return code
end


function methods.get(zone, key)
    local handle = check_zone(zone, "get")
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end

    local frame = enter()
    local value, flags = frame.value, nil
    local code = C.holdfast_get(handle, key, #key, value)
    if code == BUFFER then
        code = get_long(handle, key, frame)
    end
    if code == OK then
        flags = value.flags
        value, err = read_value(zone, value)
    end
    leave()
    if code == OK then
        if err then
            return nil, err
        elseif flags ~= 0 then
            return value, flags
        end
        return value
    elseif code == NOT_FOUND then
        return nil
    end
    return nil, reason(code)
end


function methods.get_stale(zone, key)
    local handle = check_zone(zone, "get_stale")
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end

    local frame = enter()
    local value, flags, stale = frame.value, nil, nil
    local code = C.holdfast_get_stale(handle, key, #key, value, frame.int)
    while code == BUFFER do  -- as get_long
        grow(frame)
        code = C.holdfast_get_stale(handle, key, #key, value, frame.int)
    end
    if code == OK then
        flags, stale = value.flags, frame.int[0] ~= 0
        value, err = read_value(zone, value)
    end
    leave()
    if code == OK then
        if err then
            return nil, err
        end
        return value, flags ~= 0 and flags or nil, stale
    elseif code == NOT_FOUND then
        return nil
    end
    return nil, reason(code)
end


function methods.incr(zone, key, value, init, init_ttl)
    local handle = check_zone(zone, "incr")
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
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


function methods.ttl(zone, key)
    local handle = check_zone(zone, "ttl")
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end
    local frame = enter()
    local code = C.holdfast_ttl(handle, key, #key, frame.double)
    local seconds = frame.double[0]
    leave()
    if code ~= OK then
        return nil, reason(code)
    end
    return seconds
end


function methods.expire(zone, key, exptime)
    local handle = check_zone(zone, "expire")
    if not is_duration(exptime) then
        -- As in the original, which takes a negative one for none.
        local seconds = tonumber(exptime) or bad_duration("exptime", exptime)
        exptime = loose_duration(seconds) or 0
    end
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end
    local code = C.holdfast_expire(handle, key, #key, exptime)
    if code ~= OK then
        return nil, reason(code)
    end
    return true
end


return methods
