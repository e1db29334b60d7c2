-- What is compared: each side is a lock module, the name of the dictionary its locks are in, and a function that gives
-- a dictionary (bench/support/dictionaries.lua) by its name.

local sizes = require "bench.support.dictionaries"

local _M = {}


function _M.holdfast()
    local shdict = require "resty.shdict"
    return {
        name = "holdfast",
        lock = require "resty.lock",
        locks = "bench_locks",
        dict = function (name)
            return assert(shdict.open(name, { size = sizes[name] }))
        end,
    }
end


-- lua-resty-lock itself if it is installed. Its module has the name of ours, which is found first.
local function find_resty_lock()
    local folders = { os.getenv("RESTY_LOCK_DIR") or "", "/usr/share/lua/5.1", "/usr/local/share/lua/5.1",
                      "/usr/local/openresty/lualib" }
    for _, folder in ipairs(folders) do
        local path = folder .. "/resty/lock.lua"
        local file = folder ~= "" and io.open(path, "rb")
        local text = file and file:read("*a") or ""
        if file then
            file:close()
        end
        if text ~= "" and not text:find("holdfast", 1, true) then
            return assert(loadfile(path))()
        end
    end
end


-- Only inside nginx.
function _M.nginx()
    local shared = ngx.shared  -- luacheck: ignore 113
    local lock = find_resty_lock()
    local label = lock and "lua-resty-lock " .. lock._VERSION or "a lock in the manner of lua-resty-lock 0.09"
    return {
        name = "ngx.shared",
        label = label,
        lock = lock or require "bench.support.peer_lock",
        locks = "bench_locks",
        dict = function (name)
            return assert(shared[name], name)
        end,
    }
end


return _M
