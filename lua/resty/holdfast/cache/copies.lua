-- Level 1 of a cache: copies of values in the Lua state, by key. The tables `young` and `old` have at most lru_size
-- copies each. When `young` is full, it becomes `old`. So each of the lru_size newest copies is in one of the tables,
-- and a hit in `young` moves nothing.

local core = require "resty.holdfast.core"
local entries = require "resty.holdfast.cache.entries"
local loop_ms = require("resty.holdfast.dictionary.registry").loop_ms
local option = require("resty.holdfast.cache.options").of

local C, ffi_gc = core.C, require("ffi").gc
local pcall, tonumber, tostring = pcall, tonumber, tostring

local VALUE, NUMBER, STRIPE, ENDS, GUARDS = entries.VALUE, entries.NUMBER, entries.STRIPE, entries.ENDS, entries.GUARDS
local STALE, EARLY, WORD = entries.STALE, entries.EARLY, entries.WORD

local _M = {}


local function put(cache, key, entry)
    if not cache.young[key] then
        if cache.count >= cache.settings.lru_size then
            cache.old, cache.young, cache.count = cache.young, {}, 0
        end
        cache.count = cache.count + 1
    end
    cache.young[key] = entry
    if cache.old[key] then  -- otherwise the assignment would add the key
        cache.old[key] = nil
    end
end
_M.put = put


-- Finds the versions of the present dictionary. They stay mapped as long as the cache refers to them, so a removed
-- dictionary stays in memory until the next call of get. Returns true, or nil and the reason.
function _M.find_versions(cache)
    local versions = C.holdfast_keep_versions(cache.handle)
    if versions == nil then
        return nil, core.sentence()
    end
    cache.versions = ffi_gc(versions, C.holdfast_release_versions)
    return true
end


-- Returns the same as is_current, but ignores the tags. A copy with a word is compared without a call of C, which would
-- take a third of the time of a hit.
--
-- The loads may happen in any order: a caller that knows that a change has ended has synchronized with its writer, so
-- the loads find the change. The words only grow, so an equal sum means that no word has changed.
--
-- A compiled loop loads a word only once, although the word is volatile, unless each iteration also stores a different
-- number of the same type. So each hit stores the count of hits twice, as int32_t and as int64_t.
--
-- In nginx, the end of the copy is compared with the clock of the event loop. If the loop has not run for more than a
-- minute, the library uses another clock, and so does every hit that counts as a use.
function _M.is_fresh(cache, entry)
    local versions, word, ends = cache.versions, entry[WORD], entry[ENDS]
    if not word then
        return C.holdfast_is_current(cache.handle, entry[NUMBER], entry[STRIPE], ends) == 1
    end
    return tonumber(versions.words[word] + versions.base) + 2 * versions.flushes[0] == entry[NUMBER]
           and versions.retired[0] == 0 and (ends == 0 or loop_ms[0] < ends)
end


-- Returns true if none of the tags of a copy has been purged.
function _M.guards_hold(cache, guards)
    for i = 1, #guards, 2 do
        if C.holdfast_is_current(cache.handle, guards[i], guards[i + 1], 0) ~= 1 then
            return false
        end
    end
    return true
end


-- Returns whether the copy is the value that the dictionary has now.
function _M.is_current(cache, entry)
    return C.holdfast_is_current(cache.handle, entry[NUMBER], entry[STRIPE], entry[ENDS]) == 1
           and (not entry[GUARDS] or _M.guards_hold(cache, entry[GUARDS]))
end


-- Converts the value with the program's l1_serializer. Keeps the entry if it has a version, unless it is stale or
-- should be loaded early, because the next call must notice this. Returns nil, or the reason on failure.
function _M.keep(cache, key, opts, entry)
    local serializer = option(cache, opts, "l1_serializer")
    if serializer and entry[VALUE] ~= nil then
        local ok, value, err = pcall(serializer, entry[VALUE])
        if not ok then
            return "l1_serializer threw an error: " .. tostring(value)
        elseif err or value == nil then
            return err or "l1_serializer returned a nil value"
        end
        entry[VALUE] = value
    end
    if entry[NUMBER] and not entry[STALE] and not entry[EARLY] then
        put(cache, key, entry)
    end
end


-- Returns the entry in the dictionary, and keeps a copy. Returns nil if there is no entry, or nil and the reason on
-- failure.
function _M.look(cache, key, opts)
    local entry, err = entries.read(cache, key, option(cache, opts, "early_refresh"))
    err = err or entry and _M.keep(cache, key, opts, entry)
    if err then
        return nil, err
    end
    return entry
end


return _M
