-- A cache that all processes share: get-or-load with one call per key. Manual: docs/resty.holdfast.cache.md.
--
-- Level 1 consists of copies in this Lua state (cache/copies.lua), level 2 is the dictionary (cache/entries.lua), and
-- level 3 is the loader (cache/loads.lua). A copy is current as long as its key still has the version that was read
-- with the copy, so processes need not send each other messages. A load stores its value only if it still has the lock
-- of the key. set() and delete() take this lock away from loads that began earlier.
--
-- Failures return nil and a string. Arguments of wrong types raise an error at the line of the call. Only get and
-- get_bulk yield: when they wait for a load, or when the loader yields.

local bulk = require "resty.holdfast.cache.bulk"
local copies = require "resty.holdfast.cache.copies"
local count_key = require("resty.holdfast.cache.counts").key
local core = require "resty.holdfast.core"
local entries = require "resty.holdfast.cache.entries"
local ffi_new = require("ffi").new
local loads = require "resty.holdfast.cache.loads"
local options = require "resty.holdfast.cache.options"
local registry = require "resty.holdfast.dictionary.registry"
local shdict = require "resty.shdict"

local C, describe, option = core.C, core.describe, options.of
local error, next, setmetatable, type = error, next, setmetatable, type
local guards_hold, is_current, is_fresh, put = copies.guards_hold, copies.is_current, copies.is_fresh, copies.put

local VALUE, NUMBER, GUARDS, STALE, EARLY = entries.VALUE, entries.NUMBER, entries.GUARDS, entries.STALE, entries.EARLY

-- One in TOUCH_EVERY hits of level 1 also counts as a use of the value in the dictionary, so that the dictionary does
-- not evict the value. The number is prime, because a program may read its keys in a fixed order. No benchmark covers
-- it.
local TOUCH_EVERY = 1009

-- The minimum number of seconds between two additions of the counts to the numbers in the dictionary
-- (cache/counts.lua). Loads, touches and every 16th hit of level 2 check whether the time has come.
local PUBLISH_EVERY = 1

local _M = { _VERSION = core.version, each_bulk_res = bulk.each_bulk_res, get_bulk = bulk.get_bulk,
             new_bulk = bulk.new_bulk }
_M.__index = _M


-- Opens the dictionary. In nginx, an existing dictionary keeps the size from an earlier configuration. Returns true, or
-- nil and the reason.
local function open(self)
    local size = self.settings.size
    local declared = size == nil and registry.declared_size(self.shm) or nil
    local dict, err = shdict.open(self.shm, { size = size or declared, versions = true, tables = true })
    if not dict and declared then
        dict, err = shdict.open(self.shm, { versions = true, tables = true })
    end
    if not dict then
        return nil, err
    end
    registry.keep_values()
    self.handle = dict[1]
    local found
    found, err = copies.find_versions(self)
    self.dict = found and dict or false
    return found, err
end


-- new(name, shm [, opts]) returns a cache in the dictionary `shm`, or nil and a message. If new() is called in
-- init_by_lua, the first use of the cache opens the dictionary.
function _M.new(name, shm, opts)
    if type(name) ~= "string" or not name:find("^[%w_.-]+$") then
        error("bad name to new: expected letters, digits, '_', '-' and '.', got " .. describe(name), 2)
    elseif type(shm) ~= "string" then
        error("bad shm to new: expected the name of a dictionary, got " .. describe(shm), 2)
    end
    options.check(opts, "new", options.NEW, 2)
    local self = setmetatable({
        name = name, shm = shm, settings = options.complete(opts), dict = false, handle = false,
        prefix = name .. ":", lock_prefix = "!" .. name .. ":", error_prefix = "?" .. name .. ":",
        tag_prefix = "#" .. name .. ":",
        young = {}, old = {}, count = 0, left = ffi_new("int32_t[1]", TOUCH_EVERY), again = ffi_new("int64_t[1]"),
        touches = 0, refreshing = {},
        versions = false, published = {}, publish_at = 0,
        counts = { l2_hits = 0, load_errors = 0, loads = 0, not_stored = 0, refreshes = 0, stale = 0, timeouts = 0,
                   waits = 0 },
    }, _M)
    if registry.is_before_workers() then
        return self
    end
    local opened, err = open(self)
    return opened and self, err
end


-- Checks the arguments of a method. Returns true if the dictionary is open, or nil and the reason.
local function begin(self, method, key, opts)
    if type(self) ~= "table" or not self.young then
        error("bad receiver of " .. method .. ": expected a cache, got " .. describe(self) .. "; call it as cache:"
              .. method .. "(...)", 3)
    elseif type(key) ~= "string" then
        error("bad key to " .. method .. ": expected a string, got " .. describe(key), 3)
    end
    options.check(opts, method, options.GET, 3)
    if self.dict then
        return true
    end
    return open(self)
end


local function publish(self)
    local now = C.holdfast_now()
    if now >= self.publish_at then
        self.publish_at = now + PUBLISH_EVERY
        for name, count in next, _M.stats(self) do
            local grown = count - (self.published[name] or 0)
            if grown > 0 and self.dict:incr(count_key(name), grown, 0) then
                self.published[name] = count
            end
        end
    end
end


