-- Several processes read and write the same keys at the same time. One side.

local keys, part, sides = require "bench.support" ("keys", "part", "sides")

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


function _M.run(host, options)
    local side = sides.chosen(host, options)
    -- name: of the case; reads: for each write.
    local function measure(name, list, dict, reads)
        local mine = turned(list, side.dict("bench_sync"):incr(name .. " number", 1, -1) / host.workers)
        part.rates(host, options, side, name, BATCH, function (loops)
            return loops.mixed(side.dict(dict), mine, reads)
        end)
    end
    local hot, many = keys.drawn(100, 100000), keys.shuffled(100000)
    measure("hot_95", hot, "bench_hot", 19)
    measure("hot_50", hot, "bench_hot", 1)
    measure("many_95", many, "bench_100k", 19)
    measure("many_50", many, "bench_100k", 1)
end


return _M
