-- The methods that tell how long locks and permits were waited for and held, and which keys had contention.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C, enter, leave, reason = core.C, core.enter, core.leave, core.reason
local check_zone, read_max = checks.check_zone, checks.read_max
local ffi_new, ffi_sizeof, ffi_string = ffi.new, ffi.sizeof, ffi.string
local min, tonumber = math.min, tonumber

local BUCKETS, CONTENDED_KEY_MAX, CONTENDED_MAX = core.BUCKETS, core.CONTENDED_KEY_MAX, core.CONTENDED_MAX
local OK = core.OK

local histogram_type = ffi.typeof("holdfast_histogram")
local contended_type = ffi.typeof("holdfast_contended")
local contended_array = ffi.typeof("holdfast_contended[?]")

-- By holdfast_held and holdfast_time.
local KINDS = { [0] = "lock", "rwlock", "semaphore" }
local TIMES = { [0] = "waited", "held" }

local methods = {}


-- The buckets that are not empty, and what they amount to.
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


function methods.histograms(zone)
    local handle = check_zone(zone, "histograms")
    local counts = ffi_new(histogram_type, ffi_sizeof(histogram_type))
    local histograms = {}
    for held = 0, #KINDS do
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
