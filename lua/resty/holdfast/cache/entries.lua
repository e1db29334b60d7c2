-- Level 2 of a cache: its entries in the dictionary. The value of KEY in the cache NAME has the key "NAME:KEY". The
-- lock of its load is "!NAME:KEY", the error of its last load "?NAME:KEY", and the generation of a tag "#NAME:TAG".
--
-- The flags of a value contain its kind (2 bits), how long it may be served after it becomes stale, and how long its
-- load took (15 bits each). So a value without tags is stored as it is.
--
-- A value with tags is stored in a table, together with each tag and the generation that the tag had before the load.
-- The first generation of a tag is the version of its key, and each purge adds 1. Each change adds 2 to the version, so
-- a tag that is purged or evicted gets a generation that it never had before.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local loop_ms = require("resty.holdfast.dictionary.registry").loop_ms
local tables = require "resty.holdfast.dictionary.tables"

local C, reason = core.C, core.reason
local form_of, read_value = tables.form_of, tables.read_value
local current, enter_int, enter_value = core.current, core.enter_int, core.enter_value
local grow, leave = core.grow, core.leave
local floor, frexp, ldexp, log, min, random = math.floor, math.frexp, math.ldexp, math.log, math.min, math.random
local tonumber, type = tonumber, type

local BUFFER, DIFFERS, NO_MEMORY, NOT_FOUND = core.BUFFER, core.DIFFERS, core.NO_MEMORY, core.NOT_FOUND
local OK, TOO_LARGE = core.OK, core.TOO_LARGE

-- The elements of an entry of level 1. An array is faster to read than a table with named fields.
local ENDS, STALE, EARLY, WORD = 4, 6, 7, 8

local PLAIN, NIL, TAGGED, GONE = 0, 1, 2, 3

-- The time for which the dictionary keeps an entry for a value that is deleted during a load, in seconds; see delete().
local GONE_FOR = 0.001

-- The version for the current call. No other Lua code runs before it is read.
local version = ffi.new("holdfast_version_of_key[1]")

local _M = { VALUE = 1, NUMBER = 2, STRIPE = 3, ENDS = ENDS, GUARDS = 5, STALE = STALE, EARLY = EARLY,
             WORD = WORD }


-- Packs a time of at most 12 days into 15 bits: a fraction of 10 bits and an exponent of 5. This shortens the time by
-- at most 0.2 %.
local function pack(ms)
    local fraction, exponent = frexp(min(ms, 2 ^ 30))
    return exponent > 0 and floor(fraction * 1024) * 32 + exponent or 0
end


local function unpack_ms(bits)
    return ldexp(floor(bits / 32) / 1024, bits % 32)
end


-- Returns the kind of a value, and two times in milliseconds: how long it may be served stale, and how long its load
-- took.
local function parts_of(flags)
    return flags % 4, unpack_ms(floor(flags / 4) % 2 ^ 15), unpack_ms(floor(flags / 2 ^ 17))
end


-- Returns the time on the clock by which values expire, in milliseconds.
local function now()
    return loop_ms and tonumber(loop_ms[0]) or C.holdfast_now() * 1000
end


