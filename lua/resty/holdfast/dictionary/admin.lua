-- Methods for a whole dictionary: its keys, the holders and waiters of its locks, and its counts. Manual:
-- docs/resty.shdict.md.
--
-- The methods do not yield, except holder() in a cluster. They do not delay other processes, unless a method's comment
-- says otherwise. On failure, they return nil and a string; "dictionary not found" means that the dictionary was
-- removed. A wrong argument raises an error at the line of the call.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local find_gate = require("resty.holdfast.dictionary.gate").find
local lock_info = require "resty.holdfast.lock.lock_info"

local C, answer, enter, grow, leave, reason = core.C, core.answer, core.enter, core.grow, core.leave, core.reason
local bad_argument, bad_whole, check_zone = checks.bad_argument, checks.bad_whole, checks.check_zone
local ffi_new, ffi_sizeof, ffi_string = ffi.new, ffi.sizeof, ffi.string
local floor, ipairs, min, tonumber, type = math.floor, ipairs, math.min, tonumber, type
local is_whole, read_max = checks.is_whole, checks.read_max
local leave_with, unpack_keys = core.leave_with, core.unpack_keys

local BUCKETS, CONTENDED_KEY_MAX, CONTENDED_MAX = core.BUCKETS, core.CONTENDED_KEY_MAX, core.CONTENDED_MAX
local BUFFER, NOT_FOUND, OK = core.BUFFER, core.NOT_FOUND, core.OK
local CURSOR_MAX = 2 ^ 53
-- The number of keys for each call to holdfast_scan_locks. No benchmark covers this constant, because none lists locks.
local LOCKS_AT_ONCE = 1000

local contended_array, contended_type = ffi.typeof("holdfast_contended[?]"), ffi.typeof("holdfast_contended")
local cursor_type = ffi.typeof("uint64_t[1]")
local histogram_type = ffi.typeof("holdfast_histogram")
local stats_type = ffi.typeof("holdfast_stats")

local STATS = {
    "entries", "bytes_used", "bytes_free", "hits", "misses", "evictions", "expirations", "repairs", "mutex_waits",
    "lock_waits", "lock_wakes", "lock_reserved_ms", "lives_unknown", "words_mended",
}

local KINDS = lock_info.KINDS
-- Field names, indexed by holdfast_time.
local TIMES = { [0] = "waited", "held" }

local methods = {}


-- Makes all entries, including held locks, expire at the same instant. Returns true. The memory is reclaimed later.
function methods.flush_all(zone)
    local code = C.holdfast_flush_all(check_zone(zone, "flush_all"))
    return answer(code, true)
end


-- Frees the memory of at most `max_count` expired or flushed values (default 0, which means all). Returns the number of
-- freed values.
function methods.flush_expired(zone, max_count)
    local handle = check_zone(zone, "flush_expired")
    max_count = read_max(max_count, 0)
    local count = enter().count
    return leave_with(count, C.holdfast_flush_expired(handle, max_count, count))
end


-- Returns a table of counts with the fields in STATS.
function methods.stats(zone)
    local counts = ffi_new(stats_type)
    local code = C.holdfast_dict_stats(check_zone(zone, "stats"), counts)
    if code ~= OK then
        return nil, reason(code)
    end
    local stats = {}
    for _, name in ipairs(STATS) do
        stats[name] = tonumber(counts[name])
    end
    return stats
end


-- Returns a table with the state of the dictionary's cluster, or nil and a message if it belongs to none.
function methods.cluster(zone)
    local handle = check_zone(zone, "cluster")
    local gate, code = find_gate(handle)
    if gate then
        return gate.state(handle)
    end
    return nil, code == NOT_FOUND and core.sentence(code) or reason(code)
end


-- Returns the size of the dictionary in bytes, or 0 if it was removed.
function methods.capacity(zone)
    return tonumber(C.holdfast_capacity(check_zone(zone, "capacity")))
