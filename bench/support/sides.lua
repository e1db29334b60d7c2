-- What is compared: each side is a lock module, the name of the dictionary its locks are in, and a function that gives
-- a dictionary (bench/support/dictionaries.lua) by its name.

local sizes = require "bench.support.dictionaries"

local _M = {}


local function our_dictionary(name)
    return assert(require("resty.shdict").open(name, { size = sizes[name] }))
end


function _M.holdfast()
    return {
        name = "holdfast",
        lock = require "resty.lock",
        locks = "bench_locks",
        dict = our_dictionary,
    }
end


-- Two that the operating system has: they have no dictionaries, so processes meet in ours.
function _M.robust_mutex(folder)
    return {
        name = "robust mutex",
        lock = require "bench.support.robust_mutex",
        locks = folder .. "/robust_mutex",
        dict = our_dictionary,
    }
end


function _M.flock(folder)
    return {
        name = "flock",
        lock = require "bench.support.file_lock",
        locks = folder .. "/flock",
        dict = our_dictionary,
    }
end


-- The one that the options name, or else the host's first.
function _M.chosen(host, options)
    return options.side and _M[options.side](options.folder) or host.sides[1]
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
