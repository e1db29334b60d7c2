-- A cache that all processes share: get-or-load with one call per key. Manual: docs/resty.holdfast.cache.md.
--
-- Level 1 is a table of this Lua state, level 2 the dictionary (cache/entries.lua), level 3 the loader. An entry of level
-- 1 is valid while the version of its key is the one that it was read with, so no message is sent to other processes.
--
-- A load holds the lock of the key. Those who wait for it watch the grant, so that all continue together when it ends,
-- however it ends. They then find the value, or the error of a load that ended after they had called; otherwise one of
-- them loads. A load stores its value only if it still has the lock, and set() and delete() take the lock away from it.
--
-- Only get and get_bulk yield, and only where they wait for a load, or where the loader does.

local background = require "resty.holdfast.cache.background"
local core = require "resty.holdfast.core"
local entries = require "resty.holdfast.cache.entries"
local ffi_new = require("ffi").new
local registry = require "resty.holdfast.dictionary.registry"
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"
local vacate = require("resty.holdfast.lock.with").vacate

local C, describe, is_duration, quote = core.C, core.describe, core.is_duration, core.quote
local co_running, traceback = coroutine.running, debug.traceback
local error, floor, max, min, next, select, setmetatable = error, math.floor, math.max, math.min, next, select, setmetatable
local pcall, tostring, type, unpack, xpcall = pcall, tostring, type, unpack, xpcall

local _M = { _VERSION = core.version }
_M.__index = _M

-- Each such hit of level 1 also counts as a use of the value in the dictionary. It is prime, so that a program that reads
-- keys in turn does not touch always the same. Benchmark: cache, hit.
local TOUCH_EVERY = 1009
-- A background refresh that has not begun or ended after this time may be started again, in seconds.
local REFRESH_AGAIN = 1

-- The elements of an entry; see cache/entries.lua.
local VALUE, NUMBER, STRIPE, ENDS, GUARDS, STALE, EARLY = 1, 2, 3, 4, 5, 6, 7

local NO_WAIT = { timeout = 0 }
local NO_OPTIONS = {}


-- --- options ---

local function is_size(given)
    return type(given) == "number" and given >= 1 and given == floor(given)
end


local function is_of(kind)
    return function (given) return type(given) == kind end
end


local function are_tags(given)
    if type(given) == "string" then
        return true
    end
    for i = 1, type(given) == "table" and #given or 0 do
        if type(given[i]) ~= "string" then
            return false
        end
    end
    return type(given) == "table"
end


local SECONDS = { is_duration, "a number of seconds, 0 or more" }
local ANY = { function () return true end }

local GET_OPTIONS = {
    ttl = SECONDS, neg_ttl = SECONDS, error_ttl = SECONDS, stale_ttl = SECONDS,
    early_refresh = { is_duration, "a number, 0 or more" },
    on_timeout = { function (given) return given == "error" or given == "load" or given == "stale" end,
                   '"error", "load" or "stale"' },
    l1_serializer = { is_of "function", "a function" },
    resty_lock_opts = { is_of "table", "a table" },
    tags = { are_tags, "a string or an array of strings" },
    shm_set_tries = ANY,  -- of mlcache, and not needed here, like the last six below
}

local NEW_OPTIONS = setmetatable({
    size = ANY, lru_size = { is_size, "a whole number, 1 or more" },
    ipc = ANY, ipc_shm = ANY, shm_miss = ANY, shm_locks = ANY, lru = ANY, debug = ANY,
}, { __index = GET_OPTIONS })

local BULK_OPTIONS = { concurrency = { is_size, "a whole number, 1 or more" } }

local DEFAULTS = { ttl = 30, neg_ttl = 5, error_ttl = 0, stale_ttl = 0, early_refresh = 0, on_timeout = "error",
                   lru_size = 1000 }


-- Raises at the line that called the method, which calls or tail-calls a function that calls this one.
local function check_options(opts, method, known, level)
    if type(opts) ~= "table" then
        error("bad options to " .. method .. ": expected a table, got " .. describe(opts), level)
    end
    local name, given = next(opts)
    while name ~= nil do
        local row = known[name]
        if not row then
            error(('unknown option %s to %s%s'):format(quote(tostring(name)), method,
                  name == "resurrect_ttl" and ": use stale_ttl" or ""), level)
        elseif not row[1](given) then
            error(('bad option "%s" to %s: expected %s, got %s'):format(name, method, row[2], describe(given)), level)
        end
        name, given = next(opts, name)
    end
