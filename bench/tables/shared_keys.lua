-- Several processes that read and write the same keys concurrently.

local keys, part, process, report, sides, stats, turns =
    require "bench.support" ("keys", "part", "process", "report", "sides", "stats", "turns")

local _M = {}


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- Several processes read and write the same keys concurrently. Measures one side.

-- The number of steps between two checks of the clock.
local BATCH = 1000


-- Returns the keys rotated, so that each process starts at a different key.
local function turned(list, share)
    local at, copy = math.floor(#list * share), {}
    for i = 1, #list do
        copy[i] = list[(at + i - 1) % #list + 1]
    end
    return copy
end


function _M.run(host, options)
    local side = sides.chosen(host, options)
    -- `name` is the name of the case, and `reads` the number of reads for each write.
    local function measure(name, list, dict, reads)
        local mine = turned(list, side.dict("bench_sync"):incr(name .. " number", 1, -1) / host.workers)
        part.rates(host, options, side, name, BATCH, function (loops)
            return loops.mixed(side.dict(dict), mine, reads)
        end)
    end
    local hot, many = keys.drawn(100, 100000), keys.shuffled(100000)
    measure("hot_95", hot, "bench_hot", 19)
    measure("hot_50", hot, "bench_hot", 1)
    measure("many_95", many, "bench_100k", 19)
    measure("many_50", many, "bench_100k", 1)
end


-- --- the table ----------------------------------------------------------------------------------------------

local NONE = report.NONE

-- For each case, its name in the lines of results, its description, and the largest acceptable share of the other
-- side's time for two processes and for more.
local CASES = {
    { "hot_95", "95 % get, 5 % set, 100 keys", 1, 1 },
    { "hot_50", "50 % get, 50 % set, 100 keys", 0.4, 1 },
    { "many_95", "95 % get, 5 % set, 100k keys", 0.35, 0.35 },
    { "many_50", "50 % get, 50 % set, 100k keys", 0.35, 0.35 },
}


-- Converts rates of all processes together to nanoseconds per step.
local function times_of(rates)
    return rates and stats.map(rates, function (rate) return 1e9 / rate end)
end


local function throughput(times)
    return times and ("%.2f M/s"):format(1e3 / stats.median(times)) or NONE
end


local function row(found, why_not, case, workers)
    local mine, other = times_of(found.ours[case[1]]), times_of(found.peer[case[1]])
    local target = workers == 2 and case[3] or case[4]
    local ratio, within, distance = report.ratio(mine and other and stats.ratios(mine, other), target)
    return { workers .. " processes, " .. case[2], mine and throughput(mine) or why_not.ours or NONE,
             other and throughput(other) or why_not.peer or NONE, ratio, within, "<= " .. target .. "x", distance }
end


function _M.make(context)
    local told = { rounds = 3, seconds = context.quick and 0.02 or 0.1 }
    local counts = process.cores() > 2 and { 2, process.cores() } or { 2 }
    local found, why_not = turns.together(context, "bench/tables/shared_keys", told, { "ours", "peer" }, counts,
                                          context.quick and 1 or 5)
    local rows = {}
    for _, count in ipairs(counts) do
        for _, case in ipairs(CASES) do
            rows[#rows + 1] = row(found[count], why_not, case, count)
        end
    end
    return {
        title = "Several processes at once",
        headings = { "what", "holdfast", "ngx.shared", "ratio (middle half)", "least-most", "target", "distance" },
        rows = rows,
        note = ("Steps of all processes per second; the ratio is of time per step. The sides take turns, in pinned "
                .. "workers of separate nginx instances. This machine has %d cores."):format(process.cores()),
    }
end


return _M
