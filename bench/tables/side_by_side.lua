-- The cases of bench/cases.lua, each of them alone and all of them mixed.

local report, stats, turns = require "bench.support" ("report", "stats", "turns")
local cases = require "bench.cases"

local NONE = report.NONE
-- The target for set with exptime: at most this many times the time of a set without it.
local EXPTIME_TARGET = 1.3
-- The target for lock + unlock: at most this many times the time of a robust mutex.
local MUTEX_TARGET = 1.8

local _M = {}


-- --- measuring ------------------------------------------------------------------------------------------

-- Adds the results of one way: the lists of times by key and case, the reasons for missing times, and the label.
local function add(found, way, times, why_not, label)
    for key, lists in pairs(times) do
        local all = found.times[way][key] or {}
        found.times[way][key] = all
        for case, list in pairs(lists) do
            all[case] = list
        end
        found.why_not[key] = found.why_not[key] or why_not[key]
    end
    found.label = found.label or label
end


-- Returns `found`: found.times[way][key][case] is a list with a value for each process; the way is "alone" or "mixed",
-- and the key is the side's key. keys_of(case) returns the sides of a case alone; `mixed` contains the sides of the
-- mixes.
local function measure(context, is_wanted, keys_of, mixes, mixed)
    local found = { times = { alone = {}, mixed = {} }, why_not = {} }
    local quick = context.quick and 1 or nil
    for _, case in ipairs(cases) do
        if is_wanted(case) then
            add(found, "alone", turns.compare(context, "alone", { case = case.name, quick = quick }, keys_of(case)))
        end
    end
    for _, mix in ipairs(mixes) do
        add(found, "mixed", turns.compare(context, "mixed", { mix = mix, quick = quick }, mixed))
    end
    return found
end


-- --- tables ---------------------------------------------------------------------------------------------

-- Returns the cells after the name for one case, measured in one way on two sides.
local function cells(found, way, case, mine, theirs, target)
    local ours = (found.times[way][mine] or {})[case]
    local others = (found.times[way][theirs] or {})[case]
    local ratio, _, distance = report.ratio(ours and others and stats.ratios(ours, others), target)
    return ours and report.spread(ours) or found.why_not[mine] or NONE,
        others and report.spread(others) or found.why_not[theirs] or NONE, ratio,
        target and "<= " .. target .. "x" or NONE, distance
end


local function case_rows(found, is_wanted, mine, theirs)
    local rows = {}
    for _, case in ipairs(cases) do
        for _, way in ipairs(is_wanted(case) and { "alone", "mixed" } or {}) do
            if way == "alone" or (found.times.mixed[mine] or {})[case.name] then
                rows[#rows + 1] = { case.what .. ", " .. way,
                                    cells(found, way, case.name, mine, theirs, theirs and case.target) }
            end
        end
    end
    return rows
end


local HEADINGS = { "what", "holdfast", "ngx.shared", "ratio (middle half)", "target", "distance" }
local READING = "Nanoseconds of processor time per step: the minimum; the median (and the middle half) of processes."
    .. " Each process runs only one side, and the sides take turns."


local function beside_nginx(found, is_wanted, title)
    return {
        title = title,
        headings = HEADINGS,
        rows = case_rows(found, is_wanted, "ours", "peer"),
        note = READING .. " Both run in workers of nginx."
               .. (found.label and " Locks: beside " .. found.label .. " on ngx.shared." or ""),
    }
end


local function in_plain_luajit(found, is_wanted)
    local rows = {}
    for i, row in ipairs(case_rows(found, is_wanted, "plain")) do
        rows[i] = { row[1], row[2] }
    end
    return {
        title = "The same in plain LuaJIT",
        headings = { "what", "holdfast" },
        rows = rows,
        note = READING,
    }
end


-- Compares two cases of holdfast.
local function exptime_table(found, key)
    local rows = {}
    for i, way in ipairs { "alone", "mixed" } do
        local times = found.times[way][key] or {}
        local with, without = times.set_exptime, times.set_hot
        local ratio, _, distance = report.ratio(with and without and stats.ratios(with, without), EXPTIME_TARGET)
        rows[i] = { "set with exptime, one number, " .. way, with and report.spread(with) or NONE,
                    without and report.spread(without) or NONE, ratio, "<= " .. EXPTIME_TARGET .. "x", distance }
    end
    return {
        title = "With exptime and without",
        headings = { "what", "with", "without", "ratio (middle half)", "target", "distance" },
        rows = rows,
        note = READING,
    }
end


local function beside_the_system(found)
    local rows = {}
    for _, way in ipairs { "alone", "mixed" } do
        rows[#rows + 1] = { "robust mutex, " .. way,
                            cells(found, way, "lock_unlock", "plain", "mutex", MUTEX_TARGET) }
    end
    rows[#rows + 1] = { "flock, alone", cells(found, "alone", "lock_unlock", "plain", "flock") }
    return {
        title = "Lock and unlock, beside the system's locks",
        headings = { "beside", "holdfast", "the other", "ratio (middle half)", "target", "distance" },
        rows = rows,
        note = READING .. " All run in plain LuaJIT.",
    }
end


-- --- for each suite -------------------------------------------------------------------------------------

-- Returns the sides of a case: locks also run in plain LuaJIT, and one case is compared with the system's locks.
local function keys_of(case)
    return case.name == "lock_unlock" and { "ours", "peer", "plain", "mutex", "flock" } or { "ours", "peer", "plain" }
end


-- The tables of `make bench`.
function _M.some(context)
    local function is_wanted(case) return case.both end
    local found = measure(context, is_wanted, keys_of, { "hot", "many" }, { "ours", "peer", "plain", "mutex" })
    return beside_nginx(found, is_wanted, "Side by side"), in_plain_luajit(found, is_wanted),
        exptime_table(found, "plain"), beside_the_system(found)
end


-- The tables of `make bench-peers`.
function _M.dictionaries(context)
    local function is_wanted(case) return not case.lock end
    local both = { "ours", "peer" }
    local found = measure(context, is_wanted, function () return both end, { "hot", "many" }, both)
    return beside_nginx(found, is_wanted, "Side by side"), exptime_table(found, "ours")
end


-- The tables of `make bench-locks`.
function _M.locks(context)
    local function is_wanted(case) return case.lock end
    local found = measure(context, is_wanted, keys_of, { "hot" }, { "ours", "peer", "plain", "mutex" })
    return beside_nginx(found, is_wanted, "Locks without contention"), in_plain_luajit(found, is_wanted),
        beside_the_system(found)
end


return _M
