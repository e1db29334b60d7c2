-- Opens, finds and removes shared dictionaries by name. Manual: docs/resty.shdict.md.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local registry = require "resty.holdfast.dictionary.registry"
local tables = require "resty.holdfast.dictionary.tables"

registry.fill()

local C, attach, describe, quote = core.C, registry.attach, core.describe, core.quote
local enter, grow, leave, unpack_keys = core.enter, core.grow, core.leave, core.unpack_keys
local band, error, ffi_new, floor, format, next = bit.band, error, ffi.new, math.floor, string.format, next
local rawset, setmetatable, tonumber, tostring, type = rawset, setmetatable, tonumber, tostring, type
local remember, sentence, shared = registry.remember, core.sentence, registry.shared

local BUFFER, NOT_FOUND, OK = core.BUFFER, core.NOT_FOUND, core.OK

local MUTEXES = { futex = core.MUTEX_FUTEX, spin = core.MUTEX_SPIN, file = core.MUTEX_FILE }

local handle_ptr = ffi_new("holdfast_dict *[1]")
local size_type = ffi.typeof("uint64_t[1]")

local _M = { _VERSION = core.version, find = registry.find }


local function check_option(name, given, expected, accepted, level)
    if type(given) ~= expected then
        error(format('bad option "%s" to open: expected %s, got %s', name, accepted, type(given)), level or 5)
    end
end


-- Returns the bytes of a size, or nil and the reason if it is not valid.
local function read_bytes(name, size)
    if type(size) == "number" then
        size = format("%.17g", size)
    else
        check_option(name, size, "string", 'a number of bytes or a string such as "100k", "1m", "2g"', 6)
    end
    local bytes = size_type()
    local code = C.holdfast_parse_size(size, #size, bytes)
    if code ~= OK then
        return nil, sentence(code)
    end
    return bytes[0]
end


local function read_size(size)
    local bytes, err = read_bytes("size", size)
    return bytes, err
end


local function read_largest(size)
    local bytes, err = read_bytes("largest", size)
    if not bytes then
        return nil, (err:gsub("^bad size", "bad largest value"))
    end
    return bytes
end


local MODES = 'an octal string from "0600" to "0666" (4 = read, 2 = write; the owner has 6), or its number'


-- Returns the permission bits. Returns nil and the reason for a bad text, because size and mode may come from a
-- configuration.
local function read_mode(mode)
    local bits = mode
    if type(mode) == "string" then
        bits = mode:find("^0?[0-7][0-7][0-7]$") and tonumber(mode, 8)
    else
        check_option("mode", mode, "number", MODES)
    end
    -- From 0600 to 0666, without execute bits.
    if not bits or not (bits >= 384 and bits <= 438) or bits ~= floor(bits) or band(bits, 73) ~= 0 then
        return nil, format("bad mode %s: expected %s", describe(mode), MODES)
    end
    return bits
end


local function read_mutex(mutex)
    check_option("mutex", mutex, "string", '"futex", "spin" or "file"')
    local number = MUTEXES[mutex]
    if not number then
        return nil, format('bad mutex "%s": expected "futex", "spin" or "file"', mutex)
    end
    return number
end


local function read_persist(persist)
    check_option("persist", persist, "boolean", "a boolean")
    return persist and core.PERSISTENT or core.TEMPORARY
end


-- Returns the name. If it contains a zero byte, at which the library would stop reading, returns nil and a message.
local function read_cluster(name)
    check_option("cluster", name, "string", "a string")
    if name:find("%z") then
        return nil, format("bad cluster %s: it contains a zero byte", quote(name))
    end
    return name
end


-- Reads the option `tables`. It concerns only this Lua state, because the library does not know about tables.
local function read_tables(given)
    check_option("tables", given, "boolean", "a boolean")
    if given and tables.missing then
        return nil, tables.missing
    end
    return true
end


local function read_versions(given)
    check_option("versions", given, "boolean", "a boolean")
    return true
end


local READERS = { size = read_size, mode = read_mode, mutex = read_mutex, persist = read_persist, tables = read_tables,
                  cluster = read_cluster, largest = read_largest, versions = read_versions }

-- The options that the library's struct does not have.
local LUA_ONLY = { tables = true, versions = true }


-- Returns the options for the library, or nil and the reason if a value is not valid. The returned options point to the
-- cluster's name, so `opts` must outlive them.
local function read_options(opts)
    local options = ffi_new("holdfast_options")
    local name, given = next(opts)  -- not with pairs(): see lock/options.lua
    while name ~= nil do
        local reader = READERS[name]
        if not reader then
            error(format('unknown option "%s" to open: expected cluster, largest, mode, mutex, persist, size, '
                         .. "tables or versions", tostring(name)), 3)
        end
        local value, err = reader(given)
        if not value then
            return nil, err
        end
        if not LUA_ONLY[name] then
            options[name] = value
        end
        name, given = next(opts, name)
    end
    return options
end


-- Opens a dictionary, and creates it if it does not exist.
--
-- name: a string of at most 250 bytes without zero bytes.
-- opts: size (bytes, or a string such as "100k"; default: the existing or declared size, otherwise "8m"), largest (the
-- maximum size of a value in bytes; the default depends on the size), mutex ("futex", "spin" or "file"; default
-- "futex"), persist (nil, true or false; default nil), mode (default "0600"), cluster (a name; default: no cluster),
-- tables (default false), versions (default false).
--
-- Returns the dictionary, which is always the same table for the same name. On failure, returns nil and a message.
-- Raises an error for an argument of the wrong type and for an unknown option. Does not yield.
function _M.open(name, opts)
    if type(name) ~= "string" then
        error("bad name to open: expected a string, got " .. type(name), 2)
    end
    if opts ~= nil and type(opts) ~= "table" then
        error("bad options to open: expected a table, got " .. type(opts), 2)
    end
    opts = opts or {}
    local options, err = read_options(opts)
    if not options then
        return nil, err
    end
    local code
    if opts.versions then
        code = C.holdfast_open_with_versions(name, #name, options, handle_ptr)
    else
        code = C.holdfast_open(name, #name, options, handle_ptr)
    end
    if code ~= OK then
        return nil, sentence(code)
    end
    local dict
    dict, err = remember(name, handle_ptr[0])
    if not dict then
        return nil, err
    end
    if opts.tables ~= nil then
        dict.tables = opts.tables
    end
    return dict
end


-- Removes a dictionary and its contents, even for the processes that have it open. Returns true, or nil and "not found"
-- or a message. Does not yield.
function _M.remove(name)
    if type(name) ~= "string" then
        error("bad name to remove: expected a string, got " .. type(name), 2)
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


-- Returns a sorted array of the names of all dictionaries in the runtime directory, or nil and a message. Opens no
-- dictionary. Does not yield.
function _M.list()
    local frame = enter()
    local code = C.holdfast_list(frame.value, frame.count)
    while code == BUFFER do
        grow(frame)
        code = C.holdfast_list(frame.value, frame.count)
    end
    local names = code == OK and unpack_keys(frame)
    leave()
    if not names then
        return nil, sentence(code)
    end
    return names
end


-- shdict.shared.NAME is the dictionary, or nil if it does not exist, as in ngx.shared. Any other failure raises an
-- error, because nil would hide the reason. Does not yield.
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
