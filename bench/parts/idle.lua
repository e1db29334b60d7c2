-- One process holds what the coroutines of the others wait for. Tells which share of a processor those others use while
-- nothing happens.

local clock, part, sides = require "bench.support" ("clock", "part", "sides")

-- Those that poll then sleep as long as they ever do.
local REST = 1.1
local SHORT_REST = 0.1


local function hold(host, side, sync, options)
    local locks = {}
    for i = 1, options.keys do
        locks[i] = sides.new_lock(side)
        assert(locks[i]:lock("idle " .. i))
    end
    sync:set("held", 1)
    part.await(host, sync, "measured", host.workers - 1)
    for i = 1, options.keys do
        assert(locks[i]:unlock())
    end
end


local function wait(host, side, sync, options)
    host.run_all(1, function ()
        part.await(host, sync, "held", 1)
    end)
    local waiting = 0
    host.run_all(options.coroutines + 1, function (task)
        if task <= options.coroutines then
            local lock = sides.new_lock(side)
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
return { run = part.split(hold, wait) }
