-- Locks between processes: how soon a waiter wakes, who gets a lock that all want, how soon a dead holder is replaced.

local report = require "bench.support.report"
local runs = require "bench.support.runs"
local stats = require "bench.support.stats"

local digits = report.digits
local distance = report.distance
local failed = runs.failed
local find = runs.find
local median = stats.median
local percentile = stats.percentile

local NONE = report.NONE
local WAKE_TARGET = 1.5
local ACQUISITIONS_TARGET = 800
local LONGEST_WAIT_TARGET = 0.5
local TAKEOVER_TARGET = 20

local _M = {}


local function wakeup_rows(context, rows)
    local lines, err = runs.here(context, "wakeup", { rounds = context.quick and 4 or 10,
                                                     samples = context.quick and 20 or 60 }, 2)
    local lock, futex = find(lines, "wakeup", "lock"), find(lines, "wakeup", "futex")
    local target = "<= " .. WAKE_TARGET .. "x"
    if not lock or not futex then
        rows[#rows + 1] = { "release to resume", failed(err), NONE, target, NONE }
        return
    end
    local ratio = median(stats.ratios({ unpack(lock, 6) }, { unpack(futex, 6) }))
    rows[#rows + 1] = { "release to resume, p50", digits(lock[4]) .. " µs", "bare futex " .. digits(futex[4]) .. " µs",
                        target, ("%.2fx, %s"):format(ratio, distance(ratio, WAKE_TARGET)) }
    rows[#rows + 1] = { "release to resume, p99", digits(lock[5]) .. " µs", "bare futex " .. digits(futex[5]) .. " µs",
                        NONE, NONE }
end


-- All processes of one run together.
local function sum_up(lines)
    local sum = { rate = 0, longest = 0, served = 0 }
    for _, words in ipairs(lines) do
        if words[1] == "contention" then
            sum.rate = sum.rate + words[3]
            sum.longest = math.max(sum.longest, words[4])
            sum.served = sum.served + words[5]
        end
    end
    return sum
end


-- Median rate; the longest wait and the fewest served of all runs.
local function contention_here(context, pause, seconds)
    local rates, longest, served = {}, 0, math.huge
    for i = 1, context.quick and 1 or 5 do
        local lines, err = runs.here(context, "contention", { pause = pause, seconds = seconds }, 2)
        if not lines then
            return nil, err
        end
        local sum = sum_up(lines)
        rates[i], longest, served = sum.rate, math.max(longest, sum.longest), math.min(served, sum.served)
    end
    return { rate = median(rates), longest = longest, served = served }
end


-- What stands in the table for the lock of nginx: three texts.
local function contention_in_nginx(context, pause, seconds)
    if not context.nginx then
        return context.why_not .. "; measured earlier: 43/s", context.why_not .. "; measured earlier: 23 s", NONE
    end
    local lines, err = runs.in_nginx(context, "contention", { pause = pause, seconds = seconds, peer_only = "yes" }, 2)
    if not lines then
        return failed(err), NONE, NONE
    end
    local sum = sum_up(lines)
    return ("%.0f/s"):format(sum.rate), ("%.2f s of %d s"):format(sum.longest, seconds),
        ("%d of 100"):format(sum.served)
end


local function contention_rows(context, rows, pause, again)
    local what = "2 x 50 coroutines, 1 key, 1 ms each, again " .. again
    local mine, err = contention_here(context, pause, context.quick and 1 or 2)
    local rate, longest, served = contention_in_nginx(context, pause, context.quick and 2 or 10)
    if not mine then
        rows[#rows + 1] = { what, failed(err), rate, NONE, NONE }
        return
    end
    rows[#rows + 1] = { what, ("%.0f/s"):format(mine.rate), rate, ">= " .. ACQUISITIONS_TARGET .. "/s",
                        distance(mine.rate, ACQUISITIONS_TARGET, true) }
    rows[#rows + 1] = { "  longest wait", ("%.2f s"):format(mine.longest), longest,
                        "<= " .. LONGEST_WAIT_TARGET .. " s", distance(mine.longest, LONGEST_WAIT_TARGET) }
    rows[#rows + 1] = { "  coroutines that got it at all", ("%d of 100"):format(mine.served), served, NONE, NONE }
end


local function takeover_rows(context, rows)
    local kills = context.quick and 20 or 150
    local lines, err = runs.here(context, "takeover", { kills = kills })
    local words = find(lines, "takeover")
    local what = ("takeover after %d x kill -9"):format(kills)
    if not words then
        rows[#rows + 1] = { what, failed(err), NONE, NONE, NONE }
        return
    end
    local times = { unpack(words, 2) }
    local p99 = percentile(times, 0.99)
    rows[#rows + 1] = { what .. ", p50", digits(median(times)) .. " ms", "exptime: 30 s", NONE, NONE }
    rows[#rows + 1] = { "  p99", digits(p99) .. " ms", "exptime: 30 s", "<= " .. TAKEOVER_TARGET .. " ms",
                        distance(p99, TAKEOVER_TARGET) }
    rows[#rows + 1] = { "  longest", digits(percentile(times, 1)) .. " ms", "exptime: 30 s", NONE, NONE }
end


function _M.make(context)
    local rows = {}
    wakeup_rows(context, rows)
    contention_rows(context, rows, 0, "at once")
    contention_rows(context, rows, 0.02, "after 20 ms")
    takeover_rows(context, rows)
    return { {
        title = "Between processes",
        headings = { "what", "holdfast", "against", "target", "distance" },
        rows = rows,
    } }
end


return _M