end


-- Returns the size in bytes of the largest value that fits under a key of up to 256 bytes, or 0 if the dictionary was
-- removed.
function methods.largest_value(zone)
    return tonumber(C.holdfast_largest_value(check_zone(zone, "largest_value")))
end


-- Returns the number of free bytes. Expired values and released locks count as occupied until their memory is needed.
function methods.free_space(zone)
    return tonumber(C.holdfast_free_space(check_zone(zone, "free_space")))
end


-- --- keys, holders and waiters ---

-- Leaves the frame and returns the keys in it, or nil and the reason if the call failed.
local function keys_in(frame, code)
    local keys = code == OK and unpack_keys(frame)
    leave()
    return answer(code, keys)
end


-- Returns an array of at most `max_count` keys (default 1024; 0 means all), in no particular order.
function methods.get_keys(zone, max_count)
    local handle = check_zone(zone, "get_keys")
    max_count = read_max(max_count, 1024)
    local frame = enter()
    local code = C.holdfast_keys(handle, max_count, frame.value, frame.count)
    while code == BUFFER do
        grow(frame)
        code = C.holdfast_keys(handle, max_count, frame.value, frame.count)
    end
    return keys_in(frame, code)
end


local function is_cursor(number)
    return type(number) == "number" and number >= 0 and number < CURSOR_MAX and number == floor(number)
end


