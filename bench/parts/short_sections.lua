-- Two processes without coroutines want one lock all the time and hold it for a few microseconds. Each side has its
-- turn, in all processes at once, by the same loop in Lua: what differs is the lock alone.

local part, sides = require "bench.support" ("part", "sides")

-- Steps between two looks at the deadline.
local BATCH = 20

local _M = {}


function _M.run(host, options)
    local all = { host.sides[1], sides.robust_mutex(options.folder), sides.flock(options.folder) }
    local sync = all[1].dict("bench_sync")
    for _, microseconds in ipairs { 0, 1, 10 } do
        part.compare_rates(host, options, sync, microseconds, all, BATCH, function (loops, side)
            return loops.short_section(side, microseconds * 1e-6)
        end)
    end
end


return _M