end


local function setting(self, opts, name)
    local given = opts[name]
    if given == nil then
        return self.settings[name]
    end
    return given
end


-- Opens the dictionary, at the first use, because new() is often called in init_by_lua, which should not open it.
-- Returns whether it is open; false and the reason.
local function open(self)
    local settings = self.settings
    local declared = settings.size == nil and registry.declared_size(self.shm)
    local options = { size = settings.size or declared or nil, versions = true, tables = true }
    local dict, err = shdict.open(self.shm, options)
    if not dict and declared then  -- it exists with the size of an earlier configuration
        options.size = nil
        dict, err = shdict.open(self.shm, options)
    end
    if not dict then
        return false, err
    end
    registry.keep_values()
    self.dict, self.handle = dict, dict[1]
    return true
end


-- Returns the cache; nil and a message. Raises for arguments of the wrong types. Does not yield.
function _M.new(name, shm, opts)
    if type(name) ~= "string" or not name:find("^[%w_.-]+$") then
        error("bad name to new: expected letters, digits, '_', '-' and '.', got " .. describe(name), 2)
    elseif type(shm) ~= "string" then
        error("bad shm to new: expected the name of a dictionary, got " .. describe(shm), 2)
    end
    if opts ~= nil then
        check_options(opts, "new", NEW_OPTIONS, 3)
    end
    local settings = setmetatable({}, { __index = DEFAULTS })
    for option, given in next, opts or NO_OPTIONS do
        settings[option] = given
    end
    local self = setmetatable({
        name = name, shm = shm, settings = settings, dict = false, handle = false,
        prefix = name .. ":", lock_prefix = "!" .. name .. ":", error_prefix = "?" .. name .. ":",
        tag_prefix = "#" .. name .. ":",
        young = {}, old = {}, young_count = 0, lru_size = settings.lru_size,
        left = ffi_new("int32_t[1]", TOUCH_EVERY), touches = 0, refreshing = {},
        counts = { l2_hits = 0, loads = 0, load_errors = 0, stale = 0, waits = 0, timeouts = 0, refreshes = 0,
                   not_stored = 0 },
    }, _M)
    if not registry.is_before_workers() then
        local opened, err = open(self)
        if not opened then
            return nil, err
        end
    end
    return self
end


-- Raises at the line that called the method. Returns true if the dictionary is open; false and the reason.
local function begin(self, method, key, opts)
    if type(self) ~= "table" or not self.young then
        error("bad receiver of " .. method .. ": expected a cache, got " .. describe(self) .. "; call it as cache:"
              .. method .. "(...)", 3)
    elseif type(key) ~= "string" then
        error("bad key to " .. method .. ": expected a string, got " .. describe(key), 3)
    elseif opts ~= nil then
        check_options(opts, method, GET_OPTIONS, 4)
    end
    if self.dict then
        return true
    end
    return open(self)
end


-- --- level 1: the last lru_size entries are in `young` or `old`, which have at most lru_size each ---

local function put(self, key, entry)
    if not self.young[key] then
        if self.young_count >= self.lru_size then
            self.old, self.young, self.young_count = self.young, {}, 0
        end
        self.young_count = self.young_count + 1
    end
    self.young[key] = entry
    self.old[key] = nil
end


-- Returns whether no tag of an entry was purged.
local function guards_hold(self, guards)
    for i = 1, #guards, 2 do
        if C.holdfast_is_current(self.handle, guards[i], guards[i + 1], 0) ~= 1 then
            return false
        end
    end
    return true
end


local function is_current(self, entry)
    return C.holdfast_is_current(self.handle, entry[NUMBER], entry[STRIPE], entry[ENDS]) == 1
           and (not entry[GUARDS] or guards_hold(self, entry[GUARDS]))
end


-- Replaces the value of the entry by the program's own form of it. Returns nil; the reason.
local function serialize(self, opts, entry)
    local serializer = setting(self, opts, "l1_serializer")
    if serializer and entry[VALUE] ~= nil then
        local ok, value, err = pcall(serializer, entry[VALUE])
        if not ok then
            return "l1_serializer threw an error: " .. tostring(value)
        elseif err or value == nil then
            return err or "l1_serializer returned a nil value"
        end
        entry[VALUE] = value
    end
end