-- Returns an array of keys, which the function `call` reads (holdfast_scan or holdfast_scan_locks), and sets `cursor`
-- to the next cursor. On failure, returns nil and the reason.
local function scan(call, handle, cursor, count, prefix)
    local frame = enter()
    local code = call(handle, cursor, count, prefix, #prefix, frame.value, frame.count)
    while code == BUFFER do
        grow(frame)
        code = call(handle, cursor, count, prefix, #prefix, frame.value, frame.count)
    end
    return keys_in(frame, code)
end


local function check_prefix(prefix)
    if prefix ~= nil and type(prefix) ~= "string" then
        bad_argument("prefix", "a string", prefix, 4)
    end
    return prefix or ""
end


-- Iterates over the keys in steps. The first call gets cursor 0; each further call gets the cursor that the previous
-- call returned. Returns the next cursor (0 at the end) and an array of about `count` keys (default 1000) that begin
-- with `prefix` (default ""). A key that exists during the whole iteration is returned exactly once.
function methods.scan(zone, cursor, count, prefix)
    local handle = check_zone(zone, "scan")
    if not is_cursor(cursor) then
        bad_argument("cursor", "0 or the cursor that scan returned last", cursor)
    end
    if count == nil then
        count = 1000
    elseif not is_whole(count) or count == 0 then
        bad_argument("count", "a whole number from 1 to 4294967295", count)
    end
    prefix = check_prefix(prefix)

    local next_cursor = ffi_new(cursor_type, cursor)
    local keys, err = scan(C.holdfast_scan, handle, next_cursor, count, prefix)
    if not keys then
        return nil, err
    end
    return tonumber(next_cursor[0]), keys
end


-- Adds a description of each key to `locks`, and returns true. If a key cannot be read, stops there, because each
-- further key of the same shard would take just as long, and returns nil and the reason.
local function describe_locks(handle, keys, locks, lives)
    for _, key in ipairs(keys) do
        local holders, waiters = lock_info.peek(handle, key, lock_info.DEFAULT_MAX, lives)
        if not holders then
            return nil, waiters
        end
        if holders[1] or waiters > 0 then
            locks[#locks + 1] = { key = key, kind = holders[1] and holders[1].kind, waiters = waiters,
                                  holders = holders }
        end
    end
    return true
end


-- Returns an array, in no particular order, with { key, kind, holders, waiters } for each key that has holders or
-- waiters and begins with `prefix` (default ""). Lists at most 100 holders per key. Returns nil and "timeout" if a key
-- changes too often to be read.
function methods.locks(zone, prefix)
    local handle = check_zone(zone, "locks")
    prefix = check_prefix(prefix)
    local locks, lives, cursor = {}, {}, ffi_new(cursor_type)
    repeat
        local keys, err = scan(C.holdfast_scan_locks, handle, cursor, LOCKS_AT_ONCE, prefix)
        local ok = keys and true
        if keys then
            ok, err = describe_locks(handle, keys, locks, lives)
        end
        if not ok then
            return nil, err
        end
    until cursor[0] == 0
    return locks
end


-- The following methods return the holder, at most `max` holders (default 100), or the number of waiters of a key, like
-- the methods with the same names in resty.lock.
function methods.holder(zone, key)
    return lock_info.find(check_zone(zone, "holder"), key)
end


function methods.holders(zone, key, max)
    local handle = check_zone(zone, "holders")
    if max ~= nil and not is_whole(max) then
        bad_whole("max", max)
    end
    return lock_info.find_all(handle, key, max)
end


function methods.waiters(zone, key)
    return lock_info.count_waiters(check_zone(zone, "waiters"), key)
end


-- --- wait and hold times of locks and permits, and the keys with the most contention ---

-- Describes a histogram: its nonempty buckets, and their statistics.
local function describe(counts)
    local buckets = {}
    for i = 0, BUCKETS - 1 do
        local count = tonumber(counts.buckets[i])
        if count > 0 then
            buckets[#buckets + 1] = { le = C.holdfast_bucket_end(i), count = count }
        end
    end
    return {
        count = tonumber(counts.count), sum = counts.sum, max = counts.max,
        p50 = C.holdfast_quantile(counts, 0.5), p90 = C.holdfast_quantile(counts, 0.9),
        p99 = C.holdfast_quantile(counts, 0.99), buckets = buckets,
    }
end


-- Returns histograms of the waits and holds since the dictionary was created, in seconds. The fields lock, rwlock and
-- semaphore each have the fields `waited` and `held`. These have count, sum, max, p50, p90, p99 and buckets { le, count
-- }.
function methods.histograms(zone)
    local handle = check_zone(zone, "histograms")
    local counts = ffi_new(histogram_type, ffi_sizeof(histogram_type))
    local histograms = {}
    for held = core.HELD_LOCK, core.HELD_SEMAPHORE do
        local of_kind = {}
        for time = 0, #TIMES do
            local code = C.holdfast_dict_histogram(handle, held, time, counts)
            if code ~= OK then
                return nil, reason(code)
            end
            of_kind[TIMES[time]] = describe(counts)
        end
        histograms[KINDS[held]] = of_kind
    end
    return histograms
end


-- Returns an array of at most `max_count` keys (default and limit: 64) with the most contention, the worst first. Each
-- element has key (truncated to 72 bytes), key_length, kind, waits, wait_time (s), timeouts and refused.
function methods.contention(zone, max_count)
    local handle = check_zone(zone, "contention")
    max_count = min(read_max(max_count, CONTENDED_MAX), CONTENDED_MAX)
    local found = ffi_new(contended_array, CONTENDED_MAX)
    local frame = enter()
    local code = C.holdfast_dict_contention(handle, found, ffi_sizeof(contended_type),
                                            max_count > 0 and max_count or CONTENDED_MAX, frame.count)
    local count = frame.count[0]
    leave()
    if code ~= OK then
        return nil, reason(code)
    end
    local keys = {}
    for i = 1, count do
        local one = found[i - 1]
        keys[i] = {
            key = ffi_string(one.key, min(one.key_length, CONTENDED_KEY_MAX)), key_length = one.key_length,
            kind = KINDS[one.kind], waits = tonumber(one.waits), wait_time = one.wait_time,
            timeouts = tonumber(one.timeouts), refused = tonumber(one.refused),
        }
    end
    return keys
end


return methods
