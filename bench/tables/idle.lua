-- The cost of many waiters while nothing happens.

local clock, part, report, runs, sides, stats =
    require "bench.support" ("clock", "part", "report", "runs", "sides", "stats")

local _M = {}


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- One process holds the locks for which the coroutines of the other processes wait. Emits the share of a processor that
-- the waiting processes use while nothing happens.

-- After this time, waiters that poll sleep for their longest interval.
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


-- options.keys is the number of keys for the coroutines of each process; options.hasty is set with --quick.
_M.run = part.split(hold, wait)


-- --- the table ----------------------------------------------------------------------------------------------

local NONE = report.NONE
-- The target, in percent of a core.
local IDLE_TARGET = 0.2


-- Returns the percentage of a core that all waiting processes use together.
local function idle_of(lines)
    local sum = 0
    for _, words in ipairs(lines) do
        sum = sum + (words[1] == "idle" and words[3] * 100 or 0)
    end
    return sum
end


local function percent(rounds)
    return ("%.2f %%"):format(stats.median(stats.map(rounds, idle_of)))
end


local function idle_row(context, what, processes, coroutines, keys)
    local told = { coroutines = coroutines, keys = keys, seconds = context.quick and 0.5 or 5 }
    local here, there, err, why_not = runs.both(context, "bench/tables/idle", told, processes + 1,
                                                context.quick and 1 or 3)
    return {
        what,
        err or percent(here),
        why_not or percent(there),
        "<= " .. IDLE_TARGET .. " %",
        err and NONE or report.distance(stats.median(stats.map(here, idle_of)), IDLE_TARGET),
    }
end


function _M.make(context)
    return {
        title = "1,000 waiters while nothing happens",
        headings = { "waiters", "holdfast", "lua-resty-lock", "target", "distance" },
        rows = {
            idle_row(context, "1 process x 1,000 coroutines, 1 key", 1, 1000, 1),
            idle_row(context, "1 process x 1,000 coroutines, 1,000 keys", 1, 1000, 1000),
            idle_row(context, "10 processes x 100 coroutines, 1 key", 10, 100, 1),
        },
        note = "Processor time of all waiting processes together, as a share of one core.",
    }
end


return _M
