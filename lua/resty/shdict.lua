-- Shared dictionaries: ngx.shared.DICT for any LuaJIT process. Manual: docs/resty.shdict.md.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C = core.C
local double_ptr = core.double_ptr
local error = error
local ffi_cast = ffi.cast
local ffi_istype = ffi.istype
local ffi_new = ffi.new
local ffi_str = ffi.string
local floor = math.floor
local format = string.format
local grow_value = core.grow_value
local int_ptr = core.int_ptr
local is_duration = core.is_duration
local key_string = core.key_string
local pairs = pairs
local rawget = rawget
local rawset = rawset
local reason = core.reason
local sentence = core.sentence
local setmetatable = setmetatable
local tonumber = tonumber
local tostring = tostring
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

local DEFAULT_SIZE = 1024 * 1024
local MUTEXES = { futex = core.MUTEX_FUTEX, spin = core.MUTEX_SPIN, file = core.MUTEX_FILE }

local handle_type = ffi.typeof("holdfast_dict *")
local handle_ptr = ffi_new("holdfast_dict *[1]")
local lengths_type = ffi.typeof("const uint32_t *")
local packed_ptr = ffi_new("const char *[1]")
local size_type = ffi.typeof("uint64_t[1]")

local _M = { _VERSION = core.version }

-- The methods of every dictionary, and their metatable.
local methods = {}
methods.__index = methods


-- The C handle of a dictionary. Called by methods only: the error is the line that called the method.
local function check_zone(zone)
    if type(zone) ~= "table" then
        error('bad "zone" argument', 3)
    end
    local handle = zone[1]
    if not ffi_istype(handle_type, handle) then
        error('bad "zone" argument', 3)
    end
    return handle
end


local function is_flags(flags)
    return type(flags) == "number" and flags >= 0 and flags <= 0xffffffff and flags == floor(flags)
end


local function store(zone, op, key, value, exptime, flags)
    local handle = check_zone(zone)

    if not exptime then
        exptime = 0
    elseif not is_duration(exptime) then
        error('bad "exptime" argument', 2)
    end

    if not flags then
        flags = 0
    elseif not is_flags(flags) then
        error('bad "flags" argument', 2)
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
    if code == NOT_FOUND and op ~= REPLACE then
        return false, "dictionary not found", false
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
    local handle = check_zone(zone)
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
    local handle = check_zone(zone)
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
    local handle = check_zone(zone)
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
            error('bad "init_ttl" argument', 2)
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
    local handle = check_zone(zone)
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
    local handle = check_zone(zone)
    if not is_duration(exptime) then
        error('bad "exptime" argument', 2)
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
    local code = C.holdfast_flush_all(check_zone(zone))
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
    local handle = check_zone(zone)
    if max_count == nil then
        max_count = 1024
    elseif not is_flags(max_count) then
        error('bad "max_count" argument', 2)
    end
    local code = C.holdfast_keys(handle, max_count, packed_ptr, core.size_ptr, core.count_ptr)
    if code ~= OK then
        return nil, reason(code)
    end
    return unpack_keys(packed_ptr[0], core.count_ptr[0])
end


function methods.capacity(zone)
    return tonumber(C.holdfast_capacity(check_zone(zone)))
end


function methods.free_space(zone)
    return tonumber(C.holdfast_free_space(check_zone(zone)))
end


-- --- opening, finding, removing ------------------------------------------------------------------------

-- Every dictionary that this Lua state has seen, under its name: one table per dictionary.
local shared = {}


local function remember(name, handle)
    local dict = rawget(shared, name)
    if not dict then
        dict = setmetatable({ handle, name = name }, methods)
        rawset(shared, name, dict)
    end
    return dict
end


