-- Two processes without coroutines want one lock all the time and hold it for a few microseconds. One side, by the same
-- loop in Lua for all.

local part, sides = require "bench.support" ("part", "sides")

-- Steps between two looks at the deadline.
local BATCH = 20

local _M = {}


function _M.run(host, options)
    local side = sides.chosen(host, options)
    for _, microseconds in ipairs { 0, 1, 10 } do
        part.rates(host, options, side, microseconds, BATCH, function (loops)
            return loops.short_section(side, microseconds * 1e-6)
        end)
    end
end


return _M
