-- Processes with many coroutines each want one key, hold it for a moment, and want it again, at once or after a pause.
-- Tells how often somebody got it, how long everybody waited, and how many got it at all.

local clock = require "bench.support.clock"
local stats = require "bench.support.stats"

local COROUTINES = 50
local HELD = 0.001
local KEY = "contended"
-- Longer than the run: with poll, some wait that long.
local PATIENCE = 120

local _M = {}


local function wait_for_the_others(host, side)
    local sync = side.dict("bench_sync")
    assert(sync:incr("ready", 1, 0))
    while sync:get("ready") < host.workers do
        host.sleep(0.001)
    end
end


-- How often one coroutine got the lock before the deadline. Its last wait ends after that: it counts as a wait only.
local function contend(host, side, pause, deadline, waits)
    local lock = assert(side.lock:new(side.locks, { exptime = PATIENCE, timeout = PATIENCE }))
    local acquired = 0
    while true do
        local start = clock.now()
        assert(lock:lock(KEY))
        local got = clock.now()
        waits[#waits + 1] = got - start
        if got >= deadline then
            assert(lock:unlock())
            return acquired
        end
        acquired = acquired + 1
        host.sleep(HELD)
        assert(lock:unlock())
        if pause > 0 then
            host.sleep(pause)
        end
    end
end


function _M.run(host, options)
    local side = host.sides[1]
    local waits, acquired, served = {}, 0, 0
    wait_for_the_others(host, side)
    local start = clock.now()
    local deadline = start + options.seconds
    host.run_all(COROUTINES, function ()
        local count = contend(host, side, options.pause, deadline, waits)
        acquired = acquired + count
        served = served + (count > 0 and 1 or 0)
    end)
    host.emit("contention", side.name, acquired / options.seconds, stats.percentile(waits, 1), served)
end


return _M
