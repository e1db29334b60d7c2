-- Takes free locks of a cluster in sequence, and prints how many seconds each took.
--
--   round     makes the keys of this run differ from those of earlier runs
--   samples   number of locks; warm_up: number of locks before the measured ones
--   release   "yes": releases each lock immediately; otherwise, all locks are released at the end

local clock = require "bench.support.clock"
local machines = require "cluster.bench.machines"
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"

local PATIENCE = 120

local _M = {}


function _M.run(host, options)
    assert(shdict.open(machines.DICTIONARY, machines.OPTIONS))
    local locks, times = {}, {}
    for i = 1 - options.warm_up, options.samples do
        local lock = resty_lock:new(machines.DICTIONARY, { exptime = PATIENCE, timeout = PATIENCE })
        local key = options.round .. "-" .. i
        local asked = clock.now()
        assert(lock:lock(key))
        times[i] = clock.now() - asked
        if options.release == "yes" then
            assert(lock:unlock())
        else
            locks[#locks + 1] = lock
        end
    end
    host.emit("ask", unpack(times, 1))
    for _, lock in ipairs(locks) do
        assert(lock:unlock())
    end
end


return _M