-- The dictionary, or nil, the reason and the code.
local function attach(name)
    local dict = rawget(shared, name)
    if dict then
        return dict
    end
    local code = C.holdfast_attach(name, #name, handle_ptr)
    if code ~= OK then
        return nil, sentence(code), code
    end
    return remember(name, handle_ptr[0])
end


-- The dictionary that a lock is to be in: by its name, or itself. Otherwise nil and the reason.
function _M.find(name)
    if type(name) == "string" then
        local dict, err, code = attach(name)
        if dict then
            return dict
        end
        return nil, code == NOT_FOUND and "dictionary not found" or err
    end
    if type(name) == "table" and ffi_istype(handle_type, rawget(name, 1)) then
        return name
    end
    return nil, "dictionary not found"
end


local function bad_option(name, given, accepted)
    error(format('bad option "%s" to open: %s expected, got %s', name, accepted, type(given)), 5)
end


-- Bytes of a size that is given; nil and the reason if it is none.
local function read_size(size)
    if type(size) == "number" then
        size = format("%.17g", size)
    elseif type(size) ~= "string" then
        bad_option("size", size, 'a number of bytes or a string such as "100k", "1m", "2g"')
    end
    local bytes = size_type()
    local code = C.holdfast_parse_size(size, #size, bytes)
    if code ~= OK then
        return nil, sentence(code)
    end
    return bytes[0]
end


-- Size and mode have texts that are wrong in ways a configuration can be wrong: nil and the reason, no error.
local function read_mode(mode)
    local bits = mode
    if type(mode) == "string" then
        bits = mode:find("^0?[0-7][0-7][0-7]$") and tonumber(mode, 8)
    elseif type(mode) ~= "number" then
        bad_option("mode", mode, 'an octal string such as "0600" or a number')
    end
    if not bits or not (bits >= 0 and bits <= 511) or bits ~= floor(bits) then
        return nil, format('bad mode %s: accepted are octal strings, "000" to "0777", and numbers, 0 to 511', mode)
    end
    return bits
end


local function read_mutex(mutex)
    if type(mutex) ~= "string" then
        bad_option("mutex", mutex, '"futex", "spin" or "file"')
    end
    local number = MUTEXES[mutex]
    if not number then
        return nil, format('bad mutex "%s": accepted are "futex", "spin" and "file"', mutex)
    end
    return number
end


local function read_persist(persist)
    if type(persist) ~= "boolean" then
        bad_option("persist", persist, "a boolean")
    end
    return persist and 1 or 0
end


local READERS = { size = read_size, mode = read_mode, mutex = read_mutex, persist = read_persist }


-- The options as the library takes them; nil and the reason when a value is not acceptable.
local function read_options(opts)
    local options = ffi_new("holdfast_options")
    for name, given in pairs(opts) do
        local reader = READERS[name]
        if not reader then
            error(format('unknown option "%s" to open: accepted are mode, mutex, persist and size', tostring(name)), 3)
        end
        local value, err = reader(given)
        if not value then
            return nil, err
        end
        options[name] = value
    end
    return options
end


-- The size of the dictionary that exists or is declared, for an open that names none.
local function known_size(name)
    local code = C.holdfast_attach(name, #name, handle_ptr)
    local bytes = code == OK and C.holdfast_capacity(handle_ptr[0]) or 0
    return bytes > 0 and bytes or DEFAULT_SIZE
end


function _M.open(name, opts)
    if type(name) ~= "string" then
        error("bad name to open: string expected, got " .. type(name), 2)
    end
    if opts ~= nil and type(opts) ~= "table" then
        error("bad options to open: table expected, got " .. type(opts), 2)
    end
    local options, err = read_options(opts or {})
    if not options then
        return nil, err
    end
    if options.size == 0 then
        options.size = known_size(name)
    end
    local code = C.holdfast_open(name, #name, options, handle_ptr)
    if code ~= OK then
        return nil, sentence(code)
    end
    return remember(name, handle_ptr[0])
end


function _M.remove(name)
    if type(name) ~= "string" then
        error("bad name to remove: string expected, got " .. type(name), 2)
    end
    local code = C.holdfast_remove(name, #name)
    rawset(shared, name, nil)
    if code == OK then
        return true
    end
    if code == NOT_FOUND then
        return nil, "not found"
    end
    return nil, sentence(code)
end


-- shdict.shared.NAME: nil when there is no such dictionary, as in ngx.shared. Whatever else is wrong is an error,
-- because nobody looks for the reason of a nil.
_M.shared = setmetatable(shared, {
    __index = function (_, name)
        if type(name) ~= "string" then
            return nil
        end
        local dict, err, code = attach(name)
        if not dict and code ~= NOT_FOUND then
            error(err, 2)
        end
        return dict
    end,
})


return _M
