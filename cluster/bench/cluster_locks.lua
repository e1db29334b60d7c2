-- Measures one lock for which machines contend over etcd. Compares it with etcd's own lock service, and with a queue of
-- keys as a programmer would write it.

local report, runs, stats = require "bench.support" ("report", "runs", "stats")
local contest = require "cluster.bench.contest"
local etcds = require "cluster.bench.etcd"

local NONE = report.NONE

local _M = {}

local STOCK, FIXED = "etcd's /v3/lock", "a queue of keys"
local CONTENDERS = 8
-- The numbers of machines over which the contenders are spread, and these numbers in a quick run.
local SPREADS, QUICK_SPREADS = { 1, 2, 4, 8 }, { 2 }
-- The numbers of contenders, each on its own machine. Only the last number has a target.
local CROWDS, CROWD = { 1, 2, 4, 8, 16, 32 }, 32

-- The targets, indexed by the number of machines: the ratios to the stock recipe and to the fixed recipe.
local TARGETS = { [8] = { stock = 5, fixed = 1.8 }, [2] = { stock = 20, fixed = 5 } }
local CROWD_TARGET = 3


local function node_text(nodes)
    return nodes .. (nodes > 1 and " nodes" or " node")
end


-- Returns the entry for contest.compare() that measures one side with this etcd, like the next two functions.
local function stock(etcd, contenders)
    return { what = STOCK, side = "stock", etcd = etcd, contenders = contenders }
end


local function fixed(etcd, contenders)
    return { what = FIXED, side = "fixed", etcd = etcd, contenders = contenders }
end


local function holdfast(etcd, machines, contenders)
    return { what = ("holdfast, %d x %d"):format(machines, contenders / machines), side = "holdfast", etcd = etcd,
             machines = machines, contenders = contenders }
end


local function per_lock(values)
    return ("%.2f"):format(stats.median(values))
end


local function rate(sum)
    return sum.err and runs.failed(sum.err) or ("%.0f/s"):format(stats.median(sum.rates))
end


-- Returns the median, over the rounds, of the ratio of the rates.
local function times(mine, theirs)
    return stats.median(stats.ratios(mine.rates, theirs.rates))
end


local function factor(mine, theirs)
    local value = times(mine, theirs)
    return value == value and report.digits(value) .. "x" or NONE
end


local function row(entry, sum, others)
    if sum.err then
        return { entry.what, rate(sum), NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE }
    end
    local is_recipe = entry.side ~= "holdfast"
    return {
        entry.what, rate(sum),
        is_recipe and NONE or factor(sum, others.stock), is_recipe and NONE or factor(sum, others.fixed),
        report.time(stats.histogram_percentile(sum.waits, 0.5)),
        report.time(stats.histogram_percentile(sum.waits, 0.99)),
        report.time(sum.longest), per_lock(sum.requests), per_lock(sum.events), tostring(sum.overlaps),
    }
end


local function target_row(what, value, target)
    return { what, value == value and report.digits(value) .. "x" or NONE, ">= " .. target .. "x",
             report.distance(value, target, true) }
end


-- --- eight contenders -------------------------------------------------------------------------------------

