-- The rows of the tables: runs each part, here and in nginx, and sets the outcome beside the targets of the design.

local nginx = require "bench.support.nginx"
local process = require "bench.support.process"
local report = require "bench.support.report"
local stats = require "bench.support.stats"

local digits = report.digits
local distance = report.distance
local median = stats.median
local percentile = stats.percentile

local NONE = "-"

local _M = {}

-- Name of the loop, what it is called in the table, and the largest share of the other's time that is good enough.
local LOOPS = {
    { "lock_unlock", "lock + unlock, same object", 0.5 },
    { "new_lock_unlock", "new + lock + unlock", 0.3 },
    { "get_hot", "get, one number", 0.8 },
    { "set_hot", "set, one number" },
    { "incr_hot", "incr, one number" },
    { "get_random", "get, 100k numbers, random", 0.35 },
    { "set_random", "set, 100k numbers, random", 0.35 },
    { "incr_random", "incr, 100k numbers, random" },
}

local WAKE_TARGET = 1.5
local ACQUISITIONS_TARGET = 800
local LONGEST_WAIT_TARGET = 0.5
local TAKEOVER_TARGET = 20
local BYTES_TARGET = 72


local function run_here(context, part, options, count)
    options.root = context.root
    return process.run(part, options, count or 1)
end


local function run_in_nginx(context, part, options, workers)
    if not context.nginx then
        return nil, context.why_not
    end
    return nginx.run(part, options, context.nginx, context.root, workers)
end


-- How many parts did not work. That nginx is not there is no failure.
_M.failures = 0


local function failed(err)
    _M.failures = _M.failures + 1
    return "failed: " .. (err or "no result")
end


-- --- loops of one process ------------------------------------------------------------------------------

-- Adds the rounds of one process to `times`, which has a list per loop and side.
local function collect(times, lines)
    for _, words in ipairs(lines or {}) do
        if words[1] == "loop" then
            local key = words[2] .. " " .. words[3]
            times[key] = times[key] or {}
            for i = 4, #words do
                table.insert(times[key], words[i])
            end
        end
    end
end


local function time_of(times)
    return times and digits(median(times)) .. " ns" or NONE
end


local function loop_row(entry, ours, theirs, why_not)
    local name, what, target = unpack(entry)
    local mine, other = ours[name .. " holdfast"], theirs[name .. " ngx.shared"]
    local wanted = target and "<= " .. target .. "x" or NONE
    local row = { what, time_of(mine), why_not or time_of(other), NONE, wanted, NONE }
    if mine and other then
        local ratios = stats.ratios(mine, other)
        local ratio = median(ratios)
        row[4] = ("%.2fx (%.2f-%.2f)"):format(ratio, stats.middle_half(ratios))
        row[6] = target and distance(ratio, target) or NONE
    end
    return row
end


local function plain_row(entry, times, why_not)
    local mine = times[entry[1] .. " holdfast"]
    if not mine then
        return { entry[2], why_not or NONE, NONE }
    end
    local low, high = stats.middle_half(mine)
    return { entry[2], time_of(mine), digits(low) .. "-" .. digits(high) .. " ns" }
end


-- A new process now and then: where its memory happens to lie makes a difference.
function _M.loops(context)
    local here, there = {}, {}
    local label = "nothing"
    local why_not = context.why_not
    local why_not_here
    for _ = 1, context.quick and 1 or 5 do
        local options = { rounds = 3, seconds = context.quick and 0.01 or 0.04 }
        local lines, err = run_here(context, "side_by_side", options)
        collect(here, lines)
        why_not_here = why_not_here or (not lines and failed(err))
        lines, err = run_in_nginx(context, "side_by_side", options, 1)
        collect(there, lines)
        if lines then
            label = lines[1][2] .. " and lua-resty-core on ngx.shared, in turns in the same nginx worker"
        else
            why_not = why_not or failed(err)
        end
    end
    local rows, plain = {}, {}
    for i, entry in ipairs(LOOPS) do
        rows[i] = loop_row(entry, next(there) and there or here, there, why_not)
        plain[i] = plain_row(entry, here, why_not_here)
    end
    return rows, label, plain
end


-- --- between processes ---------------------------------------------------------------------------------

-- The line with this name, and this word after it if one is given.
local function find(lines, name, second)
    for _, words in ipairs(lines or {}) do
        if words[1] == name and (not second or words[2] == second) then
            return words
        end
    end
end


local function wakeup_rows(context, rows)
    local lines, err = run_here(context, "wakeup", { rounds = context.quick and 4 or 10,
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
        local lines, err = run_here(context, "contention", { pause = pause, seconds = seconds }, 2)
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
    local lines, err = run_in_nginx(context, "contention", { pause = pause, seconds = seconds, peer_only = "yes" }, 2)
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
    local lines, err = run_here(context, "takeover", { kills = kills })
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


function _M.between_processes(context)
    local rows = {}
    wakeup_rows(context, rows)
    contention_rows(context, rows, 0, "at once")
    contention_rows(context, rows, 0.02, "after 20 ms")
    takeover_rows(context, rows)
    return rows
end


-- --- memory --------------------------------------------------------------------------------------------

local function bytes_per_entry(lines, side)
    local words = find(lines, "memory", side)
    return words and words[3] / words[4]
end


function _M.memory(context)
    local lines, err = run_here(context, "memory", {})
    local mine = bytes_per_entry(lines, "holdfast")
    local their_lines, why_not = run_in_nginx(context, "memory", { peer_only = "yes" }, 1)
    local theirs = bytes_per_entry(their_lines, "ngx.shared")
    return { {
        "bytes per entry, 9-byte key, number, 64 MB full",
        mine and ("%.1f"):format(mine) or failed(err),
        theirs and ("ngx.shared %.1f"):format(theirs) or context.why_not or failed(why_not),
        "<= " .. BYTES_TARGET,
        mine and distance(mine, BYTES_TARGET) or NONE,
    } }
end


-- --- C++ -----------------------------------------------------------------------------------------------

local UNITS = { ns = "ns", us = "µs", ms = "ms" }

-- Google Benchmark's CSV: name,iterations,real_time,cpu_time,time_unit,...
function _M.micro(context)
    local program = context.build .. "/bench/micro_benchmarks"
    local options = context.quick and " --benchmark_min_time=0.01 --benchmark_repetitions=3"
        or " --benchmark_min_time=0.1 --benchmark_repetitions=7"
    if process.output("test -x " .. process.quote(program) .. " && echo there") == "" then
        return { { "not built: " .. program, NONE, NONE } }
    end
    local csv = process.output(process.quote(program) .. options
                               .. " --benchmark_report_aggregates_only=true --benchmark_format=csv")
    local rows, deviations = {}, {}
    for name, time in csv:gmatch('"([^"\n]+)_stddev",[^,\n]*,[^,\n]*,([^,\n]+),') do
        deviations[name] = digits(tonumber(time))
    end
    for name, time, unit in csv:gmatch('"([^"\n]+)_median",[^,\n]*,[^,\n]*,([^,\n]+),(%w+)') do
        rows[#rows + 1] = { name, digits(tonumber(time)) .. " " .. UNITS[unit], deviations[name] .. " " .. UNITS[unit] }
    end
    if #rows == 0 then
        rows[1] = { program, failed(), NONE }
    end
    return rows
end


return _M
