-- The zones that nginx.conf declares by lua_shared_dict, for a lock that names one.

local core = require "resty.holdfast.core"
local warn_once = require("resty.holdfast.program").warn_once

local C, INVALID, NOT_FOUND, OK, quote, sentence =
    core.C, core.INVALID, core.NOT_FOUND, core.OK, core.quote, core.sentence
local format, pcall, rawget, require, type = string.format, pcall, rawget, require, type

local DEFAULT_SIZE = 1024 * 1024
local PAGE = 4096

local ngx = rawget(_G, "ngx") or package.loaded.ngx

local _M = {}


local function index(from, name)
    return from[name]
end


-- A stand-in for nginx may raise for a missing field.
local function field(from, name)
    local known, value = pcall(index, from, name)
    return known and value or nil
end


-- The zone of ngx.shared under the name, if this is nginx.
function _M.find(name)
    local zones = type(ngx) == "table" and field(ngx, "shared")
    return type(zones) == "table" and field(zones, name) or nil
end


-- The declared bytes of a zone. nginx's smallest size, 12k, is ours, too. lua-resty-core provides the method; a
-- stand-in may lack it, or return nothing.
function _M.size(zone)
    local known, bytes = pcall(function () return zone:capacity() end)
    return known and type(bytes) == "number" and bytes > 0 and bytes or DEFAULT_SIZE
end


-- Whether this is init_by_lua, before nginx forks its workers, often as another user than theirs.
function _M.before_workers()
    local get_phase = field(ngx, "get_phase")
    return type(get_phase) == "function" and get_phase() == "init"
end


-- The process id of the master, if this is a worker of one.
local function master()
    local known, process = pcall(require, "ngx.process")
    if not known or type(process) ~= "table" or not process.get_master_pid or process.type() == "single" then
        return nil
    end
    return process.get_master_pid()
end


-- Keeps the values of this worker's dictionaries as long as nginx keeps those of its zones: until the master ends.
-- INVALID: it has ended already. NOT_FOUND: another process did it before and was killed.
function _M.keep_values()
    local asked, pid = pcall(master)
    if not asked or not pid then
        return
    end
    local code = C.holdfast_keep_for(pid)
    if code == NOT_FOUND then
        warn_once("values of dictionaries may be lost: " .. sentence(code))
    elseif code ~= OK and code ~= INVALID then
        warn_once("values of dictionaries may be lost when nginx reloads: " .. sentence(code))
    end
end


-- Logs a changed size, which counts only when the dictionary is made.
function _M.compare_sizes(name, declared, found)
    local log, level = field(ngx, "log"), field(ngx, "WARN")
    if type(log) == "function" and level and found ~= declared and found ~= declared + -declared % PAGE then
        log(level, format("holdfast: dictionary %s is there with %d bytes, not the %d of lua_shared_dict; a reload "
                          .. "keeps the old size: restart nginx, and end other programs that use its runtime directory",
                          quote(name), found, declared))
    end
end


return _M
