-- Each process locks, or sets, a key that no other process wants, in a dictionary that all of them have.

local part, sides = require "bench.support" ("part", "sides")

-- Steps between two looks at the deadline.
local BATCH = 1000

local _M = {}


function _M.run(host, options)
    local side = sides.chosen(host, options)
    part.rates(host, options, side, "lock", BATCH, function (loops)
        return loops.own_key(side, host.number)
    end)
    if not side.system then
        part.rates(host, options, side, "set", BATCH, function (loops)
            return loops.own_set(side.dict("bench_hot"), host.number)
        end)
    end
end


return _M
