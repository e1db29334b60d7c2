-- The first process fills a value under a lock, `count` coroutines of each other process want it: how long from the
-- release until the last one goes on. `way`: "wait" for the end of the lock, or take the "lock" one after the other.

local clock, part, sides = require "bench.support" ("clock", "part", "sides")

-- Seconds in which all that want it fall asleep.
local REST = 0.1


local function key_of(round)
    return "value " .. round
end


local function fill(host, side, sync, options)
    local all = options.count * (host.workers - 1)
    local times = {}
    for round = 1, options.rounds do
        local lock = sides.new_lock(side)
        assert(lock:lock(key_of(round)))
        sync:set("round", round)
        part.await(host, sync, "asking " .. round, all)
        host.sleep(REST)
        local released = clock.now()
        assert(lock:unlock())
        part.await(host, sync, "gone on " .. round, host.workers - 1)
        local last = 0
        for number = 1, host.workers - 1 do
            last = math.max(last, sync:get(("last %d %d"):format(round, number)))
        end
        times[round] = (last - released) * 1000
    end
    host.emit("last", options.way, "ms", unpack(times))
end


local function want(lock, way, key)
    if way == "wait" then
        assert(lock:wait(key))
        return
    end
    assert(lock:lock(key))
    assert(lock:unlock())
end


local function want_all(host, side, sync, options)
    local last, left = 0, 0
    host.run_all(options.count, function ()
        local lock = sides.new_lock(side)
        for round = 1, options.rounds do
            part.await(host, sync, "round", round)
            sync:incr("asking " .. round, 1, 0)
            want(lock, options.way, key_of(round))
            last, left = clock.now(), left + 1
            if left == options.count then
                left = 0
                sync:set(("last %d %d"):format(round, host.number), last)
                sync:incr("gone on " .. round, 1, 0)
            end
        end
    end)
end


return { run = part.split(fill, want_all) }
