-- Keeps the dictionaries that this Lua state has opened, indexed by name. Contains the metatable of all dictionaries,
-- and finds the dictionary of a lock object.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local find_gate = require("resty.holdfast.dictionary.gate").find
local later = require "resty.holdfast.later"
local program = require "resty.holdfast.program"

local C, quote, sentence, warn_once = core.C, core.quote, core.sentence, program.warn_once
local error, format, ipairs, pairs, pcall, rawget = error, string.format, ipairs, pairs, pcall, rawget
local rawset, require, setmetatable, tonumber, type = rawset, require, setmetatable, tonumber, type
local ffi_istype, ffi_new, ffi_str = ffi.istype, ffi.new, ffi.string

local INVALID, MISMATCH, NOT_FOUND, OK = core.INVALID, core.MISMATCH, core.NOT_FOUND, core.OK

local handle_type = ffi.typeof("holdfast_dict *")
local handle_ptr = ffi_new("holdfast_dict *[1]")

local _M = {}

-- `loop_ms` is the clock of nginx's event loop in milliseconds, or nil. In nginx, values expire by this clock, like the
-- values of ngx.shared and like timers. In other programs, they expire by the system's clock. The symbol below exists
-- only in nginx. Before nginx 1.13.10, it is a different clock, which the library refuses.
pcall(function ()
    if C.holdfast_follow_clock(ffi.C.holdfast_nginx_msec) == OK then
        _M.loop_ms = ffi.cast("const volatile int64_t *", ffi.C.holdfast_nginx_msec)
    end
end)

-- --- methods ---

local PARTS = { "values", "versions", "admin" }

-- The metatable of all dictionaries, with their methods. Like the metatable of ngx.shared.DICT, it is its own __index,
-- because libraries patch it.
local methods = {}
methods.__index = methods

local is_filled = false


-- Adds the methods, but keeps methods that a library has patched.
function _M.fill()
    if is_filled then
        return
    end
    for _, part in ipairs(PARTS) do
        for name, method in pairs(require("resty.holdfast.dictionary." .. part)) do
            if rawget(methods, name) == nil then
                methods[name] = method
            end
        end
    end
    is_filled = true
    setmetatable(methods, nil)
end


-- In a Lua state that lasts for one request, the methods are added at their first use, because a program that uses only
-- locks does not call them.
if not later.call(_M.fill) then
    setmetatable(methods, { __index = function (_, name)
        _M.fill()
        return methods[name]
    end })
end


-- --- zones that lua_shared_dict declares in nginx.conf, for locks whose dictionary has the name of a zone ---

local DEFAULT_SIZE = 1024 * 1024
local PAGE = 4096

local ngx = rawget(_G, "ngx") or package.loaded.ngx


local function index(from, name)
    return from[name]
end


-- Reads a field. A stand-in for nginx may raise an error for a missing field.
local function field(from, name)
    local known, value = pcall(index, from, name)
    return known and value or nil
end


-- Returns the zone of ngx.shared with this name, if the process is nginx.
local function find_zone(name)
    local zones = type(ngx) == "table" and field(ngx, "shared")
    return type(zones) == "table" and field(zones, name) or nil
end


-- Returns the declared size of a zone in bytes. The minimum size is 12k, both in nginx and here. lua-resty-core
-- provides the method; a stand-in for nginx may lack it, or return nothing.
local function size_of(zone)
    local known, bytes = pcall(function () return zone:capacity() end)
    return known and type(bytes) == "number" and bytes > 0 and bytes or DEFAULT_SIZE
end


-- Returns the size that nginx.conf declares for a dictionary, or nil if it declares none.
function _M.declared_size(name)
    local zone = find_zone(name)
    return zone and not ffi_istype(handle_type, rawget(zone, 1)) and size_of(zone) or nil
end


-- Returns whether this is init_by_lua, where nginx has not forked its workers yet, and often runs as a different user.
local function is_before_workers()
    local get_phase = field(ngx, "get_phase")
    return type(get_phase) == "function" and get_phase() == "init"
end


-- Returns the process id of the master, if this process is a worker.
local function master()
    local known, process = pcall(require, "ngx.process")
    if not known or type(process) ~= "table" or not process.get_master_pid or process.type() == "single" then
        return nil
    end
    return process.get_master_pid()
end


-- Keeps the values of this worker's dictionaries until the master exits, as nginx keeps the values of its zones. The
-- code INVALID means that the master has exited. NOT_FOUND means that the process that kept the values was killed.
local function keep_values()
    local asked, pid = pcall(master)
    if not asked or not pid then
        return
    end
    local code = C.holdfast_keep_for(pid)
    if code == NOT_FOUND then
        warn_once("dictionary values may be lost: " .. sentence(code))
    elseif code ~= OK and code ~= INVALID then
        warn_once("dictionary values may be lost when nginx reloads: " .. sentence(code))
    end
end