-- Reads a value into a frame, and the value's version into `version`. The caller must call leave().
local function read(handle, key)
    local value = enter_value()
    version[0].number = 0
    local code = C.holdfast_get_changed(handle, key, #key, version, value)
    while code == BUFFER do
        grow(current())
        version[0].number = 0
        code = C.holdfast_get_changed(handle, key, #key, version, value)
    end
    return code, value
end


-- Marks the value as used. Otherwise, the dictionary would evict the most-read values, because their reads end in level
-- 1.
function _M.touch(cache, key)
    key = cache.prefix .. key
    version[0].number = 0
    C.holdfast_get_changed(cache.dict[1], key, #key, version, enter_value())
    leave()
end


-- Returns the generation of a tag, and the number and the stripe of its version, or nil and the reason.
local function generation(cache, tag)
    local code, value = read(cache.dict[1], cache.tag_prefix .. tag)
    local answer, number, stripe = value.number, tonumber(version[0].number), version[0].stripe
    leave()
    if code == OK then
        return answer, number, stripe
    end
    return nil, code ~= NOT_FOUND and reason(code) or nil
end


-- Returns a table with the tags and their generations, or nil and the reason. `tags` is nil, a string or an array; if
-- it is nil, the result is nil. Gives a generation to each tag that has none.
function _M.read_tags(cache, tags)
    if not tags then
        return nil
    end
    local list = {}
    tags = type(tags) == "string" and { tags } or tags
    for i = 1, #tags do
        local key = cache.tag_prefix .. tags[i]
        local number, err = generation(cache, tags[i])
        while not number and not err do
            local _, refusal = cache.dict:add(key, cache.dict:version(key))
            err = refusal ~= "exists" and refusal or nil
            number = not err and generation(cache, tags[i])
        end
        if not number then
            return nil, err
        end
        list[2 * i - 1], list[2 * i] = tags[i], number
    end
    return list
end


-- Returns an array of the numbers and stripes of the tags' versions, or nil if a tag was purged or another program has
-- stored something else.
local function check_tags(cache, list)
    if type(list) ~= "table" then
        return nil
    end
    local guards = {}
    for i = 1, #list, 2 do
        local tag, answer, number, stripe = list[i], nil, nil, nil
        if type(tag) == "string" then
            answer, number, stripe = generation(cache, tag)
        end
        if not answer or answer ~= list[i + 1] then
            return nil
        end
        guards[i], guards[i + 1] = number, stripe
    end
    return guards
end


function _M.purge_tag(cache, tag)
    local key = cache.tag_prefix .. tag
    local sum, err = cache.dict:incr(key, 1, cache.dict:version(key))
    return sum and true, err
end


-- Returns whether the cache has a value, the value, and the versions of its tags or nil.
local function decode(cache, kind, value)
    if kind == TAGGED then
        local guards = check_tags(cache, value)
        return guards ~= nil, guards and value.value, guards
    end
    if kind == NIL then
        return true, nil
    end
    return kind == PLAIN, value
end


-- Returns an entry for level 1, which is a copy of the value. `ends` is the time at which the value in the dictionary
-- expires. The entry also records whether the value is stale or should be loaded early. If Lua can decide whether the
-- entry is current (copies.lua), the entry also records where the word with the value's version is. If the version is
-- odd, because a writer was stopped in the middle of a change, the entry is never current.
--
-- Early refreshes become more probable towards the end (XFetch, Vattani et al. 2015). A random number that is drawn
-- once for each copy decides when the copy ends, so hits do not draw random numbers.
local function make_entry(value, number, stripe, ends, guards, flags, early)
    local has_word = number % 2 == 0 and (ends == 0 or loop_ms)
    local entry = { value, number, stripe, ends, guards, false, false, has_word and 2 * stripe }
    local _, stale, load = parts_of(flags)
    if ends > 0 and stale + load > 0 then
        local time = now()
        entry[ENDS] = ends - stale
        entry[STALE] = stale > 0 and time >= entry[ENDS]
        local draw = entry[ENDS] + load * early * log(1 - random())
        entry[EARLY] = time >= draw
        entry[ENDS] = time < draw and draw or entry[ENDS]
    end
    return entry
end


-- Reads the value from the dictionary. Returns an entry, nil if there is no value, or nil and the reason.
function _M.read(cache, key, early)
    local dict = cache.dict
    local code, frame = read(dict[1], cache.prefix .. key)
    local number, stripe, ends = tonumber(version[0].number), version[0].stripe, tonumber(version[0]["end"])
    local flags, value, err = 0, nil, nil
    if code == OK then
        flags = frame.flags
        value, err = read_value(dict, frame)
    end
    leave()
    if code == NOT_FOUND then
        return nil
    elseif code ~= OK or err then
        return nil, err or reason(code)
    end
    local exists, guards
    exists, value, guards = decode(cache, flags % 4, value)
    if not exists then
        return nil
    end
    return make_entry(value, number, stripe, ends, guards, flags, early)
end


-- Reads a value that may have expired. Returns three results: the seconds until the value becomes
-- stale (0 if never), nil, and the value. Returns nil if there is no value, or nil and the reason if the read fails.
function _M.peek(cache, key)
    key = cache.prefix .. key
    local value, flags = cache.dict:get_stale(key)
    local left, err = cache.dict:ttl(key)
    if value == nil or not left then
        return nil, value == nil and flags or err ~= "not found" and err or nil
    end
    local kind, stale = parts_of(flags or 0)
    local exists
    exists, value = decode(cache, kind, value)
    if not exists then
        return nil
    end
    return left == 0 and 0 or left - stale / 1000, nil, value
end


-- Returns an array with the value if it has expired but is still in memory, otherwise nil.
function _M.expired(cache, key)
    local left = cache.dict:ttl(cache.prefix .. key)
    local known, _, value = _M.peek(cache, key)
    return known and left and left < 0 and { value } or nil
end


-- Takes the lock away from a load that is under way, so that the load cannot store a value older than the caller's.
-- Returns nil, or the reason on failure: the load may then still store its value.
local function break_load(cache, key)
    key = cache.lock_prefix .. key
    local code = C.holdfast_delete(cache.dict[1], key, #key)
    return code ~= OK and reason(code) or nil
end


-- Stores a value. `holder` is the lock of the load, or nil; `list` is the result of read_tags(); `early` is the option
-- early_refresh. Times are in seconds; a ttl of 0 means that the value never expires, and a negative ttl that the value
-- became stale that many seconds ago.
--
-- Returns an entry for level 1, which has no version if the value has changed since. Returns nil if the load has lost
-- its lock. Returns nil and the reason if the value can never be stored, or if a load cannot be stopped. After any
-- other failure, returns the entry and the reason. If the dictionary has no room for the value, the entry is valid
-- until the next change.
function _M.store(cache, key, value, holder, ttl, stale_ttl, load, early, list)
    local handle, full = cache.dict[1], cache.prefix .. key
    local flags = (list and TAGGED or value == nil and NIL or PLAIN) + 4 * pack(stale_ttl * 1000)
                  + 2 ^ 17 * pack(load * 1000)
    local _, stale = parts_of(flags)
    local exptime = ttl > 0 and ttl + stale / 1000 or ttl < 0 and ttl + stale_ttl or 0
    local kept = value
    if list then
        list.value = value
        kept = list
    elseif value == nil then
        kept = false
    end
    local kind, data, length, number = form_of(cache.dict, kept)
    if not kind then
        return nil, data
    end
    local code, known
    local failed = not holder and break_load(cache, key)
    if failed then
        return nil, failed
    end
    repeat
        C.holdfast_key_version(handle, full, #full, version)
        known = version[0].number
        if holder and not holder:valid() then
            return nil
        end
        version[0].number = known
        code = C.holdfast_store_unless_changed(handle, full, #full, version, kind, data, length, number, exptime, flags,
                                               enter_int())
        leave()
    until code ~= DIFFERS
    failed = not holder and break_load(cache, key)  -- stops a load that began in the meantime
    if failed then
        return { value }, failed
    end
    known = tonumber(version[0].number)
    local stripe, ends, err = version[0].stripe, tonumber(version[0]["end"]), nil
    if code == NO_MEMORY or code == TOO_LARGE then
        err = reason(code)
        ends = exptime > 0 and now() + exptime * 1000 or 0
    elseif code ~= OK then
        return { value }, reason(code)
    end
    local guards = list and check_tags(cache, list)
    if list and not guards then
        return { value }, err
    end
    local entry = make_entry(value, known, stripe, ends, guards, flags, early)
    if err then
        entry[WORD] = false  -- the word of a shard that was never used must not be read, because it has no memory yet
    end
    return entry, err
end


-- Deletes the value. A load that is under way compares versions, but deleting a missing value does not change the
-- version of its key. So if there is no value, this function stores one that soon expires.
function _M.delete(cache, key)
    local failed = break_load(cache, key)
    if failed then
        return nil, failed
    end
    local full = cache.prefix .. key
    if cache.dict:get(full) == nil then
        return cache.dict:set(full, false, GONE_FOR, GONE)
    end
    return cache.dict:delete(full)
end


-- --- the error of the last load ---

-- The bit of the flags that is set if the error is also for callers that did not wait. The other bits are the load's
-- fencing token.
local FOR_ALL = 2 ^ 31

-- How long an error is kept for callers that waited for the load, in seconds.
local FOR_WAITERS = 5


-- Returns the message and the flags, or nil and 0.
function _M.read_error(cache, key)
    local text, flags = cache.dict:get(cache.error_prefix .. key)
    if type(text) ~= "string" then
        return nil, 0
    end
    return text, flags or 0
end


function _M.is_for_all(flags)
    return flags >= FOR_ALL
end


function _M.store_error(cache, key, text, holder, error_ttl)
    local token = holder:token()
    if token and holder:valid() then
        cache.dict:set(cache.error_prefix .. key, text, error_ttl > 0 and error_ttl or FOR_WAITERS,
                       token % FOR_ALL + (error_ttl > 0 and FOR_ALL or 0))
    end
end


function _M.forget_error(cache, key)
    return cache.dict:delete(cache.error_prefix .. key)
end


return _M