local function entries_for(etcd, spreads)
    local entries = { stock(etcd, CONTENDERS), fixed(etcd, CONTENDERS) }
    for _, machines in ipairs(spreads) do
        entries[#entries + 1] = holdfast(etcd, machines, CONTENDERS)
    end
    return entries
end


-- The recipes do not depend on the number of machines, so their curves are level.
local function keep(figures, nodes, machines, sum, others)
    local curves = { { ("holdfast (%s)"):format(node_text(nodes)), sum } }
    if nodes == 1 then
        curves[2], curves[3] = { FIXED .. " (1)", others.fixed }, { "/v3/lock (1)", others.stock }
    end
    for _, curve in ipairs(curves) do
        if not curve[2].err then
            figures:add("cluster_spread", curve[1], machines, stats.median(curve[2].rates))
        end
    end
end


local function add_targets(targets, entry, nodes, sum, others)
    local target = TARGETS[entry.machines]
    if target then
        local what = ("%s, %s: times "):format(entry.what, node_text(nodes))
        table.insert(targets, target_row(what .. STOCK, times(sum, others.stock), target.stock))
        table.insert(targets, target_row(what .. FIXED, times(sum, others.fixed), target.fixed))
    end
end


-- Prints the table of one etcd, from the sums of its entries.
local function table_of(context, etcd, entries, sums, targets)
    local nodes, rows = #etcd.nodes, {}
    local others = { stock = sums[1], fixed = sums[2] }
    for i, entry in ipairs(entries) do
        rows[i] = row(entry, sums[i], others)
        if entry.machines then
            keep(context.figures, nodes, entry.machines, sums[i], others)
            add_targets(targets, entry, nodes, sums[i], others)
        end
    end
    -- Shows that the check finds overlaps.
    local unlocked = contest.run(context, etcd, { side = "none", contenders = CONTENDERS }, 0.2)
    return {
        title = "Eight contenders, etcd of " .. node_text(nodes),
        headings = { "side", "acquired", "of /v3/lock", "of the queue", "wait, p50", "p99", "longest",
                     "requests per lock", "events per lock", "overlaps" },
        rows = rows,
        note = ("holdfast, M x N: M machines with N contenders each. %s The same check without any lock: %d "
                .. "overlaps in 0.2 s."):format(etcd:describe(), unlocked and unlocked.overlaps or 0),
    }
end


-- Measures all sides, and alternates between the two etcds.
local function eight(context, one_node, three_nodes, targets)
    local spreads = context.quick and QUICK_SPREADS or SPREADS
    local all, of_one, of_three = {}, entries_for(one_node, spreads), entries_for(three_nodes, spreads)
    for i in ipairs(of_one) do
        all[i], all[i + #of_one] = of_one[i], of_three[i]
    end
    local sums = contest.compare(context, all, context.quick and 0.3 or 1.5, context.quick and 1 or 3)
    return table_of(context, one_node, of_one, { unpack(sums, 1, #of_one) }, targets),
        table_of(context, three_nodes, of_three, { unpack(sums, #of_one + 1) }, targets)
end


-- --- one contender on each machine --------------------------------------------------------------------------

local function crowds(context, etcd, targets)
    local rows = {}
    for i, count in ipairs(context.quick and { 2 } or CROWDS) do
        local entries = { stock(etcd, count), fixed(etcd, count), holdfast(etcd, count, count) }
        local sums = contest.compare(context, entries, context.quick and 0.3 or 1.5, context.quick and 1 or 2)
        local ours = sums[3]
        rows[i] = { tostring(count), rate(sums[1]), rate(sums[2]), rate(ours), factor(ours, sums[1]),
                    factor(ours, sums[2]), tostring(sums[1].overlaps + sums[2].overlaps + ours.overlaps) }
        for j, name in ipairs { "holdfast", FIXED, STOCK } do
            local sum = sums[4 - j]
            if not sum.err then
                context.figures:add("cluster_crowd", name, count, stats.median(sum.rates))
            end
        end
        if count == CROWD then
            table.insert(targets, target_row(("%s, 1 node: times %s"):format(entries[3].what, FIXED),
                                             times(ours, sums[2]), CROWD_TARGET))
        end
    end
    return {
        title = "One contender on each machine, etcd of 1 node",
        headings = { "machines", STOCK, FIXED, "holdfast", "of /v3/lock", "of the queue", "overlaps" },
        rows = rows,
    }
end


function _M.make(context)
    local targets = {}
    local one_node = assert(etcds.start(context.disk .. "/etcd-1", 1))
    local three_nodes = assert(etcds.start(context.disk .. "/etcd-3", 3))
    local first, second = eight(context, one_node, three_nodes, targets)
    three_nodes:stop()
    local third = crowds(context, one_node, targets)
    one_node:stop()
    return first, second, third, {
        title = "Targets of contended locks",
        headings = { "what", "measured", "target", "distance" },
        rows = targets,
    }
end


return _M
