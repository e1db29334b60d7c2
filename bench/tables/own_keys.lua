-- The total throughput of processes that share a dictionary but no keys, by the number of processes.

local part, process, report, sides, stats, turns =
    require "bench.support" ("part", "process", "report", "sides", "stats", "turns")

local _M = {}


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- Each process locks, or sets, a key that no other process uses, in a dictionary that all processes share.

-- The number of steps between two checks of the deadline.
local BATCH = 1000


function _M.run(host, options)
    local side = sides.chosen(host, options)
    part.rates(host, options, side, "lock", BATCH, function (loops)
        return loops.own_key(side, host.number)
    end)
    if not side.system then
        part.rates(host, options, side, "set", BATCH, function (loops)
            return loops.own_set(side.dict("bench_hot"), host.number)
        end)
    end
end


-- --- the table ----------------------------------------------------------------------------------------------

local NONE = report.NONE
-- The target: the minimum ratio of the throughput of two processes to the throughput of one.
local TARGET = 1.8

local SIDES = {
    { key = "plain", label = "holdfast" },
    { key = "peer", label = "lua-resty-lock" },
    { key = "mutex", label = "a robust mutex each" },
}
local SET_SIDES = { { key = "plain", label = "holdfast" }, { key = "peer", label = "ngx.shared" } }


-- Formats "25.1 M/s, 1.95x": the throughput of all processes together, and the ratio to the throughput of one alone.
local function shown(rates, of_one, why_not)
    if not rates then
        return why_not or NONE
    end
    return ("%s M/s, %.2fx"):format(report.digits(stats.median(rates) / 1e6), stats.median(stats.ratios(rates, of_one)))
end


local function rows_of(context, found, why_not, counts, case, what, wanted)
    local rows = {}
    for _, count in ipairs(counts) do
        local row = { ("%s, %d %s"):format(what, count, count == 1 and "process" or "processes") }
        for _, side in ipairs(wanted) do
            local rates, of_one = found[count][side.key][case], found[1][side.key][case]
            row[#row + 1] = shown(rates, of_one, why_not[side.key])
            if rates and case == "lock" and #counts > 2 then
                context.figures:add("own_keys", side.label, count, stats.median(rates) / 1e6)
            end
        end
        local mine, of_one = found[count].plain[case], found[1].plain[case]
        local has_target = count == 2 and case == "lock" and mine and process.cores() >= 2
        row[#row + 1] = has_target and ">= " .. TARGET .. "x" or NONE
        row[#row + 1] = has_target and report.distance(stats.median(stats.ratios(mine, of_one)), TARGET, true) or NONE
        rows[#rows + 1] = row
    end
    return rows
end


local function table_of(title, wanted, rows)
    local headings = { "what" }
    for _, side in ipairs(wanted) do
        headings[#headings + 1] = side.label
    end
    headings[#headings + 1] = "target"
    headings[#headings + 1] = "distance"
    return {
        title = title,
        headings = headings,
        rows = rows,
        note = ("The rate of all processes together, and its ratio to the rate of one process. Each process has "
                .. "its own key, in one dictionary of 1 MB. The sides take turns, in pinned processes. This machine "
                .. "has %d cores."):format(process.cores()),
    }
end


-- `counts` is a list of numbers of processes, which begins with 1.
local function make(context, counts)
    local told = { rounds = 3, seconds = context.quick and 0.02 or 0.1 }
    local found, why_not = turns.together(context, "bench/tables/own_keys", told,
                                          stats.map(SIDES, function (side) return side.key end), counts,
                                          context.quick and 1 or 5)
    return table_of("Each process with its own key: lock and unlock", SIDES,
                    rows_of(context, found, why_not, counts, "lock", "lock + unlock", SIDES)),
        table_of("Each process with its own key: set", SET_SIDES,
                 rows_of(context, found, why_not, counts, "set", "set", SET_SIDES))
end


function _M.some(context)
    return make(context, { 1, 2 })
end


-- Makes the tables for 1, 2, 4 and 8 processes, and for one process per core.
function _M.all(context)
    local counts, has_cores = { 1, 2, 4, 8 }, false
    for _, count in ipairs(counts) do
        has_cores = has_cores or count == process.cores()
    end
    if not has_cores then
        table.insert(counts, process.cores())
        table.sort(counts)
    end
    return make(context, context.quick and { 1, 2 } or counts)
end


return _M
