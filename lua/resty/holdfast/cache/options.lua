-- Reads the options of caches. Errors blame the line that called the method.

local core = require "resty.holdfast.core"

local describe, is_duration, quote = core.describe, core.is_duration, core.quote
local error, floor, next, setmetatable, tostring, type = error, math.floor, next, setmetatable, tostring, type

local _M = { NONE = {} }


local function is_count(given)
    return type(given) == "number" and given >= 1 and given == floor(given)
end


local function is_of(kind)
    return function (given) return type(given) == kind end
end


local function are_tags(given)
    local tags = type(given) == "string" and { given } or type(given) == "table" and given
    for i = 1, tags and #tags or 0 do
        if type(tags[i]) ~= "string" then
            return false
        end
    end
    return tags
end


local COUNT = { is_count, "a whole number, 1 or more" }
local SECONDS = { is_duration, "a number of seconds, 0 or more" }
local IGNORED = { function () return true end }  -- an option of mlcache that is not needed here

_M.GET = {
    ttl = SECONDS, neg_ttl = SECONDS, error_ttl = SECONDS, stale_ttl = SECONDS, resurrect_ttl = SECONDS,
    shm_set_tries = IGNORED,
    early_refresh = { is_duration, "a number, 0 or more" },
    on_timeout = { function (given) return given == "error" or given == "load" or given == "stale" end,
                   '"error", "load" or "stale"' },
    l1_serializer = { is_of "function", "a function" },
    resty_lock_opts = { is_of "table", "a table" },
    tags = { are_tags, "a string or an array of strings" },
}
_M.NEW = setmetatable({
    lru_size = COUNT, size = { function () return true end },  -- shdict.open checks the size
    ipc = IGNORED, ipc_shm = IGNORED, shm_miss = IGNORED, shm_locks = IGNORED, lru = IGNORED, debug = IGNORED,
}, { __index = _M.GET })
_M.BULK = { concurrency = COUNT }

local DEFAULTS = { ttl = 30, neg_ttl = 5, error_ttl = 0, stale_ttl = 0, resurrect_ttl = 0, early_refresh = 0,
                   on_timeout = "error", lru_size = 1000 }


-- Raises an error for a bad option. `level` selects the line to blame, as in error().
function _M.check(opts, method, known, level)
    if opts == nil then
        return
    elseif type(opts) ~= "table" then
        error("bad options to " .. method .. ": expected a table, got " .. describe(opts), level + 1)
    end
    local name, given = next(opts)  -- not with pairs(): see lock/options.lua
    while name ~= nil do
        local row = known[name]
        if not row then
            error("unknown option " .. quote(tostring(name)) .. " to " .. method, level + 1)
        elseif not row[1](given) then
            error(('bad option "%s" to %s: expected %s, got %s'):format(name, method, row[2], describe(given)),
                  level + 1)
        end
        name, given = next(opts, name)
    end
end


-- Returns the options of a cache, with defaults for those that were not given.
function _M.complete(opts)
    local settings = setmetatable({}, { __index = DEFAULTS })
    for name, given in next, opts or _M.NONE do
        settings[name] = given
    end
    return settings
end


-- Returns an option of a call, or of the cache.
function _M.of(cache, opts, name)
    local given = opts[name]
    if given == nil then
        return cache.settings[name]
    end
    return given
end


return _M