-- Returns the entry of level 2, and puts it into level 1. Returns nil if there is none; nil and the reason.
local function look(self, key, opts)
    local entry, err = entries.read(self, key, setting(self, opts, "early_refresh"))
    err = err or entry and serialize(self, opts, entry)
    if err then
        return nil, err
    elseif entry and not entry[STALE] then
        put(self, key, entry)
    end
    return entry
end


-- --- level 3 ---

-- The loads of this Lua state, by dictionary and lock. A load whose coroutine is gone has lost its lock.
local loading = {}


-- Returns whether the caller is the loader of that value.
local function is_own_load(id)
    local load = loading[id]
    return load and load.co == (co_running() or true) and load.lock.cdata and not vacate(load.lock)
end


local function call(self, loader, ...)
    self.counts.loads = self.counts.loads + 1
    local ok, value, err, ttl = xpcall(loader, traceback, ...)
    if not ok then
        value, err = nil, "callback threw an error: " .. tostring(value)
    end
    if err ~= nil then
        self.counts.load_errors = self.counts.load_errors + 1
        return nil, tostring(err)
    end
    return value, nil, type(ttl) == "number" and ttl or nil
end


-- Calls the loader, with the lock. Returns value, err, hit level.
local function load_and_store(self, key, opts, lock, loader, ...)
    local list, err = entries.read_tags(self, setting(self, opts, "tags"))
    if err then
        return nil, err
    end
    local id = self.shm .. self.lock_prefix .. key
    loading[id] = { co = co_running() or true, lock = lock }
    local start = C.holdfast_now()
    local value, ttl
    value, err, ttl = call(self, loader, ...)
    loading[id] = nil
    local entry
    if not err then
        if ttl and ttl < 0 then
            entry = { value }  -- the loader wants it not to be stored
        else
            ttl = ttl or setting(self, opts, value == nil and "neg_ttl" or "ttl")
            entry, err = entries.store(self, key, value, lock, ttl, setting(self, opts, "stale_ttl"),
                                       C.holdfast_now() - start, list)
            err = err and "cannot store the value: " .. err
        end
    end
    if err and not entry then
        entries.store_error(self, key, err, lock, setting(self, opts, "error_ttl"))
        return nil, err
    end
    if err then
        self.counts.not_stored = self.counts.not_stored + 1
    elseif not entry then  -- the lock was lost
        entry = look(self, key, opts)
        if entry then
            return entry[VALUE], nil, 2
        end
    end
    entry = entry or { value }
    err = serialize(self, opts, entry)
    if err then
        return nil, err
    elseif entry[NUMBER] then
        put(self, key, entry)
    end
    return entry[VALUE], nil, 3
end


-- Runs with the lock. `number`: the version of the value that is to be replaced, or 0. Returns true, value, err, hit level.
local function load_locked(self, key, opts, number, lock, loader, ...)
    local entry, err = look(self, key, opts)
    if err then
        return true, nil, err
    elseif entry and not entry[STALE] and entry[NUMBER] ~= number then
        return true, entry[VALUE], nil, 2
    end
    return true, load_and_store(self, key, opts, lock, loader, ...)
end


-- Returns value, err, hit level for a caller that cannot wait for the load, or no longer.
local function give_up(self, key, opts, why, loader, ...)
    self.counts.timeouts = self.counts.timeouts + 1
    local way = setting(self, opts, "on_timeout")
    if way == "load" then
        local value, err = call(self, loader, ...)
        return value, err, not err and 3 or nil
    elseif way == "stale" then
        local left, _, value = entries.peek(self, key)
        if left then
            self.counts.stale = self.counts.stale + 1
            return value, nil, 4
        end
    end
    return nil, "could not acquire callback lock: " .. why
end