-- Logs a message if lua_shared_dict declares a different size. The declared size counts only when the dictionary is
-- created.
local function compare_sizes(name, declared, found)
    local log, level = field(ngx, "log"), field(ngx, "WARN")
    if type(log) == "function" and level and found ~= declared and found ~= declared + -declared % PAGE then
        log(level, format("holdfast: dictionary %s exists with %d bytes, but lua_shared_dict declares %d: a "
                          .. "reload keeps the old size; restart nginx, and end other programs that use its "
                          .. "runtime directory",
                          quote(name), found, declared))
    end
end


-- --- the notice in nginx's log ---

-- Returns whether this process writes the notice. In init_by_lua, this is the master, otherwise worker 0.
local function is_first_process()
    return is_before_workers() or ngx.worker.id() == 0
end


local function write_notice(name)
    if is_first_process() then
        ngx.log(ngx.NOTICE, format("holdfast %s: opened dictionary %s in %s", core.version, quote(name),
                                   ffi_str(C.holdfast_directory())))
    end
end


local is_noticed = not program.is_nginx


-- Logs the version, the first dictionary and the runtime directory, once for each start and reload. Workers inherit
-- `is_noticed` from a master that has opened a dictionary. Logs nothing in a Lua state that lasts for one request.
local function notice(name)
    if not is_noticed then
        is_noticed = true
        later.call(function () pcall(write_notice, name) end)
    end
end


-- --- dictionaries by name ---

-- All dictionaries that this Lua state has opened, indexed by name. Each dictionary has one table.
local shared = {}
-- The dictionaries that are opened at their first use; see `unopened`.
local promised = {}


-- Returns the dictionary of the handle, or nil and the reason if its gate cannot be loaded.
local function remember(name, handle)
    local dict = rawget(shared, name)
    if not dict then
        local loaded, err = pcall(find_gate, handle)
        if not loaded then
            return nil, err
        end
        dict = promised[name] or { name = name }
        promised[name] = nil
        dict.zone = nil
        dict[1] = handle
        setmetatable(dict, methods)
        rawset(shared, name, dict)
        notice(name)
    end
    return dict
end


-- Returns the dictionary, or nil, the reason and the code.
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


local function is_dictionary(given)
    return type(given) == "table" and ffi_istype(handle_type, rawget(given, 1))
end


-- Opens the dictionary for a lua_shared_dict. Creates it, or uses an existing dictionary of any size.
local function open_declared(name, zone)
    local options = ffi_new("holdfast_options")
    options.size, options.persist = size_of(zone), core.TEMPORARY  -- lasts as long as nginx, like nginx's own zones
    local code = C.holdfast_open(name, #name, options, handle_ptr)
    if code == OK then
        return remember(name, handle_ptr[0])
    end
    if code ~= MISMATCH then
        return nil, sentence(code)
    end
    local dict, err = attach(name)
    if dict then
        compare_sizes(name, size_of(zone), tonumber(C.holdfast_capacity(dict[1])))
    end
    return dict, err
end


-- The metatable of a dictionary that init_by_lua must not open. Workers that run as a different user could not use a
-- dictionary that root has opened, and the master would enter the runtime directory needlessly. The first use opens the
-- dictionary.
local unopened = {}

function unopened.__index(dict, member)
    local name = rawget(dict, "name")
    local zone = find_zone(name)
    local opened, err = zone, nil
    if not is_dictionary(zone) then
        opened, err = open_declared(name, rawget(dict, "zone"))
    end
    if not opened then
        error(format("holdfast: cannot open dictionary %s: %s", quote(name), err), 0)
    end
    if zone == dict then  -- the dictionary was installed instead of a zone
        keep_values()
    end
    if opened ~= dict then  -- ngx.shared has a different dictionary now, or this one is open
        promised[name] = nil
        rawset(dict, 1, opened[1])
        setmetatable(dict, methods)
    end
    return dict[member]
end


-- Returns the dictionary that will be opened at its first use. There is one table per name, so it is opened only once
-- for all objects.
local function promise(name, zone)
    local dict = promised[name]
    if not dict then
        dict = setmetatable({ name = name, zone = zone }, unopened)
        promised[name] = dict
    end
    return dict
end


local function find_by_name(name)
    local zone = find_zone(name)
    if is_dictionary(zone) then
        return zone
    end
    local dict = rawget(shared, name)
    if dict then
        return dict
    end
    if zone and promised[name] == zone then
        zone = rawget(zone, "zone")  -- the dictionary itself is in ngx.shared
    end
    if zone and is_before_workers() then
        return promise(name, zone)
    end
    if zone then
        return open_declared(name, zone)
    end
    local err, code
    dict, err, code = attach(name)
    if code == NOT_FOUND then
        return nil, "dictionary not found"
    end
    return dict, code == INVALID and "dictionary not found: " .. err or err
end


-- Returns the dictionary of a lock object, which is given by name or as a table. On failure, returns nil and the
-- reason.
function _M.find(name)
    if type(name) == "string" then
        return find_by_name(name)
    end
    if is_dictionary(name) then
        return name
    end
    return nil, "dictionary not found"
end


_M.attach, _M.is_before_workers, _M.keep_values = attach, is_before_workers, keep_values
_M.remember, _M.shared = remember, shared

return _M
