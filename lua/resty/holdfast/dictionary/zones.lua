-- The part of the registry that only nginx needs. Finds the zones that lua_shared_dict declares in nginx.conf, because
-- a lock's dictionary may have the name of a zone. Finds the master process, and writes the notice in nginx's log.
-- Loaded only if `ngx` exists.

local core = require "resty.holdfast.core"
local program = require "resty.holdfast.program"

local C, quote, sentence, warn_once = core.C, core.quote, core.sentence, program.warn_once
local ffi_str = require("ffi").string
local format, pcall, require, type = string.format, pcall, require, type

local INVALID, NOT_FOUND, OK = core.INVALID, core.NOT_FOUND, core.OK

local DEFAULT_SIZE = 1024 * 1024
local PAGE = 4096

local ngx = rawget(_G, "ngx") or package.loaded.ngx

local _M = {}


local function index(from, name)
    return from[name]
end


-- Reads a field. A stand-in for nginx may raise an error for a missing field.
local function field(from, name)
    local known, value = pcall(index, from, name)
    return known and value or nil
end


-- Returns the zone of ngx.shared with this name, if the process is nginx.
function _M.find(name)
    local zones = field(ngx, "shared")
    return type(zones) == "table" and field(zones, name) or nil
end


-- Returns the declared size of a zone in bytes. The minimum size is 12k, both in nginx and here. lua-resty-core
-- provides the method capacity. In a stand-in for nginx, the method may be missing or return nothing.
function _M.size_of(zone)
    local known, bytes = pcall(function () return zone:capacity() end)
    return known and type(bytes) == "number" and bytes > 0 and bytes or DEFAULT_SIZE
end


-- Returns whether this is init_by_lua, where nginx has not forked its workers yet, and often runs as a different user.
local function is_before_workers()
    local get_phase = field(ngx, "get_phase")
    return type(get_phase) == "function" and get_phase() == "init"
end
_M.is_before_workers = is_before_workers


-- Returns the kind of this process, such as "worker", and the module ngx.process. Returns nothing without this module.
local function process_type()
    local known, process = pcall(require, "ngx.process")
    if known and type(process) == "table" then
        return process.type(), process
    end
end


-- Returns the process id of the master, if this process is a worker.
local function master()
    local kind, process = process_type()
    if not kind or not process.get_master_pid or kind == "single" then
        return nil
    end
    return process.get_master_pid()
end


-- Keeps the values of this worker's dictionaries until the master exits, as nginx keeps the values of its zones. The
-- code INVALID means that the master has exited. NOT_FOUND means that the process that kept the values was killed.
function _M.keep_values()
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
function _M.compare_sizes(name, declared, found)
    local log, level = field(ngx, "log"), field(ngx, "WARN")
    if type(log) == "function" and level and found ~= declared and found ~= declared + -declared % PAGE then
        log(level, format("holdfast: dictionary %s exists with %d bytes, but lua_shared_dict declares %d: a "
                          .. "reload keeps the old size; restart nginx, and end other programs that use its "
                          .. "runtime directory",
                          quote(name), found, declared))
    end
end


-- --- the notice in nginx's log ---

-- The phases whose Lua state lasts for more than one request.
local LASTING = { exit_worker = true, init = true, init_worker = true, timer = true }


-- Returns whether this Lua state may last for only one request, as with lua_code_cache off. A worker runs init_by_lua
-- only in such a state; for other states, the master runs init_by_lua.
local function is_brief()
    if is_before_workers() then
        return process_type() == "worker"
    end
    return not LASTING[ngx.get_phase()]
end


local is_noticed = not program.is_nginx or is_brief()


-- Returns whether this process writes the notice. In init_by_lua, the master writes the notice; later, worker 0 does.
local function is_first_process()
    return is_before_workers() or ngx.worker.id() == 0
end


local function write_notice(name)
    if is_first_process() then
        ngx.log(ngx.NOTICE, format("holdfast %s: opened dictionary %s in %s", core.version, quote(name),
                                   ffi_str(C.holdfast_directory())))
    end
end


-- Logs the version, the first dictionary and the runtime directory, once for each start and reload. Workers inherit
-- `is_noticed` from a master that has opened a dictionary. Logs nothing in a Lua state that lasts for one request.
function _M.notice(name)
    if not is_noticed then
        is_noticed = true
        pcall(write_notice, name)
    end
end


return _M
