-- Locks between processes: how soon a waiter wakes, which contender gets the lock, and how soon a dead holder is
-- replaced.

local contention, report, runs, stats = require "bench.support" ("contention", "report", "runs", "stats")

local NONE = report.NONE
local WAKE_TARGET = 1.4
local ACQUISITIONS_TARGET = 800
local LONGEST_WAIT_TARGET = 0.5
local TAKEOVER_TARGET = 20

local _M = {}


-- Measures both ways to wake, in pairs of processes. Returns the microseconds of all samples, and the medians of the
-- rounds.
local function measure_wakeups(context)
    local found = { lock = { samples = {}, rounds = {} }, futex = { samples = {}, rounds = {} } }
    local told = { rounds = context.quick and 2 or 4, samples = context.quick and 10 or 40, warm_up = 200 }
    for _ = 1, context.quick and 1 or 5 do
        os.remove(context.folder .. "/ping")
        local lines, err = runs.here(context, "wakeup", told, 2)
        for way, lists in pairs(found) do
            local medians, samples = runs.find(lines, "wakeup", way), runs.find(lines, "latencies", way)
            if not medians or not samples then
                return nil, err
            end
            lists.rounds = stats.concat { lists.rounds, { unpack(medians, 6) } }
            lists.samples = stats.concat { lists.samples, { unpack(samples, 3) } }
        end
    end
    return found
end


local function wakeup_rows(context, rows)
    local found, err = measure_wakeups(context)
    local target = "<= " .. WAKE_TARGET .. "x"
    if not found then
        rows[#rows + 1] = { "release to resume", runs.failed(err), NONE, target, NONE }
        return
    end
    local ratio, _, distance = report.ratio(stats.ratios(found.lock.rounds, found.futex.rounds), WAKE_TARGET)
    local function add(name, share, wanted, reached)
        local mine = stats.percentile(found.lock.samples, share)
        local theirs = stats.percentile(found.futex.samples, share)
        rows[#rows + 1] = { "release to resume, " .. name, report.digits(mine) .. " µs",
                            "bare futex " .. report.digits(theirs) .. " µs", wanted, reached }
    end
    add("p50", 0.5, target, ratio .. ", " .. distance)
    add("p99", 0.99, NONE, NONE)
end


local function contention_rows(context, rows, pause, again)
    local what = "2 x 50 coroutines, 1 key, 1 ms each, again " .. again
    local found = contention.compare(context, {
        { name = "holdfast", workers = 2, coroutines = 50, seconds = context.quick and 0.5 or 2 },
        { name = "nginx", workers = 2, coroutines = 50, seconds = context.quick and 0.5 or 3 },
    }, { held = 0.001, pause = pause }, context.quick and 1 or 3)
    local mine, theirs = found.holdfast, found.nginx
    rows[#rows + 1] = { what, mine.rate_text, theirs.rate_text, ">= " .. ACQUISITIONS_TARGET .. "/s",
                        mine.rate and report.distance(mine.rate, ACQUISITIONS_TARGET, true) or NONE }
    rows[#rows + 1] = { "  longest wait", mine.longest_text, theirs.longest_text, "<= " .. LONGEST_WAIT_TARGET .. " s",
                        mine.longest and report.distance(mine.longest, LONGEST_WAIT_TARGET) or NONE }
    rows[#rows + 1] = { "  coroutines that got it at all", mine.served_text, theirs.served_text, NONE, NONE }
end


local function takeover_rows(context, rows, waiters)
    local kills = context.quick and 10 or 150
    local lines, err = runs.here(context, "takeover", { kills = kills, waiters = waiters }, waiters + 1)
    local words = runs.find(lines, "takeover")
    local what = ("takeover, %d waiting, %d x kill -9"):format(waiters, kills)
    if not words then
        rows[#rows + 1] = { what, runs.failed(err), NONE, NONE, NONE }
        return
    end
    local times = { unpack(words, 2) }
    local p99 = stats.percentile(times, 0.99)
    rows[#rows + 1] = { what .. ", p50", report.digits(stats.median(times)) .. " ms", "exptime: 30 s", NONE, NONE }
    rows[#rows + 1] = { "  p99", report.digits(p99) .. " ms", "exptime: 30 s", "<= " .. TAKEOVER_TARGET .. " ms",
                        report.distance(p99, TAKEOVER_TARGET) }
    rows[#rows + 1] = { "  longest", report.digits(stats.percentile(times, 1)) .. " ms", "exptime: 30 s", NONE, NONE }
end


function _M.make(context)
    local rows = {}
    wakeup_rows(context, rows)
    contention_rows(context, rows, 0, "at once")
    contention_rows(context, rows, 0.02, "after 20 ms")
    takeover_rows(context, rows, 1)
    takeover_rows(context, rows, 10)
    return {
        title = "Between processes",
        headings = { "what", "holdfast", "against", "target", "distance" },
        rows = rows,
    }
end


return _M
