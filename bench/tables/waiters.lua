-- Many that wait: what they cost while nothing happens, what memory they take, how soon all of them go on, and how soon
-- where they want the same.

local report, runs, stats = require "bench.support" ("report", "runs", "stats")

local NONE = report.NONE
-- Percent of a core.
local IDLE_TARGET = 0.2
-- Bytes of a waiting coroutine.
local WAITER_TARGET = 1600
-- Milliseconds.
local ONE_VALUE_TARGET = 3

local _M = {}


-- --- memory, and going on -----------------------------------------------------------------------------

local MEMORY = { { "Lua", 3 }, { "C and C++", 4 }, { "shared", 5 } }


-- Column `place` of the line of each round.
local function median_of(rounds, name, place)
    local values = {}
    for i, lines in ipairs(rounds) do
        values[i] = runs.find(lines, name)[place]
    end
    return stats.median(values)
end


local function crowd_column(rounds, why_not)
    local column = {}
    if not rounds[1] then
        return { why_not, NONE, NONE, NONE, NONE, NONE, NONE }
    end
    local sum = 0
    for i, entry in ipairs(MEMORY) do
        local bytes = median_of(rounds, "crowd", entry[2])
        sum = sum + bytes
        column[i + 1] = ("%.0f"):format(bytes)
    end
    column[1] = ("%.0f"):format(sum)
    column[5] = report.digits(median_of(rounds, "released", 3) * 1e3) .. " ms"
    column[6] = report.digits(median_of(rounds, "crowd", 6) * 1e3) .. " ms"
    column[7] = report.digits(median_of(rounds, "crowd", 7) * 1e3) .. " ms"
    return column
end


local function crowd(context)
    local count = context.quick and 1000 or 10000
    local here, there, err, why_not = {}, {}, nil, context.why_not
    for _ = 1, context.quick and 1 or 3 do
        local told = { count = count }
        local lines
        lines, err = runs.here(context, "crowd", told, 2)
        here[#here + 1] = lines
        if context.nginx then
            told.only = "peer"
            lines, why_not = runs.in_nginx(context, "crowd", told, 2)
            there[#there + 1] = lines
        end
    end
    local mine = crowd_column(here, not here[1] and runs.failed(err))
    local theirs = crowd_column(there, not there[1] and (context.why_not or runs.failed(why_not)))
    local rows = {}
    for i, what in ipairs { "bytes per waiter", "  of Lua", "  of C and C++", "  of shared memory",
                            "releasing all", "first release to first resume", "first release to last resume" } do
        rows[i] = { what, mine[i], theirs[i], NONE, NONE }
    end
    local bytes = tonumber(mine[1])
    rows[1][4] = "<= " .. WAITER_TARGET
    rows[1][5] = bytes and report.distance(bytes, WAITER_TARGET) or NONE
    return {
        title = ("%d coroutines of one process, each waits for a lock of its own"):format(count),
        headings = { "what", "holdfast", "lua-resty-lock", "target", "distance" },
        rows = rows,
        note = "Another process holds all of the locks and releases one after the other. Medians of all rounds.",
    }
end


-- --- doing nothing ------------------------------------------------------------------------------------

-- Percent of a core that all waiting processes use together.
local function add_idle(list, lines)
    local sum = 0
    for _, words in ipairs(lines) do
        sum = sum + (words[1] == "idle" and words[3] * 100 or 0)
    end
    list[#list + 1] = sum
end


local function percent(list)
    return ("%.2f %%"):format(stats.median(list))
end


local function idle_row(context, what, processes, coroutines, keys, rounds)
    local told = { coroutines = coroutines, keys = keys, seconds = context.quick and 0.5 or 5 }
    local here, there, err, why_not = {}, {}, nil, context.why_not
    for _ = 1, context.quick and 1 or rounds do
        local lines
        told.only = nil
        lines, err = runs.here(context, "idle", told, processes + 1)
        if lines then
            add_idle(here, lines)
        end
        if context.nginx then
            told.only = "peer"
            lines, why_not = runs.in_nginx(context, "idle", told, processes + 1)
            if lines then
                add_idle(there, lines)
            end
        end
    end
    return {
        what,
        here[1] and percent(here) or runs.failed(err),
        there[1] and percent(there) or context.why_not or runs.failed(why_not),
        "<= " .. IDLE_TARGET .. " %",
        here[1] and report.distance(stats.median(here), IDLE_TARGET) or NONE,
    }
end


local function idle(context)
    return {
        title = "1,000 that wait, and nothing happens",
        headings = { "waiters", "holdfast", "lua-resty-lock", "target", "distance" },
        rows = {
            idle_row(context, "1 process x 1,000 coroutines, 1 key", 1, 1000, 1, 3),
            idle_row(context, "1 process x 1,000 coroutines, 1,000 keys", 1, 1000, 1000, 3),
            idle_row(context, "10 processes x 100 coroutines, 1 key", 10, 100, 1, 3),
        },
        note = "Processor time of all waiting processes together, as a share of one core.",
    }
end


-- --- one value for all --------------------------------------------------------------------------------

-- Milliseconds of each round; both ways in turns, each in processes of its own.
local function one_value_row(context, what, processes, coroutines)
    local times, err = {}, nil
    for _ = 1, context.quick and 1 or 5 do
        for _, way in ipairs { "wait", "lock" } do
            local lines
            lines, err = runs.here(context, "one_value",
                                   { way = way, count = coroutines, rounds = context.quick and 3 or 10 }, processes + 1)
            runs.collect(times, lines, "last")
        end
    end
    local wait, lock = times["wait ms"], times["lock ms"]
    if not wait or not lock then
        return { what, runs.failed(err), NONE, NONE, NONE }
    end
    local function shown(list)
        return report.digits(stats.median(list)) .. " ms (" .. report.digits(math.min(unpack(list))) .. ")"
    end
    local median = stats.median(wait)
    return { what, shown(wait), shown(lock), "<= " .. ONE_VALUE_TARGET .. " ms",
             report.distance(median, ONE_VALUE_TARGET) }
end


local function one_value(context)
    return {
        title = "100 that wait for one value",
        headings = { "waiters", "lock:wait", "lock, one after the other", "target", "distance" },
        rows = {
            one_value_row(context, "1 process x 100 coroutines", 1, 100),
            one_value_row(context, "10 processes x 10 coroutines", 10, 10),
        },
        note = "From the release until the last one goes on: the median (and the shortest) of all rounds. Another "
               .. "process holds the lock.",
    }
end


function _M.make(context)
    return crowd(context), idle(context), one_value(context)
end


return _M