-- The slow part of get, for a key without a current copy in `young`, and for a hit that counts as a use of the value in
-- the dictionary. The method tail-calls this function.
local function get(self, key, opts, loader, ...)
    local opened, err = begin(self, "get", key, opts)
    if loader ~= nil and type(loader) ~= "function" then
        error("bad loader to get: expected a function, got " .. describe(loader), 2)
    elseif not opened then
        return nil, err
    end
    local left, counts = self.left, self.counts
    if self.versions.retired[0] ~= 0 then
        copies.find_versions(self)  -- the dictionary was removed, and may have been created again
    end
    local entry = self.young[key] or self.old[key]
    if entry and is_current(self, entry) then
        left[0] = left[0] - (self.young[key] and 0 or 1)
        if left[0] <= 0 then
            left[0], self.touches = TOUCH_EVERY, self.touches + 1
            publish(self)
        end
        put(self, key, entry)
        entries.touch(self, key)
        return entry[VALUE], nil, 1
    end
    opts = opts or options.NONE
    entry, err = copies.look(self, key, opts)
    if err then
        return nil, err
    elseif not entry then
        if not loader then
            return nil, nil, -1
        end
        publish(self)
        return loads.load(self, key, opts, loader, ...)
    end
    if loader and (entry[STALE] or entry[EARLY]) then
        local value, _, level = loads.refresh(self, key, opts, entry[NUMBER], loader, ...)
        if level then
            return value, nil, level
        elseif not entry[STALE] then
            put(self, key, entry)  -- one attempt to load early is enough
        end
    end
    if entry[STALE] then
        counts.stale = counts.stale + 1
        return entry[VALUE], nil, 4
    end
    counts.l2_hits = counts.l2_hits + 1
    if counts.l2_hits % 16 == 0 then
        publish(self)
    end
    return entry[VALUE], nil, 2
end


-- get(key [, opts [, loader, ...]]) returns the value, nil, and the level that had the value: 1, 2, 3 (the loader was
-- called), 4 (the value is stale), or -1 (there is no value and no loader). On failure, returns nil and an error. If
-- the caller's own loader failed, returns the loader's value instead of nil.
function _M.get(self, key, opts, loader, ...)
    local entry = type(self) == "table" and self.young and self.young[key]
    if entry and is_fresh(self, entry) and (not entry[GUARDS] or guards_hold(self, entry[GUARDS])) then
        local left = self.left[0] - 1
        self.left[0], self.again[0] = left, left  -- both are needed: see copies.is_fresh
        if left > 0 then
            return entry[VALUE], nil, 1
        end
    end
    return get(self, key, opts, loader, ...)
end


-- Stores a value for all processes. Returns true.
function _M.set(self, key, opts, value)
    local opened, err = begin(self, "set", key, opts)
    if not opened then
        return nil, err
    end
    opts = opts or options.NONE
    local list, entry
    list, err = entries.read_tags(self, option(self, opts, "tags"))
    if not err then
        entries.forget_error(self, key)
        entry, err = entries.store(self, key, value, nil, option(self, opts, value == nil and "neg_ttl" or "ttl"),
                                   option(self, opts, "stale_ttl"), 0, 0, list)
    end
    err = err or copies.keep(self, key, opts, entry)
    if err then
        return nil, err
    end
    return true
end


-- Deletes a value for all processes. Returns true.
function _M.delete(self, key)
    local done, err = begin(self, "delete", key)
    if done then
        entries.forget_error(self, key)
        done, err = entries.delete(self, key)
    end
    return done or nil, err
end


-- peek(key [, stale]) returns the seconds until the value becomes stale (0 if never), nil, and the value. Returns nil
-- if there is no value. With `stale`, also finds a value that is stale or has expired: the seconds are then negative,
-- and the fourth result is true. Does not keep a copy.
function _M.peek(self, key, stale)
    local left, err, value = begin(self, "peek", key)
    if left then
        left, err, value = entries.peek(self, key)
    end
    if not left or left < 0 and not stale then
        return nil, err
    end
    return left, nil, value, left < 0 or nil
end


-- purge(tag) invalidates all values with the tag. purge() empties the dictionary; purge(true) also frees its memory.
-- Returns true.
function _M.purge(self, tag)
    if type(tag) ~= "string" and type(tag) ~= "boolean" and tag ~= nil then
        error("bad tag to purge: expected a string, a boolean or nothing, got " .. describe(tag), 2)
    end
    local done, err = begin(self, "purge", type(tag) == "string" and tag or "")
    if not done then
        return nil, err
    elseif type(tag) == "string" then
        return entries.purge_tag(self, tag)
    end
    self.young, self.old, self.count = {}, {}, 0
    done, err = self.dict:flush_all()
    if done and tag then
        self.dict:flush_expired()
    end
    return done, err
end


-- Does nothing, because copies are always current. Exists for programs that used mlcache. Returns true.
function _M.update()
    return true
end


-- Returns a table with the counters of this object.
function _M.stats(self)
    begin(self, "stats", "")
    local counts = { l1_hits = self.touches * TOUCH_EVERY + TOUCH_EVERY - self.left[0] }
    for name, count in next, self.counts do
        counts[name] = count
    end
    return counts
end


return _M
