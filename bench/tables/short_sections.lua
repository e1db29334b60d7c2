-- Two processes that want one lock all the time, and have it for a few microseconds.

local report, runs, stats = require "bench.support" ("report", "runs", "stats")

local NONE = report.NONE
local TARGET = 0.5

local _M = {}


-- Of all processes together: steps per second in each round, by duration and side.
local function add_up(lines)
    local sums = {}
    for _, words in ipairs(lines) do
        if words[1] == "rate" then
            local key = words[2] .. " " .. words[3]
            sums[key] = sums[key] or {}
            for i = 4, #words do
                sums[key][i - 3] = (sums[key][i - 3] or 0) + words[i]
            end
        end
    end
    return sums
end


local function thousands(rates)
    return report.digits(stats.median(rates) / 1000) .. " k/s"
end


local function row(sums, microseconds)
    local mine, mutex, flock = sums[microseconds .. " holdfast"], sums[microseconds .. " robust mutex"],
        sums[microseconds .. " flock"]
    local ratios = stats.ratios(mine, mutex)
    local low, high = stats.middle_half(ratios)
    return {
        microseconds .. " µs", thousands(mine), thousands(mutex), thousands(flock),
        ("%.2fx (%.2f-%.2f)"):format(stats.median(ratios), low, high), ">= " .. TARGET .. "x",
        report.distance(stats.median(ratios), TARGET, true),
        ("%.2fx"):format(stats.median(stats.ratios(mine, flock))),
    }
end


function _M.make(context)
    local told = { rounds = context.quick and 3 or 10, seconds = context.quick and 0.02 or 0.15 }
    local lines, err = runs.here(context, "short_sections", told, 2)
    local rows = {}
    if lines then
        local sums = add_up(lines)
        for i, microseconds in ipairs { 0, 1, 10 } do
            rows[i] = row(sums, microseconds)
        end
    else
        rows[1] = { runs.failed(err), NONE, NONE, NONE, NONE, NONE, NONE, NONE }
    end
    return {
        title = "Short critical sections",
        headings = { "lock held", "holdfast", "robust mutex", "flock", "ratio to the mutex (middle half)", "target",
                     "distance", "ratio to flock" },
        rows = rows,
        note = "Acquisitions of two processes together, without coroutines, in the same processes in turns.",
    }
end


return _M
