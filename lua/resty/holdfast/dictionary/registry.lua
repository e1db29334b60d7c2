-- The dictionaries that this Lua state has seen, by name, and how a lock finds its own.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local find_gate = require("resty.holdfast.dictionary.gate").find
local methods = require("resty.holdfast.dictionary.methods").metatable
local nginx_zones = require "resty.holdfast.dictionary.nginx_zones"

local C, quote, sentence = core.C, core.quote, core.sentence
local error, format, pcall, rawget = error, string.format, pcall, rawget
local rawset, setmetatable, tonumber, type = rawset, setmetatable, tonumber, type
local ffi_istype, ffi_new = ffi.istype, ffi.new

local INVALID, MISMATCH, NOT_FOUND, OK = core.INVALID, core.MISMATCH, core.NOT_FOUND, core.OK

local handle_type = ffi.typeof("holdfast_dict *")
local handle_ptr = ffi_new("holdfast_dict *[1]")

local _M = {}

-- In nginx, times of values count from the loop's own time, like those of ngx.shared and of timers; elsewhere from the
-- system's. Absent outside of nginx; another clock before nginx 1.13.10, which the library reports.
pcall(function ()
    C.holdfast_follow_clock(ffi.C.holdfast_nginx_msec)
end)

-- Every dictionary that this Lua state has seen, under its name: one table per dictionary.
local shared = {}
-- Dictionaries that their first use opens; see `unopened`.
local promised = {}


-- The dictionary; nil and the reason if it has a gate that cannot be loaded.
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


local function is_dictionary(given)
    return type(given) == "table" and ffi_istype(handle_type, rawget(given, 1))
end


-- The dictionary that stands for a lua_shared_dict: a new one, or the one that is in use, whatever its size.
local function open_declared(name, zone)
    local options = ffi_new("holdfast_options")
    options.size, options.persist = nginx_zones.size(zone), core.TEMPORARY  -- the life of nginx, as its own zones
    local code = C.holdfast_open(name, #name, options, handle_ptr)
    if code == OK then
        return remember(name, handle_ptr[0])
    end
    if code ~= MISMATCH then
        return nil, sentence(code)
    end
    local dict, err = attach(name)
    if dict then
        nginx_zones.compare_sizes(name, nginx_zones.size(zone), tonumber(C.holdfast_capacity(dict[1])))
    end
    return dict, err
end


-- The metatable of a dictionary that init_by_lua must not open: a dictionary that root opens is closed to workers of
-- another user, and the master would be in the dictionary's world for nothing. Its first use opens it.
local unopened = {}

function unopened.__index(dict, field)
    local name = rawget(dict, "name")
    local zone = nginx_zones.find(name)
    local opened, err = zone, nil
    if not is_dictionary(zone) then
        opened, err = open_declared(name, rawget(dict, "zone"))
    end
    if not opened then
        error(format("holdfast: cannot open dictionary %s: %s", quote(name), err), 0)
    end
    if zone == dict then  -- installed in its place
        nginx_zones.keep_values()
    end
    if opened ~= dict then  -- ngx.shared has another by now, or it is open already
        promised[name] = nil
        rawset(dict, 1, opened[1])
        setmetatable(dict, methods)
    end
    return dict[field]
end


-- One table per name: each user of it sees it opened.
local function promise(name, zone)
    local dict = promised[name]
    if not dict then
        dict = setmetatable({ name = name, zone = zone }, unopened)
        promised[name] = dict
    end
    return dict
end


local function find_by_name(name)
    local zone = nginx_zones.find(name)
    if is_dictionary(zone) then
        return zone
    end
    local dict = rawget(shared, name)
    if dict then
        return dict
    end
    if zone and promised[name] == zone then
        zone = rawget(zone, "zone")  -- it is in ngx.shared itself
    end
    if zone and nginx_zones.before_workers() then
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


-- The dictionary of a lock: by its name, or itself. Otherwise nil and the reason.
function _M.find(name)
    if type(name) == "string" then
        return find_by_name(name)
    end
    if is_dictionary(name) then
        return name
    end
    return nil, "dictionary not found"
end


_M.attach, _M.remember, _M.shared = attach, remember, shared

return _M
