-- Several processes read and write the same keys at the same time. Each side has its turn, in all processes at once.

local keys = require "bench.support.keys"
local together = require "bench.support.together"

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
    local loops, rates = {}, {}
    local mine = turned(list, sync:incr(name .. " number", 1, -1) / host.workers)
    for i, side in ipairs(host.sides) do
        local makers = assert(loadfile(options.root .. "/bench/parts/loops.lua"))()
        loops[i] = makers.mixed(side, side.dict(dict), mine, reads)
        loops[i](20 * BATCH)
        rates[i] = {}
    end
    for round = 1, options.rounds do
        for turn = 1, #host.sides do
            local i = round % 2 == 1 and turn or #host.sides + 1 - turn
            local start = together.start(host, sync, name .. " " .. round .. " " .. turn)
            rates[i][round] = together.rate(loops[i], BATCH, start, options.seconds)
        end
    end
    for i, side in ipairs(host.sides) do
        host.emit("rate", name, side.name, unpack(rates[i]))
    end
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
