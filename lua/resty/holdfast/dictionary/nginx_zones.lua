-- What nginx.conf declares by lua_shared_dict: which dictionary a lock gets that is asked for by such a name.

local quote = require("resty.holdfast.core").quote

local format, pcall, rawget, type = string.format, pcall, rawget, type

local DEFAULT_SIZE = 1024 * 1024
local PAGE = 4096

local ngx = rawget(_G, "ngx") or package.loaded.ngx

local _M = {}


local function index(from, name)
    return from[name]
end


-- What stands in for nginx may raise for what it does not have.
local function field(from, name)
    local known, value = pcall(index, from, name)
    return known and value or nil
end


-- What ngx.shared has under the name, if this is nginx and there is something.
function _M.find(name)
    local zones = type(ngx) == "table" and field(ngx, "shared")
    return type(zones) == "table" and field(zones, name) or nil
end


-- Bytes that are declared for it. The smallest with which nginx starts, 12k, is our smallest, too. lua-resty-core gives
-- it that method; what stands in for a dictionary may have none, or one that knows nothing.
function _M.size(zone)
    local known, bytes = pcall(function () return zone:capacity() end)
    return known and type(bytes) == "number" and bytes > 0 and bytes or DEFAULT_SIZE
end


-- Whether this is init_by_lua, which runs before nginx has forked its workers, and often as another user than they.
function _M.before_workers()
    local get_phase = field(ngx, "get_phase")
    return type(get_phase) == "function" and get_phase() == "init"
end


-- A changed size counts only when the dictionary is made, which is worth a line in the log.
function _M.compare_sizes(name, declared, found)
    local log, level = field(ngx, "log"), field(ngx, "WARN")
    if type(log) == "function" and level and found ~= declared and found ~= declared + -declared % PAGE then
        log(level, format("holdfast: dictionary %s is there with %d bytes, not the %d of lua_shared_dict; it gets a "
                          .. "new size when no process has used it for a moment", quote(name), found, declared))
    end
end


return _M
