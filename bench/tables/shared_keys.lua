-- Several processes at once, which read and write the same keys.

local process, report, runs, stats = require "bench.support" ("process", "report", "runs", "stats")

local NONE = report.NONE

-- Name of the case in the lines of results, what it is, and the largest share of the other's time: of two processes,
-- and of more.
local CASES = {
    { "hot_95", "95 % get, 5 % set, 100 keys", 1, 1 },
    { "hot_50", "50 % get, 50 % set, 100 keys", 0.4, 1 },
    { "many_95", "95 % get, 5 % set, 100k keys", 0.35, 0.35 },
    { "many_50", "50 % get, 50 % set, 100k keys", 0.35, 0.35 },
}

local _M = {}


-- Lists by case and side of nanoseconds per step, all processes of a round together.
local function add_up(lines)
    local rates = {}
    for _, words in ipairs(lines or {}) do
        if words[1] == "rate" then
            local key = words[2] .. " " .. words[3]
            local sums = rates[key] or {}
            for i = 4, #words do
                sums[i - 3] = (sums[i - 3] or 0) + words[i]
            end
            rates[key] = sums
        end
    end
    for _, sums in pairs(rates) do
        for round, rate in ipairs(sums) do
            sums[round] = 1e9 / rate
        end
    end
    return rates
end


local function throughput(times)
    return times and ("%.2f M/s"):format(1e3 / stats.median(times)) or NONE
end


local function add_rows(context, rows, workers)
    local told = { rounds = context.quick and 3 or 12, seconds = context.quick and 0.02 or 0.1 }
    local lines, err = runs.in_nginx(context, "shared_keys", told, workers)
    local why_not = context.why_not or (not lines and runs.failed(err)) or nil
    if context.why_not then
        lines, err = runs.here(context, "shared_keys", told, workers)
        why_not = lines and why_not or runs.failed(err)
    end
    local times = add_up(lines)
    for _, case in ipairs(CASES) do
        local mine, other = times[case[1] .. " holdfast"], times[case[1] .. " ngx.shared"]
        local target = workers == 2 and case[3] or case[4]
        local ratio, within, distance = report.ratio(mine and other and stats.ratios(mine, other), target)
        rows[#rows + 1] = { workers .. " processes, " .. case[2], throughput(mine), why_not or throughput(other), ratio,
                            within, "<= " .. target .. "x", distance }
    end
end


function _M.make(context)
    local rows = {}
    add_rows(context, rows, 2)
    local cores = process.cores
    if cores > 2 then
        add_rows(context, rows, cores)
    end
    return {
        title = "Several processes at once",
        headings = { "what", "holdfast", "ngx.shared", "ratio (middle half)", "least-most", "target", "distance" },
        rows = rows,
        note = ("Steps of all processes per second; the ratio is of time per step. This machine has %d cores."):format(
               cores),
    }
end


return _M
