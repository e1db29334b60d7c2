-- One lock that contenders of several machines want, over etcd: beside etcd's own lock service, and beside a queue of
-- keys as one would write it.

local contest, etcd, report, runs, stats = require "bench.support" ("contest", "etcd", "report", "runs", "stats")

local NONE = report.NONE

local _M = {}

local STOCK = { what = "etcd's /v3/lock", side = "stock", contenders = 8 }
local FIXED = { what = "a queue of keys", side = "fixed", contenders = 8 }
local SPREADS = { 8, 2, 4, 1 }
-- That the check finds overlaps.
local UNLOCKED = { side = "none", contenders = 8 }
-- Contenders of as many machines; for the last there is a target.
local CROWDS, CROWD = { 1, 2, 4, 8, 16, 32 }, 32

-- By machines: times the stock recipe, and the fixed one.
local TARGETS = { [8] = { stock = 5, fixed = 1.8 }, [2] = { stock = 20, fixed = 5 } }
local CROWD_TARGET = 3


local function holdfast(machines, contenders)
    return { what = ("holdfast, %d x %d"):format(machines, contenders / machines), side = "holdfast",
             machines = machines, contenders = contenders }
end


local function per_lock(values)
    return ("%.2f"):format(stats.median(values))
end


local function rate(sum)
    return sum.err and runs.failed(sum.err) or ("%.0f/s"):format(stats.median(sum.rates))
end


-- The median over the rounds of how many times the rate of the other.
local function times(mine, theirs)
    return stats.median(stats.ratios(mine.rates, theirs.rates))
end


local function factor(mine, theirs)
    local value = times(mine, theirs)
    return value == value and report.digits(value) .. "x" or NONE
end


local function row(entry, sum, stock, fixed)
    if sum.err then
        return { entry.what, rate(sum), NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE }
    end
    local is_recipe = entry.side ~= "holdfast"
    return {
        entry.what, rate(sum),
        is_recipe and NONE or factor(sum, stock), is_recipe and NONE or factor(sum, fixed),
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

-- The recipes know of no machines: theirs are level lines.
local function keep(figures, nodes, machines, sum, stock, fixed)
    local curves = { { ("holdfast (%d node%s)"):format(nodes, nodes > 1 and "s" or ""), sum } }
    if nodes == 1 then
        curves[2], curves[3] = { "a queue of keys (1)", fixed }, { "/v3/lock (1)", stock }
    end
    for _, curve in ipairs(curves) do
        if not curve[2].err then
            figures:add("cluster_spread", curve[1], machines, stats.median(curve[2].rates))
        end
    end
end


local function eight(context, cluster, nodes, targets)
    local entries = { STOCK, FIXED }
    for _, machines in ipairs(SPREADS) do
        entries[#entries + 1] = holdfast(machines, 8)
    end
    local seconds = context.quick and 0.3 or 1.5
    local sums = contest.compare(context, cluster, entries, seconds, context.quick and 1 or 3)
    local stock, fixed = sums[1], sums[2]
    local rows, by_machines = {}, {}
    for i, entry in ipairs(entries) do
        rows[i] = row(entry, sums[i], stock, fixed)
        by_machines[entry.machines or 0] = sums[i]
    end
    for _, machines in ipairs { 1, 2, 4, 8 } do
        keep(context.figures, nodes, machines, by_machines[machines], stock, fixed)
    end
    for _, machines in ipairs { 8, 2 } do
        local target, sum = TARGETS[machines], by_machines[machines]
        local what = ("%s, %d node%s: times "):format(holdfast(machines, 8).what, nodes, nodes > 1 and "s" or "")
        table.insert(targets, target_row(what .. STOCK.what, times(sum, stock), target.stock))
        table.insert(targets, target_row(what .. FIXED.what, times(sum, fixed), target.fixed))
    end
    local unlocked = contest.run(context, cluster, UNLOCKED, 0.2)
    return {
        title = ("Eight contenders, etcd of %d node%s"):format(nodes, nodes > 1 and "s" or ""),
        headings = { "side", "acquired", "of /v3/lock", "of the queue", "wait, p50", "p99", "longest",
                     "requests per lock", "events per lock", "overlaps" },
        rows = rows,
        note = ("holdfast, M x N: M machines with N contenders each. %s The same check without any lock: %d "
                .. "overlaps in 0.2 s."):format(cluster:describe(), unlocked and unlocked.overlaps or 0),
    }
end


-- --- one contender on each machine --------------------------------------------------------------------------

local function crowds(context, cluster, targets)
    local rows = {}
    for i, count in ipairs(context.quick and { 2 } or CROWDS) do
        local entries = { { side = "stock", contenders = count }, { side = "fixed", contenders = count },
                          holdfast(count, count) }
        local sums = contest.compare(context, cluster, entries, context.quick and 0.3 or 1.5,
                                     context.quick and 1 or 2)
        local stock, fixed, ours = unpack(sums)
        rows[i] = { tostring(count), rate(stock), rate(fixed), rate(ours), factor(ours, stock), factor(ours, fixed),
                    tostring(stock.overlaps + fixed.overlaps + ours.overlaps) }
        for j, name in ipairs { STOCK.what, FIXED.what, "holdfast" } do
            if not sums[j].err then
                context.figures:add("cluster_crowd", name, count, stats.median(sums[j].rates))
            end
        end
        if count == CROWD then
            table.insert(targets, target_row(("holdfast, %d x 1, 1 node: times %s"):format(CROWD, FIXED.what),
                                             times(ours, fixed), CROWD_TARGET))
        end
    end
    return {
        title = "One contender on each machine, etcd of 1 node",
        headings = { "machines", STOCK.what, FIXED.what, "holdfast", "of /v3/lock", "of the queue", "overlaps" },
        rows = rows,
    }
end


-- --------------------------------------------------------------------------------------------------------

local function with_etcd(context, nodes, make)
    local cluster = assert(etcd.start(context.disk .. "/etcd", nodes))
    local tables = { make(cluster) }
    cluster:stop()
    return tables
end


function _M.make(context)
    local targets = {}
    local tables = with_etcd(context, 1, function (cluster)
        return eight(context, cluster, 1, targets), crowds(context, cluster, targets)
    end)
    table.insert(tables, 2, with_etcd(context, 3, function (cluster)
        return eight(context, cluster, 3, targets)
    end)[1])
    table.insert(tables, {
        title = "Targets of contended locks",
        headings = { "what", "measured", "target", "distance" },
        rows = targets,
    })
    return unpack(tables)
end


return _M
