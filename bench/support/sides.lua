-- The sides of the comparisons. Each has a lock module, the name of the dictionary of its locks, and a function that
-- returns a dictionary by name.

-- The name of the default dictionary of locks.
local _M = { LOCKS = "bench_locks" }

-- The sizes of the dictionaries, the same on both sides. None of the loops fills a dictionary: ngx.shared takes about
-- 130 bytes for a number under a key of 9 bytes, and 2,048 bytes for a string of 1,024 bytes.
_M.SIZES = {
    bench_locks = "1m",
    bench_crowd = "16m",     -- 10,000 locks
    bench_sync = "100k", -- for processes that wait for each other
    bench_hot = "1m",        -- few keys
    bench_100k = "16m",      -- 100,000 numbers
    bench_keys = "16m", -- 100,000 other numbers, for listing keys
    bench_few = "1m", -- 1,000 other numbers, for listing keys
    bench_1m = "192m",       -- 1,000,000 numbers
    bench_strings = "32m",   -- 10,000 strings of 1 KB
    bench_fill = "64m",      -- for measuring a full dictionary
    bench_ratio_5 = "836k",  -- for hit ratios: 5, 10 and 25 % of 100,000 values of 100 bytes
    bench_ratio_10 = "1664k",
    bench_ratio_25 = "4260k",
    bench_words_5 = "20k",   -- 5, 10 and 25 % of 1,000 values of 200 bytes
    bench_words_10 = "32k",
    bench_words_25 = "72k",
    bench_cache = "64m",     -- 100,000 small tables
    bench_ipc = "1m",        -- messages of other caches
    bench_events = "32m",    -- 20,000 events
}


local function our_dictionary(name)
    return assert(require("resty.shdict").open(name, { size = _M.SIZES[name], persist = false }))
end


function _M.holdfast()
    return {
        name = "holdfast",
        lock = require "resty.lock",
        locks = _M.LOCKS,
        dict = our_dictionary,
    }
end


-- Returns the side whose dictionaries have versions.
function _M.with_versions()
    return {
        name = "with versions",
        lock = require "resty.lock",
        locks = _M.LOCKS,
        dict = function (name)
            return assert(require("resty.shdict").open(name, { size = _M.SIZES[name], persist = false,
                                                               versions = true }))
        end,
    }
end


-- Returns the side of a lock of the operating system. This side has no dictionaries, so its processes use a dictionary
-- of holdfast to wait for each other.
local function of_the_system(name, lock, folder)
    return {
        name = name,
        system = true,
        lock = require("bench.support.system_locks")[lock],
        locks = folder .. "/" .. lock,
        dict = our_dictionary,
    }
end


function _M.robust_mutex(folder)
    return of_the_system("robust mutex", "robust_mutex", folder)
end


function _M.flock(folder)
    return of_the_system("flock", "flock", folder)
end


-- Returns a lock whose exptime and timeout are `patience` seconds (default: longer than any run).
function _M.new_lock(side, patience, dictionary)
    patience = patience or 120
    return assert(side.lock:new(dictionary or side.locks, { exptime = patience, timeout = patience }))
end


-- Iterates in each round over the numbers 1 to `count`, alternately forwards and backwards, so that other work on the
-- machine affects all sides equally. Usage: for round, i in turns(rounds, count).
function _M.turns(rounds, count)
    local step = -1
    return function ()
        step = step + 1
        local round, turn = math.floor(step / count) + 1, step % count + 1
        if round <= rounds then
            return round, round % 2 == 1 and turn or count + 1 - turn
        end
    end
end


-- Returns the side that the options name, or else the host's first side.
function _M.chosen(host, options)
    return options.side and _M[options.side](options.folder) or host.sides[1]
end


-- Returns lua-resty-lock itself if it is installed. Its module has the same name as holdfast's, which require would
-- find first.
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


-- Returns the side of ngx.shared. Works only inside nginx.
function _M.nginx()
    local shared = ngx.shared  -- luacheck: ignore 113
    local lock = find_resty_lock()
    local label = lock and "lua-resty-lock " .. lock._VERSION or "a lock in the manner of lua-resty-lock 0.09"
    return {
        name = "ngx.shared",
        label = label,
        lock = lock or require "bench.support.peer_lock",
        locks = _M.LOCKS,
        dict = function (name)
            return assert(shared[name], name)
        end,
    }
end


return _M
