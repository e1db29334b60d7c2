-- The methods for a dictionary as a whole.

local checks = require "resty.holdfast.dictionary.checks"
local cluster = require "resty.holdfast.lock.cluster"
local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C, answer, enter, grow, leave, reason = core.C, core.answer, core.enter, core.grow, core.leave, core.reason
local bad_argument, check_zone = checks.bad_argument, checks.check_zone
local ffi_new, floor, ipairs, tonumber, type = ffi.new, math.floor, ipairs, tonumber, type
local is_whole, loose_count = checks.is_whole, checks.loose_count
local unpack_keys = core.unpack_keys

local BUFFER, OK = core.BUFFER, core.OK

local cursor_type = ffi.typeof("uint64_t[1]")
local stats_type = ffi.typeof("holdfast_stats")

local CURSOR_MAX = 2 ^ 53
local STATS = {
    "entries", "bytes_used", "bytes_free", "hits", "misses", "evictions", "expirations", "repairs", "mutex_waits",
    "lock_waits", "lock_wakes", "lock_reserved_ms", "lives_unknown", "words_mended",
}

local methods = {}


function methods.flush_all(zone)
    local code = C.holdfast_flush_all(check_zone(zone, "flush_all"))
    return answer(code, true)
end


-- Reads how many at most. The line to blame is the method's caller.
local function read_max(max_count, default)
    if max_count == nil then
        return default
    elseif is_whole(max_count) then
        return max_count
    end
    return loose_count(max_count) or bad_argument("max_count", "a number", max_count, 4)
end


function methods.flush_expired(zone, max_count)
    local handle = check_zone(zone, "flush_expired")
    max_count = read_max(max_count, 0)
    local frame = enter()
    local code = C.holdfast_flush_expired(handle, max_count, frame.count)
    local count = frame.count[0]
    leave()
    return answer(code, count)
end


-- The keys in the frame, which is left; nil and the reason.
local function keys_in(frame, code)
    local keys = code == OK and unpack_keys(frame)
    leave()
    return answer(code, keys)
end


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


function methods.scan(zone, cursor, count, prefix)
    local handle = check_zone(zone, "scan")
    if not is_cursor(cursor) then
        bad_argument("cursor", "0 or what scan returned last", cursor)
    end
    if count == nil then
        count = 1000
    elseif not is_whole(count) or count == 0 then
        bad_argument("count", "a whole number, 1 to 4294967295,", count)
    end
    if prefix == nil then
        prefix = ""
    elseif type(prefix) ~= "string" then
        bad_argument("prefix", "a string", prefix)
    end

    local cursor_ptr = ffi_new(cursor_type, cursor)
    local frame = enter()
    local code = C.holdfast_scan(handle, cursor_ptr, count, prefix, #prefix, frame.value, frame.count)
    while code == BUFFER do
        grow(frame)
        code = C.holdfast_scan(handle, cursor_ptr, count, prefix, #prefix, frame.value, frame.count)
    end
    local keys, err = keys_in(frame, code)
    if not keys then
        return nil, err
    end
    return tonumber(cursor_ptr[0]), keys
end


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


-- The session of the cluster that the dictionary belongs to.
function methods.cluster(zone)
    return cluster.find(check_zone(zone, "cluster"))
end


function methods.capacity(zone)
    return tonumber(C.holdfast_capacity(check_zone(zone, "capacity")))
end


function methods.free_space(zone)
    return tonumber(C.holdfast_free_space(check_zone(zone, "free_space")))
end


return methods