-- Returns value, err, hit level for a value that is in no level.
local function load(self, key, opts, loader, ...)
    local lock, err = resty_lock:new(self.dict, setting(self, opts, "resty_lock_opts"))
    if not lock then
        return nil, "could not create lock: " .. err
    end
    local text, seen = entries.read_error(self, key)
    if text and entries.is_for_all(seen) then
        return nil, text
    end
    local lock_key = self.lock_prefix .. key
    if is_own_load(self.shm .. lock_key) then
        return nil, "deadlock: the loader of " .. quote(key) .. " asks for the value that it loads"
    end
    local deadline = C.holdfast_now() + lock.timeout
    while true do
        local done, value, why, level = lock:with(lock_key, NO_WAIT, load_locked, self, key, opts, 0, lock, loader, ...)
        if done then
            return value, why, level
        elseif value == "timeout" then
            self.counts.waits = self.counts.waits + 1
            done, value = lock:wait(lock_key, { timeout = max(deadline - C.holdfast_now(), 0) })
        end
        if not done then
            return give_up(self, key, opts, value, loader, ...)
        end
        local entry
        entry, err = look(self, key, opts)
        text, level = entries.read_error(self, key)
        if entry and not entry[STALE] then
            self.counts.l2_hits = self.counts.l2_hits + 1
            return entry[VALUE], nil, 2
        elseif err or text and level ~= seen then
            return nil, err or text
        end
    end
end


-- Lets one caller load a value that is stale, or will soon be. Returns value, err, hit level, or nothing if the load runs
-- in the background, or elsewhere, or has failed before within error_ttl.
local function refresh(self, key, opts, number, loader, ...)
    local now = C.holdfast_now()
    local _, seen = entries.read_error(self, key)
    if (self.refreshing[key] or 0) > now or entries.is_for_all(seen) then
        return
    end
    local lock = resty_lock:new(self.dict, setting(self, opts, "resty_lock_opts"))
    local arguments, count = { ... }, select("#", ...)
    local function run()
        local done, value, err, level = lock:with(self.lock_prefix .. key, NO_WAIT, load_locked, self, key, opts, number,
                                                  lock, loader, unpack(arguments, 1, count))
        self.refreshing[key] = nil
        return done and value, err, done and level
    end
    self.refreshing[key] = now + REFRESH_AGAIN
    self.counts.refreshes = self.counts.refreshes + 1
    if not background.spawn(run) then
        return run()
    end
end


-- Does what get does after `young` had no valid entry, or for a hit that counts in the dictionary. The method tail-calls
-- it.
local function get(self, key, opts, loader, ...)
    local opened, err = begin(self, "get", key, opts)
    if loader ~= nil and type(loader) ~= "function" then
        error("bad loader to get: expected a function, got " .. describe(loader), 2)
    elseif not opened then
        return nil, err
    end
    opts = opts or NO_OPTIONS
    local entry = self.young[key] or self.old[key]
    if entry and is_current(self, entry) then
        if not self.young[key] then
            self.left[0] = self.left[0] - 1
        end
        put(self, key, entry)
        entries.touch(self, key)
        if self.left[0] <= 0 then
            self.left[0], self.touches = TOUCH_EVERY, self.touches + 1
        end
        return entry[VALUE], nil, 1
    end
    entry, err = look(self, key, opts)
    if err then
        return nil, err
    elseif not entry then
        if not loader then
            return nil, nil, -1
        end
        return load(self, key, opts, loader, ...)
    end
    if loader and (entry[STALE] or entry[EARLY]) then
        local value, _, level = refresh(self, key, opts, entry[NUMBER], loader, ...)
        if level then
            return value, nil, level
        end
    end
    local counted = entry[STALE] and "stale" or "l2_hits"
    self.counts[counted] = self.counts[counted] + 1
    return entry[VALUE], nil, entry[STALE] and 4 or 2
end


-- get(key [, opts [, loader, ...]]) returns the value, nil, and the level in which it was found: 1, 2, 3 (the loader was
-- called), 4 (the value is stale), -1 (there is none and no loader). Returns nil and the error of the loader or another.
function _M.get(self, key, opts, loader, ...)
    local entry = type(self) == "table" and self.young and self.young[key]
    if entry and C.holdfast_is_current(self.handle, entry[NUMBER], entry[STRIPE], entry[ENDS]) == 1
       and (not entry[GUARDS] or guards_hold(self, entry[GUARDS])) then
        local left = self.left[0] - 1
        self.left[0] = left
        if left > 0 then
            return entry[VALUE], nil, 1
        end
    end
    return get(self, key, opts, loader, ...)
end


-- --- the other methods ---

-- Returns true; nil and the reason.
function _M.set(self, key, opts, value)
    local opened, err = begin(self, "set", key, opts)
    if not opened then
        return nil, err
    end
    opts = opts or NO_OPTIONS
    local list, entry
    list, err = entries.read_tags(self, setting(self, opts, "tags"))
    if err then
        return nil, err
    end
    entries.forget_error(self, key)
    entry, err = entries.store(self, key, value, nil, setting(self, opts, value == nil and "neg_ttl" or "ttl"),
                               setting(self, opts, "stale_ttl"), 0, list)
    if err then
        return nil, err
    end
    err = serialize(self, opts, entry)
    if err then
        return nil, err
    elseif entry[NUMBER] then
        put(self, key, entry)
    end
    return true
