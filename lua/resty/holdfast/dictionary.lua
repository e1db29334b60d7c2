-- The methods that all dictionaries share: ngx.shared.DICT. Manual: docs/resty.shdict.md.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C = core.C
local describe = core.describe
local double_ptr = core.double_ptr
local error = error
local ffi_cast = ffi.cast
local ffi_istype = ffi.istype
local ffi_new = ffi.new
local ffi_str = ffi.string
local floor = math.floor
local grow_value = core.grow_value
local int_ptr = core.int_ptr
local is_duration = core.is_duration
local key_string = core.key_string
local reason = core.reason
local tonumber = tonumber
local type = type
local value_ptr = core.value

local ADD = core.ADD
local BOOLEAN = core.BOOLEAN
local BUFFER = core.BUFFER
local NIL = core.NIL
local NOT_FOUND = core.NOT_FOUND
local NUMBER = core.NUMBER
local OK = core.OK
local REPLACE = core.REPLACE
local SET = core.SET
local STRING = core.STRING

local handle_type = ffi.typeof("holdfast_dict *")
local lengths_type = ffi.typeof("const uint32_t *")
local packed_ptr = ffi_new("const char *[1]")

-- The methods of every dictionary, and their metatable.
local methods = {}
methods.__index = methods


-- Called by methods only, as the functions that raise: the line to blame is the one that called the method.

-- The C handle of a dictionary.
local function check_zone(zone, method)
    local handle = type(zone) == "table" and zone[1]
    if not ffi_istype(handle_type, handle) then
        error('bad "zone" argument: a dictionary expected, got ' .. describe(zone) .. "; call it as dict:" .. method
              .. "(...)", 3)
    end
    return handle
end


local function bad_duration(name, given)
    error('bad "' .. name .. '" argument: a number of seconds, 0 or more, expected, got ' .. describe(given), 3)
end


local function is_whole(number)
    return type(number) == "number" and number >= 0 and number <= 0xffffffff and number == floor(number)
end


local function bad_whole(name, given)
    error('bad "' .. name .. '" argument: a whole number, 0 to 4294967295, expected, got ' .. describe(given), 3)
end


local STORE_METHODS = { [SET] = "set", [ADD] = "add", [REPLACE] = "replace" }


local function store(zone, op, key, value, exptime, flags)
    local handle = check_zone(zone, STORE_METHODS[op])

    if not exptime then
        exptime = 0
    elseif not is_duration(exptime) then
        bad_duration("exptime", exptime)
    end

    if not flags then
        flags = 0
    elseif not is_whole(flags) then
        bad_whole("flags", flags)
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
        if op ~= SET then
            return false, "attempt to add or replace nil values", false
        end
        value_type = NIL
    else
        return nil, "bad value type"
    end

    int_ptr[0] = 0
    local code = C.holdfast_store(handle, op, key, #key, value_type, data, length, number, exptime, flags, int_ptr)
    if code == OK then
        return true, nil, int_ptr[0] ~= 0
    end
    return false, reason(code), int_ptr[0] ~= 0
end


function methods.set(zone, key, value, exptime, flags)
    return store(zone, SET, key, value, exptime, flags)
end


function methods.add(zone, key, value, exptime, flags)
    return store(zone, ADD, key, value, exptime, flags)
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


-- The string that a get found longer than the buffer. It may have grown again, or gone, since.
local function get_long(handle, key)
    local code
    repeat
        grow_value(tonumber(value_ptr.size))
        code = C.holdfast_get(handle, key, #key, value_ptr)
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

    local code = C.holdfast_get(handle, key, #key, value_ptr)
    if code == BUFFER then
        code = get_long(handle, key)
    end
    if code ~= OK then
        if code == NOT_FOUND then
            return nil
        end
        return nil, reason(code)
    end

    local value_type = value_ptr.type
    local value
    if value_type == STRING then
        value = ffi_str(value_ptr.data, value_ptr.size)
    elseif value_type == NUMBER then
        value = value_ptr.number
    elseif value_type == BOOLEAN then
        value = value_ptr.number ~= 0
    else
        return nil
    end

    local flags = value_ptr.flags
    if flags ~= 0 then
        return value, flags
    end
    return value
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
    if init_ttl ~= nil then
        local kind = type(init_ttl)
        init_ttl = tonumber(init_ttl)
        if not init_ttl then
            error("bad init_ttl arg: number expected, got " .. kind, 2)
        end
        if not is_duration(init_ttl) then
            bad_duration("init_ttl", init_ttl)
        end
        if not init then
            error('must provide "init" when providing "init_ttl"', 2)
        end
    end

    int_ptr[0] = 0
    local code = C.holdfast_incr(handle, key, #key, by, has_init, init or 0, init_ttl or 0, double_ptr, int_ptr)
    if code ~= OK then
        return nil, reason(code)
    end
    if has_init == 0 then
        return double_ptr[0]
    end
    return double_ptr[0], nil, int_ptr[0] ~= 0
end


function methods.ttl(zone, key)
    local handle = check_zone(zone, "ttl")
    local err
    key, err = key_string(key)
    if not key then
        return nil, err
    end
    local code = C.holdfast_ttl(handle, key, #key, double_ptr)
    if code ~= OK then
        return nil, reason(code)
    end
    return double_ptr[0]
end


function methods.expire(zone, key, exptime)
    local handle = check_zone(zone, "expire")
    if not is_duration(exptime) then
        bad_duration("exptime", exptime)
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


function methods.flush_all(zone)
    local code = C.holdfast_flush_all(check_zone(zone, "flush_all"))
    if code ~= OK then
        return nil, reason(code)
    end
    return true
end


-- The keys from "length, bytes, length, bytes, ...".
local function unpack_keys(packed, count)
    local keys = {}
    for i = 1, count do
        local length = ffi_cast(lengths_type, packed)[0]
        keys[i] = ffi_str(packed + 4, length)
        packed = packed + 4 + length
    end
    return keys
end


function methods.get_keys(zone, max_count)
    local handle = check_zone(zone, "get_keys")
    if max_count == nil then
        max_count = 1024
    elseif not is_whole(max_count) then
        bad_whole("max_count", max_count)
    end
    local code = C.holdfast_keys(handle, max_count, packed_ptr, core.size_ptr, core.count_ptr)
    if code ~= OK then
        return nil, reason(code)
    end
    return unpack_keys(packed_ptr[0], core.count_ptr[0])
end


function methods.capacity(zone)
    return tonumber(C.holdfast_capacity(check_zone(zone, "capacity")))
end


function methods.free_space(zone)
    return tonumber(C.holdfast_free_space(check_zone(zone, "free_space")))
end


return methods
