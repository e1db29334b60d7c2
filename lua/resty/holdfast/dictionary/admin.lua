-- The methods for a dictionary as a whole.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local find_gate = require("resty.holdfast.dictionary.gate").find

local C, answer, enter, leave, reason = core.C, core.answer, core.enter, core.leave, core.reason
local check_zone, read_max = checks.check_zone, checks.read_max
local ffi_new, ipairs, tonumber = ffi.new, ipairs, tonumber

local NOT_FOUND, OK = core.NOT_FOUND, core.OK

local stats_type = ffi.typeof("holdfast_stats")

local STATS = {
    "entries", "bytes_used", "bytes_free", "hits", "misses", "evictions", "expirations", "repairs", "mutex_waits",
    "lock_waits", "lock_wakes", "lock_reserved_ms", "lives_unknown", "words_mended",
}

local methods = {}


function methods.flush_all(zone)
    local code = C.holdfast_flush_all(check_zone(zone, "flush_all"))
    return answer(code, true)
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


-- Returns the state of the dictionary's gate.
function methods.cluster(zone)
    local handle = check_zone(zone, "cluster")
    local gate, code = find_gate(handle)
    if gate then
        return gate.state(handle)
    end
    return nil, code == NOT_FOUND and core.sentence(code) or reason(code)
end


function methods.capacity(zone)
    return tonumber(C.holdfast_capacity(check_zone(zone, "capacity")))
end


-- The bytes of the largest value that fits.
function methods.largest_value(zone)
    return tonumber(C.holdfast_largest_value(check_zone(zone, "largest_value")))
end


function methods.free_space(zone)
    return tonumber(C.holdfast_free_space(check_zone(zone, "free_space")))
end


return methods