end


-- Returns true; nil and the reason.
function _M.delete(self, key)
    local opened, err = begin(self, "delete", key)
    if not opened then
        return nil, err
    end
    entries.forget_error(self, key)
    opened, err = entries.delete(self, key)
    return opened or nil, err
end


-- peek(key [, stale]) returns the seconds until the value becomes stale (0: never), nil and the value, without counting
-- as a use. Returns nil if there is no value; nil and the reason. With `stale`, also finds a value that is stale or has
-- expired; the seconds are negative then.
function _M.peek(self, key, stale)
    local opened, err = begin(self, "peek", key)
    if not opened then
        return nil, err
    end
    local left, why, value = entries.peek(self, key)
    if not left or left < 0 and not stale then
        return nil, why
    end
    return left, nil, value, left < 0 or nil
end


-- purge(tag) makes all values with the tag invalid. purge() empties the dictionary; purge(true) also frees its memory.
-- Returns true; nil and the reason.
function _M.purge(self, tag)
    local opened, err = begin(self, "purge", type(tag) == "string" and tag or "")
    if not opened then
        return nil, err
    elseif type(tag) == "string" then
        return entries.purge_tag(self, tag)
    end
    self.young, self.old, self.young_count = {}, {}, 0
    opened, err = self.dict:flush_all()
    if opened and tag then
        self.dict:flush_expired()
    end
    return opened, err
end


-- Does nothing, because copies are always current. For programs that used mlcache.
function _M.update()
    return true
end


-- Returns a table of counts, of this object only.
function _M.stats(self)
    begin(self, "stats", "")
    local counts = { l1_hits = self.touches * TOUCH_EVERY + TOUCH_EVERY - self.left[0] }
    for name, count in next, self.counts do
        counts[name] = count
    end
    return counts
end


-- --- several values at once, with the tables of mlcache ---

local Bulk = {}
Bulk.__index = Bulk


function _M.new_bulk()
    return setmetatable({ n = 0 }, Bulk)
end


function Bulk.add(bulk, key, opts, loader, argument)
    local at = 4 * bulk.n
    bulk[at + 1], bulk[at + 2], bulk[at + 3], bulk[at + 4] = key, opts, loader, argument
    bulk.n = bulk.n + 1
end


local function next_result(results, number)
    local at = 3 * number
    if at < results.n then
        return number + 1, results[at + 1], results[at + 2], results[at + 3]
    end
end


-- for number, value, err, hit_level in cache.each_bulk_res(results) do ... end
function _M.each_bulk_res(results)
    if type(results) ~= "table" or not results.n then
        error("bad results to each_bulk_res: expected the result of get_bulk, got " .. describe(results), 2)
    end
    return next_result, results, 0
end


-- Returns an array of value, err, hit level for each row of the bulk. Up to `concurrency` (3) loaders run at a time.
function _M.get_bulk(self, bulk, opts)
    begin(self, "get_bulk", "")
    if type(bulk) ~= "table" or type(bulk.n) ~= "number" then
        error("bad bulk to get_bulk: expected a table with a field n, got " .. describe(bulk), 2)
    elseif opts ~= nil then
        check_options(opts, "get_bulk", BULK_OPTIONS, 3)
    end
    local results, missing = { n = 3 * bulk.n }, {}
    for row = 0, bulk.n - 1 do
        local value, err, level = self:get(bulk[4 * row + 1], bulk[4 * row + 2])
        results[3 * row + 1], results[3 * row + 2], results[3 * row + 3] = value, err, level
        if level == -1 or level == 4 then
            missing[#missing + 1] = row
        end
    end
    local last = 0
    background.run(function ()
        while last < #missing do
            last = last + 1
            local row = missing[last]
            local value, err, level = self:get(bulk[4 * row + 1], bulk[4 * row + 2], bulk[4 * row + 3], bulk[4 * row + 4])
            results[3 * row + 1], results[3 * row + 2], results[3 * row + 3] = value, err, level
        end
    end, min(#missing, opts and opts.concurrency or 3))
    return results
end


return _M
