-- Implements lua-resty-mlcache with resty.holdfast.cache, for the tests of lua-resty-mlcache. Provides the internals
-- that the tests inspect, and translates messages. Adds no function to the cache.
--
-- In the dictionary, a value's key is NAME:KEY, so the field `name`, with which the tests build keys, is "NAME:".

local copies = require "resty.holdfast.cache.copies"
local holdfast = require "resty.holdfast.cache"

local error, ipairs, pcall, setmetatable = error, ipairs, pcall, setmetatable
local tonumber, tostring, type = tonumber, tostring, type

local VALUE = require("resty.holdfast.cache.entries").VALUE

local _M = { _VERSION = holdfast._VERSION, new_bulk = holdfast.new_bulk }
_M.__index = _M


-- --- messages ---

local WRONG_ARGUMENTS = {
    { "^bad name ", "name must be a string" },
    { "^bad shm ", "shm must be a string" },
    { "^bad key to [%w_]+:", "key must be a string" },
    { "^bad loader to [%w_]+:", "callback must be nil or a function" },
    { "^bad options to ", "opts must be a table" },
    { "^bad bulk to get_bulk: .-, got table", "bulk must have n field" },
    { "^bad bulk to ", "bulk must be a table" },
    { "^bad results to ", "res must have res.n field; is this a get_bulk() result?" },
}


local LOOKUPS = {
    key = { 3, "key at index %d must be a string for operation %d (got %s)" },
    loader = { 1, "callback at index %d must be a function for operation %d (got %s)" },
    option = { 2, "options at index %d for operation %d are invalid: %s" },
}


local function translate_option(message)
    local name, expected, given = message:match '^bad option "([%w_]+)" to .-: expected (.-), got (.*)$'
    if not name then
        return nil
    elseif not expected:find "number" then
        return "opts." .. name .. " must be " .. expected
    end
    local least = name == "concurrency" and "> 0" or ">= 0"
    return "opts." .. name .. " must be " .. (tonumber(given) and least or "a number")
end


-- In the argument of get_bulk, each lookup has four elements.
local function translate_lookup(message)
    local what, number, given = message:match "^bad (%w+).- to lookup (%d+) of get_bulk: .-, got (.*)$"
    local format = what and LOOKUPS[what]
    return format and format[2]:format(4 * number - format[1], number,
                                       what == "option" and translate_option(message) or given)
end


local function translate(raised)
    local message = tostring(raised):gsub("^.-:%d+: ", "", 1)
    for _, row in ipairs(WRONG_ARGUMENTS) do
        if message:find(row[1]) then
            return row[2]
        end
    end
    return translate_lookup(message) or translate_option(message) or raised
end


local function finish(ok, ...)
    if not ok then
        error(translate((...)), 0)
    end
    return ...
end


-- --- level 1, as an object of lua-resty-lrucache ---

local NIL = {}  -- stands for nil
local Lru = {}
Lru.__index = Lru


function Lru.get(lru, key)
    local cache = lru.cache
    local entry = cache.young[key] or cache.old[key]
    local value = entry and entry[VALUE]
    if entry and value == nil then
        value = NIL
    end
    if entry and copies.is_current(cache, entry) then
        return value
    end
    return nil, value
end


function Lru.delete(lru, key)
    lru.cache.young[key], lru.cache.old[key] = nil, nil
end


-- --- the module ---

function _M.new(name, shm, opts)
    local cache, err = finish(pcall(holdfast.new, name, shm, opts))
    if not cache then
        return nil, err
    end
    local settings = cache.settings
    return setmetatable({
        cache = cache, name = cache.prefix, dict = cache.dict, shm = shm, ttl = settings.ttl,
        neg_ttl = settings.neg_ttl, resurrect_ttl = settings.resurrect_ttl, lru_size = settings.lru_size,
        resty_lock_opts = settings.resty_lock_opts, l1_serializer = settings.l1_serializer,
        lru = setmetatable({ cache = cache }, Lru),
    }, _M)
end


function _M.each_bulk_res(results)
    return finish(pcall(holdfast.each_bulk_res, results))
end


-- LuaJIT compiles a hit here as it does without this module.
function _M.get(self, key, opts, loader, ...)
    if type(key) == "string" and opts == nil and (loader == nil or type(loader) == "function") then
        return self.cache:get(key, nil, loader, ...)
    end
    return finish(pcall(holdfast.get, self.cache, key, opts, loader, ...))
end


for _, name in ipairs { "get_bulk", "peek", "set", "delete", "purge", "update" } do
    local method = holdfast[name]
    _M[name] = function (self, ...) return finish(pcall(method, self.cache, ...)) end
end


return _M
