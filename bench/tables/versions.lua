-- Compares the same operations on dictionaries without and with versions.

local report, runs, stats, turns = require "bench.support" ("report", "runs", "stats", "turns")
local cases = require "bench.cases"

local NONE = report.NONE

local _M = {}


-- --- measured in a new process -----------------------------------------------------------------------------------

-- Emits how many numbers a dictionary of 1 MB holds.
function _M.run(host)
    for _, versions in ipairs { false, true } do
        local name = versions and "filled_with" or "filled"
        local dict = assert(require("resty.shdict").open(name, { size = "1m", persist = false, versions = versions }))
        local count = 0
        while dict:safe_set(("k%08d"):format(count + 1), count) do
            count = count + 1
        end
        host.emit("entries", versions and "with" or "without", count)
    end
end


-- --- the table -----------------------------------------------------------------------------------------------------

function _M.make(context)
    local rows = {}
    local told = { quick = context.quick and 1 or nil }
    for _, case in ipairs(cases) do
        if case.dict == "bench_hot" and not case.name:find("string") then
            told.case = case.name
            local found, why_not = turns.compare(context, "alone", told, { "plain", "versions" })
            local without, with = found.plain[case.name], found.versions[case.name]
            rows[#rows + 1] = { case.what, report.spread(without) or why_not.plain or NONE,
                                report.spread(with) or why_not.versions or NONE,
                                (report.ratio(with and without and stats.ratios(with, without))) }
        end
    end
    local lines, err = runs.here(context, "bench/tables/versions", {})
    local without, with = runs.find(lines, "entries", "without"), runs.find(lines, "entries", "with")
    rows[#rows + 1] = { "numbers in 1 MB", without and tostring(without[3]) or runs.failed(err),
                        with and tostring(with[3]) or NONE,
                        with and without and ("%.2fx"):format(with[3] / without[3]) or NONE }
    return {
        title = "Dictionaries with versions",
        headings = { "what", "without versions", "with versions", "ratio (middle half)" },
        rows = rows,
        note = "Nanoseconds of processor time per step, in plain LuaJIT: the minimum; the median (and the middle half) "
               .. "of processes. Each process runs only one side, and the sides take turns.",
    }
end


return _M
