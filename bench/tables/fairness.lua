-- Eight contenders that all want the same lock: how often the luckiest and the unluckiest of them get it.

local contention, report = require "bench.support" ("contention", "report")

local NONE = report.NONE

-- The other rows run for a shorter time, because they only show how the grants are distributed.
local PROCESSES = { workers = 8, coroutines = 0, held = 0.00001, busy = 1, what = "8 processes, held 10 µs, busy" }
local SHORT = { workers = 8, coroutines = 0, held = 0, busy = 1, what = "8 processes, held 0 µs, busy" }
local MANY = { workers = 64, coroutines = 0, held = 0.00001, busy = 1, what = "64 processes, held 10 µs, busy" }
local COROUTINES = { workers = 2, coroutines = 4, held = 0.001, what = "2 processes x 4 coroutines, held 1 ms, asleep" }

local _M = {}


local function range(counts)
    local least, most = math.huge, 0
    for _, count in ipairs(counts) do
        least, most = math.min(least, count), math.max(most, count)
    end
    return least, most
end


-- `side` is a side of bench/support/sides.lua, or "nginx". `fair` is 1 for the strict order, which only holdfast
-- offers.
local function row(context, contenders, label, side, seconds, fair)
    local name = side == "nginx" and side or label
    local result = contention.compare(context, { {
        name = name, side = side, workers = contenders.workers, coroutines = contenders.coroutines, seconds = seconds,
    } }, { held = contenders.held, busy = contenders.busy, pause = 0, fair = fair }, 1)[name]
    if not result.rate then
        return { contenders.what, label, result.rate_text, NONE, NONE, NONE, NONE }
    end
    local least, most = range(result.counts)
    return { contenders.what, label, result.rate_text, tostring(least), tostring(most),
             least > 0 and ("%.2f"):format(most / least) or "some got nothing", result.longest_text }
end


function _M.make(context)
    local long, short = context.quick and 0.5 or 10, context.quick and 0.5 or 4
    return {
        title = "Fairness among many contenders",
        headings = { "contenders", "lock", "acquisitions", "least served", "most served", "most / least",
                     "longest wait" },
        rows = {
            row(context, PROCESSES, "holdfast", "holdfast", long),
            row(context, PROCESSES, "holdfast, fair", "holdfast", long, 1),
            row(context, PROCESSES, "robust mutex", "robust_mutex", short),
            row(context, PROCESSES, "flock", "flock", short),
            row(context, SHORT, "holdfast", "holdfast", short),
            row(context, SHORT, "robust mutex", "robust_mutex", short),
            row(context, MANY, "holdfast", "holdfast", short),
            row(context, MANY, "robust mutex", "robust_mutex", short),
            row(context, COROUTINES, "holdfast", "holdfast", long),
            row(context, COROUTINES, "holdfast, fair", "holdfast", long, 1),
            row(context, COROUTINES, "lua-resty-lock", "nginx", short),
        },
    }
end


return _M
