-- Two processes without coroutines want one lock all the time and hold it for a few microseconds. Each side has its
-- turn, in all processes at once, by the same loop in Lua: what differs is the lock alone.

local sides = require "bench.support.sides"
local together = require "bench.support.together"

-- Steps between two looks at the deadline.
local BATCH = 20

local _M = {}


local function compare(host, options, sync, all, microseconds)
    local loops, rates = {}, {}
    for i, side in ipairs(all) do
        local makers = assert(loadfile(options.root .. "/bench/parts/loops.lua"))()
        loops[i] = makers.short_section(side, microseconds * 1e-6)
        loops[i](20 * BATCH)
        rates[i] = {}
    end
    for round = 1, options.rounds do
        for turn = 1, #all do
            local i = round % 2 == 1 and turn or #all + 1 - turn
            local start = together.start(host, sync, microseconds .. " " .. round .. " " .. turn)
            rates[i][round] = together.rate(loops[i], BATCH, start, options.seconds)
        end
    end
    for i, side in ipairs(all) do
        host.emit("rate", microseconds, side.name, unpack(rates[i]))
    end
end


function _M.run(host, options)
    local all = { host.sides[1], sides.robust_mutex(options.folder), sides.flock(options.folder) }
    local sync = all[1].dict("bench_sync")
    for _, microseconds in ipairs { 0, 1, 10 } do
        compare(host, options, sync, all, microseconds)
    end
end


return _M
