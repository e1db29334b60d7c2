-- Runs bench/parts/contention.lua with several sides in turn.

local report, runs, sides, stats = require "bench.support" ("report", "runs", "sides", "stats")

local NONE = report.NONE

local _M = {}


-- Adds the results of one run, summed over its processes, to those of earlier runs.
local function add(sum, lines)
    local rate, served = 0, 0
    for _, words in ipairs(lines) do
        if words[1] == "contention" then
            rate = rate + words[3]
            sum.longest = math.max(sum.longest, words[4])
            served = served + words[5]
        elseif words[1] == "counts" then
            for i = 3, #words do
                table.insert(sum.counts, words[i])
            end
        elseif words[1] == "waits" then
            stats.add_histogram(sum.waits, unpack(words, 3))
        elseif words[1] == "longest" then
            stats.add_histogram(sum.longest_waits, unpack(words, 3))
        end
    end
    table.insert(sum.rates, rate)
    sum.served = math.min(sum.served, served)
end


local function run(context, side, told)
    local options = { side = side.side, seconds = side.seconds, coroutines = side.coroutines }
    for name, value in pairs(told) do
        options[name] = value
    end
    if side.name == "nginx" then
        options.only = "peer"
        return runs.in_nginx(context, "contention", options, side.workers)
    end
    return runs.here(context, "contention", options, side.workers)
end


-- Returns the result of a contender: the texts for the cells of a table and, if it was measured, the numbers.
local function texts(sum, side, why_not)
    if why_not then
        return { rate_text = why_not, longest_text = NONE, served_text = NONE }
    end
    sum.rate = stats.median(sum.rates)
    sum.rate_text = ("%.0f/s"):format(sum.rate)
    sum.longest_text = ("%.2f s of %.3g s"):format(sum.longest, side.seconds)
    sum.served_text = ("%d of %d"):format(sum.served, math.max(side.coroutines, 1) * side.workers)
    return sum
end


-- `contenders` is a list of { name =, workers =, coroutines =, seconds = }. The name "nginx" means lua-resty-lock; the
-- field `side` may be a side of bench/support/sides.lua. `told` contains options that are the same for all contenders.
-- For each name, returns the median of the rates, the longest wait, the smallest number of grants over all rounds, and
-- the grants of each contender in each round. The result also has two histograms: one of all waits, and one of the
-- longest wait of each contender in each round.
function _M.compare(context, contenders, told, rounds)
    local sums, why_not = {}, {}
    for _, i in sides.turns(rounds, #contenders) do
        local side = contenders[i]
        local sum = sums[side.name] or { rates = {}, longest = 0, served = math.huge, counts = {}, waits = {},
                                         longest_waits = {} }
        sums[side.name] = sum
        local lines, err = run(context, side, told)
        if lines then
            add(sum, lines)
        else
            why_not[side.name] = err == context.why_not and err or runs.failed(err)
        end
    end
    local results = {}
    for _, side in ipairs(contenders) do
        results[side.name] = texts(sums[side.name], side, why_not[side.name])
    end
    return results
end


return _M
