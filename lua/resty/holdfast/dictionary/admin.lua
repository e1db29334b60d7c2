-- The methods that concern a dictionary as a whole.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C = core.C
local bad_argument = checks.bad_argument
local check_zone = checks.check_zone
local enter = core.enter
local ffi_new = ffi.new
local floor = math.floor
local grow = core.grow
local ipairs = ipairs
local is_whole = checks.is_whole
local leave = core.leave
local loose_count = checks.loose_count
local reason = core.reason
local tonumber = tonumber
local type = type
local unpack_keys = core.unpack_keys

local BUFFER = core.BUFFER
local OK = core.OK

local cursor_type = ffi.typeof("uint64_t[1]")
local stats_type = ffi.typeof("holdfast_stats")

local CURSOR_MAX = 2 ^ 53
local STATS = {
    "entries", "bytes_used", "bytes_free", "hits", "misses", "evictions", "expirations", "repairs", "mutex_waits",
    "lock_waits", "lock_wakes", "lock_reserved_ms", "lives_unknown",
    "words_mended",
}

local methods = {}


function methods.flush_all(zone)
    local code = C.holdfast_flush_all(check_zone(zone, "flush_all"))
    if code ~= OK then
        return nil, reason(code)
    end
    return true
end


function methods.flush_expired(zone, max_count)
    local handle = check_zone(zone, "flush_expired")
    if max_count == nil then
        max_count = 0
    elseif not is_whole(max_count) then
        max_count = loose_count(max_count) or bad_argument("max_count", "a number", max_count)
    end
    local frame = enter()
    local code = C.holdfast_flush_expired(handle, max_count, frame.count)
    local count = frame.count[0]
    leave()
    if code ~= OK then
        return nil, reason(code)
    end
    return count
end


function methods.get_keys(zone, max_count)
    local handle = check_zone(zone, "get_keys")
    if max_count == nil then
        max_count = 1024
    elseif not is_whole(max_count) then
        max_count = loose_count(max_count) or bad_argument("max_count", "a number", max_count)
    end
    local frame = enter()
    local code = C.holdfast_keys(handle, max_count, frame.value, frame.count)
    while code == BUFFER do
        grow(frame)
        code = C.holdfast_keys(handle, max_count, frame.value, frame.count)
    end
    local keys = code == OK and unpack_keys(frame)
    leave()
    if code ~= OK then
        return nil, reason(code)
    end
    return keys
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
    local keys = code == OK and unpack_keys(frame)
    leave()
    if code ~= OK then
        return nil, reason(code)
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


function methods.capacity(zone)
    return tonumber(C.holdfast_capacity(check_zone(zone, "capacity")))
end


function methods.free_space(zone)
    return tonumber(C.holdfast_free_space(check_zone(zone, "free_space")))
end


return methods
