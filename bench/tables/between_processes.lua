-- Locks between processes: how soon a waiter wakes, which contender gets a lock, how soon a dead holder is replaced.

local contention, report, runs, stats = require "bench.support" ("contention", "report", "runs", "stats")

local NONE = report.NONE
local WAKE_TARGET = 1.4
local ACQUISITIONS_TARGET = 800
local LONGEST_WAIT_TARGET = 0.5
local TAKEOVER_TARGET = 20

local _M = {}


local function wakeup_rows(context, rows)
    local lines, err = runs.here(context, "wakeup", { rounds = context.quick and 4 or 10,
                                                     samples = context.quick and 20 or 60 }, 2)
    local lock, futex = runs.find(lines, "wakeup", "lock"), runs.find(lines, "wakeup", "futex")
    local target = "<= " .. WAKE_TARGET .. "x"
    if not lock or not futex then
        rows[#rows + 1] = { "release to resume", runs.failed(err), NONE, target, NONE }
        return
    end
    local ratio = stats.median(stats.ratios({ unpack(lock, 6) }, { unpack(futex, 6) }))
    local function add(name, column, wanted, found)
        rows[#rows + 1] = { "release to resume, " .. name, report.digits(lock[column]) .. " µs",
                            "bare futex " .. report.digits(futex[column]) .. " µs", wanted, found }
    end
    add("p50", 4, target, ("%.2fx, %s"):format(ratio, report.distance(ratio, WAKE_TARGET)))
    add("p99", 5, NONE, NONE)
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
