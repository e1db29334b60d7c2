-- How soon all of many waiters for the same value continue.

local clock, part, report, runs, sides, stats =
    require "bench.support" ("clock", "part", "report", "runs", "sides", "stats")

local _M = {}


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- The first process computes a value under a lock, and `count` coroutines of each other process wait for the value.
-- Emits the time from the release until the last coroutine continues. `way` is "wait" (all wait for the release) or
-- "lock" (they take the lock in turn).

-- The seconds within which all waiters fall asleep.
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


_M.run = part.split(fill, want_all)


-- --- the table ----------------------------------------------------------------------------------------------

local NONE = report.NONE
-- The target, in milliseconds.
local ONE_VALUE_TARGET = 3


-- Returns the milliseconds of each round. The two ways alternate, each in new processes.
local function one_value_row(context, processes, coroutines)
    local what = ("%d process%s x %d coroutines"):format(processes, processes > 1 and "es" or "", coroutines)
    local times, err = {}, nil
    for _ = 1, context.quick and 1 or 5 do
        for _, way in ipairs { "wait", "lock" } do
            local lines
            lines, err = runs.here(context, "bench/tables/one_value",
                                   { way = way, count = coroutines, rounds = context.quick and 3 or 10 }, processes + 1)
            runs.collect(times, lines, "last")
        end
    end
    local wait, lock = times["wait ms"], times["lock ms"]
    if not wait or not lock then
        return { what, runs.failed(err), NONE, NONE, NONE }
    end
    local function shown(list)
        return report.digits(stats.median(list)) .. " ms (" .. report.digits(math.min(unpack(list))) .. ")"
    end
    local median = stats.median(wait)
    return { what, shown(wait), shown(lock), "<= " .. ONE_VALUE_TARGET .. " ms",
             report.distance(median, ONE_VALUE_TARGET) }
end


function _M.make(context)
    return {
        title = "100 waiters for one value",
        headings = { "waiters", "lock:wait", "lock, one after the other", "target", "distance" },
        rows = stats.map({ 1, 10 }, function (processes) return one_value_row(context, processes, 100 / processes) end),
        note = "The time from the release until the last waiter continues: the median (and the minimum) of all rounds. "
               .. "Another process holds the lock.",
    }
end


return _M
