-- Several processes read and write the same keys at the same time. Each side has its turn, in all processes at once.

local keys, part = require "bench.support" ("keys", "part")

-- Steps between two looks at the clock.
local BATCH = 1000

local _M = {}


-- The keys, from a place on that is another one in each process.
local function turned(list, share)
    local at, copy = math.floor(#list * share), {}
    for i = 1, #list do
        copy[i] = list[(at + i - 1) % #list + 1]
    end
    return copy
end


-- name: of the case; reads: for each write.
local function compare(host, options, sync, name, list, dict, reads)
    local mine = turned(list, sync:incr(name .. " number", 1, -1) / host.workers)
    part.compare_rates(host, options, sync, name, host.sides, BATCH, function (loops, side)
        return loops.mixed(side, side.dict(dict), mine, reads)
    end)
end


function _M.run(host, options)
    local sync = require("resty.shdict").open("bench_sync", { size = "100k" })
    local hot, many = keys.drawn(100, 100000), keys.shuffled(100000)
    compare(host, options, sync, "hot_95", hot, "bench_hot", 19)
    compare(host, options, sync, "hot_50", hot, "bench_hot", 1)
    compare(host, options, sync, "many_95", many, "bench_100k", 19)
    compare(host, options, sync, "many_50", many, "bench_100k", 1)
end


return _M
