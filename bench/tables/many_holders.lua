-- What very many holders of one key cost.

local report, runs, stats = require "bench.support" ("report", "runs", "stats")

local NONE = report.NONE
-- Microseconds.
local TARGET = 5
local FEW, MANY = 10, 10000

local WHAT = { { 4, "refused try" }, { 5, "release" }, { 6, "take again" } }
local NAMES = { rwlock = "read-write lock" }

local _M = {}


-- By column of the line, lists of microseconds, one for each process; or nil and what went wrong.
local function measure(context, kind, holders)
    local lists = {}
    for _ = 1, context.quick and 1 or 5 do
        local lines, err = runs.here(context, "many_holders",
                                     { kind = kind, holders = holders, samples = context.quick and 2 or 20 })
        local words = runs.find(lines, "holders", kind)
        if not words then
            return nil, runs.failed(err)
        end
        for _, entry in ipairs(WHAT) do
            lists[entry[1]] = lists[entry[1]] or {}
            table.insert(lists[entry[1]], words[entry[1]])
        end
    end
    return lists
end


local function shown(times)
    return ("%s µs (%s)"):format(report.digits(stats.median(times)), report.digits(stats.percentile(times, 0)))
end


local function add_rows(context, rows, kind)
    local few = measure(context, kind, FEW)
    local many, err = measure(context, kind, MANY)
    for _, entry in ipairs(WHAT) do
        local what = (NAMES[kind] or kind) .. ", " .. entry[2]
        if few and many then
            local times = many[entry[1]]
            rows[#rows + 1] = { what, shown(few[entry[1]]), shown(times), "<= " .. TARGET .. " µs",
                                report.distance(stats.median(times), TARGET) }
        else
            rows[#rows + 1] = { what, err or NONE, NONE, NONE, NONE }
        end
    end
end


function _M.make(context)
    local rows = {}
    add_rows(context, rows, "semaphore")
    add_rows(context, rows, "rwlock")
    return {
        title = "Many holders of one key",
        headings = { "what", FEW .. " holders", "10,000 holders", "target", "distance" },
        rows = rows,
        note = "Time in the caller, the median (and the least) of five processes. One process has all shares, nobody "
               .. "waits.",
    }
end


return _M
