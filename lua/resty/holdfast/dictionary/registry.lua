-- Keeps the dictionaries that this Lua state has opened, indexed by name. Contains the metatable of all dictionaries,
-- and finds the dictionary of a lock object.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local find_gate = require("resty.holdfast.dictionary.gate").find
local later = require "resty.holdfast.later"

local C, quote, sentence = core.C, core.quote, core.sentence
local error, format, ipairs, modules, pairs, pcall = error, string.format, ipairs, package.loaded, pairs, pcall
local rawget, rawset, require, setmetatable = rawget, rawset, require, setmetatable
local tonumber, type = tonumber, type
local ffi_istype, ffi_new = ffi.istype, ffi.new

local INVALID, MISMATCH, NOT_FOUND, OK = core.INVALID, core.MISMATCH, core.NOT_FOUND, core.OK

local handle_type = ffi.typeof("holdfast_dict *")
local handle_ptr = ffi_new("holdfast_dict *[1]")

local ngx = rawget(_G, "ngx") or modules.ngx
local zones = type(ngx) == "table" and require "resty.holdfast.dictionary.zones"

local _M = {}

-- The host of an event loop is loaded now, because its adapter may load more modules of the loop, and because task_ids
-- tells coroutines apart only after that.
if rawget(_G, "vim") or modules.copas or modules.cqueues or modules.luv then
    require "resty.holdfast.host"
end

-- `loop_ms` is the clock of nginx's event loop in milliseconds, or nil. In nginx, values expire by this clock, like the
-- values of ngx.shared and like timers. In other programs, they expire by the system's clock. The symbol below exists
-- only in nginx. Before nginx 1.13.10, it is a different clock, which the library refuses.
local function follow_clock()
    if C.holdfast_follow_clock(ffi.C.holdfast_nginx_msec) == OK then
        _M.loop_ms = ffi.cast("const volatile int64_t *", ffi.C.holdfast_nginx_msec)
    end
end

if ngx then
    pcall(follow_clock)
end

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
        for name, method in pairs(later.load("resty.holdfast.dictionary." .. part)) do
            if rawget(methods, name) == nil then
                methods[name] = method
            end
        end
    end
    is_filled = true
    setmetatable(methods, nil)
end


-- The methods are added at their first use, because a program that uses only locks does not call them.
setmetatable(methods, { __index = function (_, name)
    _M.fill()
    return methods[name]
end })


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
        if zones then
            zones.notice(name)
        end
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


-- Returns the zone of ngx.shared with this name, or nil.
local function find_zone(name)
    return zones and zones.find(name)
end


-- Returns the size that nginx.conf declares for a dictionary, or nil if it declares none.
function _M.declared_size(name)
    local zone = find_zone(name)
    return zone and not is_dictionary(zone) and zones.size_of(zone) or nil
end


-- Opens the dictionary for a lua_shared_dict. Creates it, or uses an existing dictionary of any size.
local function open_declared(name, zone)
    local options = ffi_new("holdfast_options")
    options.size = zones.size_of(zone)
    options.persist = core.TEMPORARY  -- lasts as long as nginx, like nginx's own zones
    local code = C.holdfast_open(name, #name, options, handle_ptr)
    if code == OK then
        return remember(name, handle_ptr[0])
    end
    if code ~= MISMATCH then
        return nil, sentence(code)
    end
    local dict, err = attach(name)
    if dict then
        zones.compare_sizes(name, zones.size_of(zone), tonumber(C.holdfast_capacity(dict[1])))
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
        zones.keep_values()
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
    if zone and zones.is_before_workers() then
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


local function no()
    return false
end

_M.attach, _M.remember, _M.shared = attach, remember, shared
_M.is_before_workers = zones and zones.is_before_workers or no
_M.keep_values = zones and zones.keep_values or no

return _M
