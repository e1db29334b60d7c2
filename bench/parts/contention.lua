-- Processes, with or without coroutines, request one key, hold it for a moment, and request it again, immediately or
-- after a pause. Emits the number of grants, the durations of all waits, and the number of grants of each contender.
--
--   coroutines   the number in each process; with 0, the process itself is the contender, without a scheduler
--   held         how long the lock is held, in seconds; `busy`: the holder does not release the processor
--   pause        the seconds between a release and the next request
--   fair         if not 0, the locks are granted in strict order

local clock, part, sides, stats = require "bench.support" ("clock", "part", "sides", "stats")

local KEY = "contended"
-- The timeout is longer than the run, because a waiter that polls may wait for the whole run.
local PATIENCE = 120

local _M = {}


local function spin(seconds)
    local ending = clock.now() + seconds
    repeat until clock.now() >= ending
end


-- Returns how often a contender got the lock before the deadline, and its longest wait. Its last wait ends after the
-- deadline: the wait counts, but the grant does not.
local function contend(host, side, options, deadline, waits)
    local lock = assert(side.lock:new(side.locks, { exptime = PATIENCE, timeout = PATIENCE,
                                                    fair = options.fair == 1 or nil }))
    local hold = options.busy and spin or host.sleep
    local acquired, longest = 0, 0
    while true do
        local start = clock.now()
        assert(lock:lock(KEY))
        local got = clock.now()
        waits[#waits + 1] = got - start
        longest = math.max(longest, got - start)
        if got >= deadline then
            assert(lock:unlock())
            return acquired, longest
        end
        acquired = acquired + 1
        hold(options.held)
        assert(lock:unlock())
        if options.pause > 0 then
            host.sleep(options.pause)
        end
    end
end


local function spread(durations)
    local counts = {}
    for _, seconds in ipairs(durations) do
        stats.count(counts, seconds)
    end
    return stats.write_histogram(counts)
end


local function report(host, side, options, waits, counts, longest)
    local acquired, served = 0, 0
    for _, count in ipairs(counts) do
        acquired = acquired + count
        served = served + (count > 0 and 1 or 0)
    end
    host.emit("contention", side.name, acquired / options.seconds, stats.percentile(waits, 1), served)
    host.emit("counts", side.name, unpack(counts))
    host.emit("waits", side.name, spread(waits))
    host.emit("longest", side.name, spread(longest))
end


function _M.run(host, options)
    local side = sides.chosen(host, options)
    local waits, counts, longest = {}, {}, {}
    part.gather(host, side.dict("bench_sync"), "ready")
    local deadline = clock.now() + options.seconds
    if options.coroutines == 0 then
        counts[1], longest[1] = contend(host, side, options, deadline, waits)
    else
        host.run_all(options.coroutines, function (number)
            counts[number], longest[number] = contend(host, side, options, deadline, waits)
        end)
    end
    report(host, side, options, waits, counts, longest)
end


return _M
