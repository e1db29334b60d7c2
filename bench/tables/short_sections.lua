-- Two processes that request one lock all the time and hold it for a few microseconds.

local part, report, sides, stats, turns = require "bench.support" ("part", "report", "sides", "stats", "turns")

local _M = {}


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- Two processes without coroutines request one lock all the time and hold it for a few microseconds. Measures one side;
-- the loop in Lua is the same for all sides.

-- The number of steps between two checks of the deadline.
local BATCH = 20


function _M.run(host, options)
    local side = sides.chosen(host, options)
    for _, microseconds in ipairs { 0, 1, 10 } do
        part.rates(host, options, side, microseconds, BATCH, function (loops)
            return loops.short_section(side, microseconds * 1e-6)
        end)
    end
end


-- --- the table ----------------------------------------------------------------------------------------------

local NONE = report.NONE
-- The targets, by the microseconds for which the lock is held: the minimum share of the mutex's acquisitions.
local TARGETS = { [0] = 0.7, [1] = 0.5, [10] = 0.5 }


local function thousands(rates)
    return report.digits(stats.median(rates) / 1000) .. " k/s"
end


local function row(found, microseconds)
    local mine, mutex, flock = found.plain[microseconds], found.mutex[microseconds], found.flock[microseconds]
    local ratios = stats.ratios(mine, mutex)
    local low, high = stats.middle_half(ratios)
    local target = TARGETS[microseconds]
    return {
        microseconds .. " µs", thousands(mine), thousands(mutex), thousands(flock),
        ("%.2fx (%.2f-%.2f)"):format(stats.median(ratios), low, high), ">= " .. target .. "x",
        report.distance(stats.median(ratios), target, true), ("%.2fx"):format(stats.median(stats.ratios(mine, flock))),
    }
end


function _M.make(context)
    local told = { rounds = 3, seconds = context.quick and 0.02 or 0.15 }
    local found, why_not = turns.together(context, "bench/tables/short_sections", told, { "plain", "mutex", "flock" },
                                          { 2 }, context.quick and 1 or 5)
    local rows = {}
    local err = why_not.plain or why_not.mutex or why_not.flock
    for i, microseconds in ipairs(err and {} or { 0, 1, 10 }) do
        rows[i] = row(found[2], microseconds)
    end
    if err then
        rows[1] = { err, NONE, NONE, NONE, NONE, NONE, NONE, NONE }
    end
    return {
        title = "Short critical sections",
        headings = { "lock held", "holdfast", "robust mutex", "flock", "ratio to the mutex (middle half)", "target",
                     "distance", "ratio to flock" },
        rows = rows,
        note = "Acquisitions of two processes together, without coroutines. The sides take turns, in pinned processes.",
    }
end


return _M
