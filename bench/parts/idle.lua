-- One process holds what the coroutines of the others wait for. Tells which share of a processor those others use while
-- nothing happens.

local clock = require "bench.support.clock"
local together = require "bench.support.together"

local PATIENCE = 120
-- Those that poll then sleep as long as they ever do.
local REST = 1.1
local SHORT_REST = 0.1

local _M = {}


local function new_lock(side)
    return assert(side.lock:new(side.locks, { exptime = PATIENCE, timeout = PATIENCE }))
end


local function hold(host, side, sync, keys)
    local locks = {}
    for i = 1, keys do
        locks[i] = new_lock(side)
        assert(locks[i]:lock("idle " .. i))
    end
    sync:set("held", 1)
    together.await(host, sync, "measured", host.workers - 1)
    for i = 1, keys do
        assert(locks[i]:unlock())
    end
end


local function wait(host, side, sync, options)
    host.run_all(1, function ()
        together.await(host, sync, "held", 1)
    end)
    local waiting = 0
    host.run_all(options.coroutines + 1, function (task)
        if task <= options.coroutines then
            local lock = new_lock(side)
            waiting = waiting + 1
            assert(lock:lock("idle " .. (task - 1) % options.keys + 1))
            assert(lock:unlock())
            return
        end
        repeat
            host.sleep(options.hasty and SHORT_REST or REST)
        until waiting == options.coroutines
        local start, used = clock.now(), clock.process_cpu()
        host.sleep(options.seconds)
        host.emit("idle", side.name, (clock.process_cpu() - used) / (clock.now() - start), options.host or "-")
        sync:incr("measured", 1, 0)
    end)
end


-- keys: over how many the coroutines of each process are spread. hasty: for a trial.
function _M.run(host, options)
    local side = host.sides[1]
    local sync = side.dict("bench_sync")
    if host.number == 0 then
        host.run_all(1, function ()
            hold(host, side, sync, options.keys)
        end)
    else
        wait(host, side, sync, options)
    end
    host.emit("done")
end


return _M
