-- Caches of values in each process: a hit, a value that another process sets, and many callers that miss the same
-- value.

local clock, keys, part, peers, process, report, sides, stats, turns =
    require "bench.support" ("clock", "keys", "part", "peers", "process", "report", "sides", "stats", "turns")

local _M = {}

local PART = "bench/tables/caches"
local KEY = "one key"
local WORKERS = math.max(2, math.min(process.cores(), 4))
-- The seconds between two calls to update() if a timer makes them, and the seconds for which a reader waits for a
-- value.
local UPDATES, PATIENCE = 0.1, 0.3
-- The minimum number of reads that a reader makes after set() has returned.
local READS = 1000
-- The seconds that the loader takes.
local LOAD = 0.05


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- Measures the side that options.side names. Each maker returns a cache with get() and set(key, opts, value).

local makers = {}


function makers.holdfast(_, options)
    return assert(require("resty.holdfast.cache").new("bench", "bench_cache", {
        size = sides.SIZES.bench_cache, lru_size = 2 * (options.keys or 100), ttl = 3600 }))
end


function makers.mlcache(host, options)
    peers.use(options.dir, host.sides[1].lock)
    return assert(require("resty.mlcache").new("bench", "bench_cache", {
        ipc_shm = "bench_ipc", lru_size = 2 * (options.keys or 100), ttl = 3600 }))
end


function makers.lrucache(_, options)
    local cache = assert(require("resty.lrucache").new(2 * options.keys))
    local set = cache.set
    cache.set = function (self, key, _, value)
        return set(self, key, value, 3600)
    end
    return cache
end


local function read(cache, list, steps, update)
    local count, at, sum = #list, 0, 0
    for _ = 1, steps do
        at = at < count and at + 1 or 1
        if update then
            cache:update()
        end
        sum = sum + cache:get(list[at])[1]
    end
    return sum
end


local function measure_hits(host, options, cache)
    local list, times = keys.shuffled(options.keys), {}
    for i = 1, #list do
        local key = list[i * 7919 % #list + 1]
        cache:set(key, nil, { i })
        assert(cache:get(key)[1] == i)
    end
    read(cache, list, options.steps, options.update)
    for round = 1, 5 do
        local start = clock.cpu()
        read(cache, list, options.steps, options.update)
        times[round] = (clock.cpu() - start) / options.steps * 1e9
    end
    host.emit(PART, "hit " .. options.keys, options.side, unpack(times))
end


-- Reads until the value of this round has been there for a while, or until a time limit. Returns the time of the first
-- read that got the value, or nil; the number of reads that began after set() had returned; and the number of those
-- reads that returned an older value.
local function await_value(options, cache, sync, round)
    local patience, update, reads, old, seen = clock.now() + PATIENCE, 0, 0, 0, nil
    while true do
        local is_set = sync:get("set") == round
        local now = clock.now()
        if options.update and now >= update then
            cache:update()
            update = now + (options.update == "timer" and UPDATES or 0)
        end
        local is_new = cache:get(KEY) == round
        reads, old = reads + (is_set and 1 or 0), old + (is_set and not is_new and 1 or 0)
        now = clock.now()
        seen = seen or is_new and now or nil
        if seen and reads >= READS or now > patience then
            return seen, reads, old
        end
    end
end


-- The first process sets a value in each round. The other processes read it all the time.
local function measure_spread(host, options, cache)
    local sync = require("resty.shdict").open("bench_sync", { size = "100k", persist = false })
    local reads, old = 0, 0
    assert(cache:set(KEY, nil, 0))
    part.gather(host, sync, "made")
    for round = 1, options.rounds do
        assert(cache:get(KEY))
        part.start(host, sync, "round " .. round)
        if host.number == 0 then
            clock.sleep(0.001 + math.random() * 0.002)
            sync:set("began", clock.now())
            assert(cache:set(KEY, nil, round))
            sync:set("set", round)
        else
            local seen, more, more_old = await_value(options, cache, sync, round)
            reads, old = reads + more, old + more_old
            part.await(host, sync, "set", round)
            sync:incr("seen", 1, 0)
            host.emit("spread", (seen or math.huge) - sync:get("began"))
        end
        part.gather(host, sync, "end " .. round)
    end
    host.emit("reads", reads, old)
end


-- Light threads of two processes miss a value at the same time.
local function measure_crowd(host, options, cache)
    local sync = require("resty.shdict").open("bench_sync", { size = "100k", persist = false })
    local number = sync:incr("process", 1, 0)
    assert(cache:purge())  -- values of earlier processes
    part.gather(host, sync, "made")
    local function load_value()
        sync:incr("calls", 1, 0)
        host.sleep(LOAD)
        return 1
    end
    for round = 1, options.rounds do
        local first, last = math.huge, 0
        part.start(host, sync, "round " .. round)
        host.run_all(options.coroutines, function ()
            assert(cache:get("crowd " .. round, nil, load_value) == 1)
            local now = clock.now()
            first, last = math.min(first, now), math.max(last, now)
        end)
        sync:set("first " .. number, first)
        sync:set("last " .. number, last)
        part.gather(host, sync, "end " .. round)
        if number == 1 then
            host.emit("crowd", math.max(last, sync:get("last 2")) - math.min(first, sync:get("first 2")))
        end
        part.gather(host, sync, "told " .. round)
    end
    if number == 1 then
        host.emit("calls", sync:get("calls") / options.rounds)
    end
end


local MEASURES = { hit = measure_hits, spread = measure_spread, crowd = measure_crowd }


function _M.run(host, options)
    MEASURES[options.what](host, options, makers[options.side](host, options))
end


-- --- the tables ---------------------------------------------------------------------------------------------

local NONE = report.NONE

local function ratio_cells(found, key, case, target)
    local ours, others = found.ours[case], found[key][case]
    local ratio, _, distance = report.ratio(ours and others and stats.ratios(ours, others), target)
    return ratio, target and "<= " .. target .. "x" or NONE, distance
end


local function time_cell(found, why_not, key, case)
    return report.spread(found[key][case]) or why_not[key] or NONE
end


local HIT_TARGET = 15

local function hits(context, ours, others)
    local rows = {}
    for _, count in ipairs { 100, 100000 } do
        local has_target = count == 100
        local told = { what = "hit", keys = count, steps = context.quick and 1e5 or 2e6 }
        local found, why_not = turns.compare(context, PART, told, { ours, unpack(others) })
        local case, what = "hit " .. count, ("a hit, %d keys"):format(count)
        local mine, times = time_cell(found, why_not, "ours", case), found.ours[case]
        if has_target then
            rows[1] = { what, mine, NONE, NONE, NONE, "<= " .. HIT_TARGET .. " ns",
                        times and report.distance(stats.median(times), HIT_TARGET) or NONE }
        end
        for _, side in ipairs(others) do
            rows[#rows + 1] = { what, mine, side.name, time_cell(found, why_not, side.key, case),
                                ratio_cells(found, side.key, case, has_target and side.target or nil) }
        end
    end
    return {
        title = "A hit in the process",
        headings = { "what", "holdfast", "beside", "takes", "ratio (middle half)", "target", "distance" },
        rows = rows,
        note = "Nanoseconds of processor time, with the keys in random order: the minimum; the median (and the middle "
               .. "half) of processes. Each process runs only one side, in a worker of nginx, and the sides take "
               .. "turns. Copies in lrucache are outdated until they expire, and copies of mlcache's get until "
               .. "update() is called.",
    }
end


local function spread(context, chosen)
    local rows = {}
    local told = { what = "spread", rounds = context.quick and 3 or 30 }
    local lines, why_not = turns.lines(context, PART, told, chosen, WORKERS)
    for i, side in ipairs(chosen) do
        local times, reads, old = {}, 0, 0
        for j, words in ipairs(turns.named(lines[side.key], "spread")) do
            times[j] = math.max(words[2], 0)
        end
        for _, words in ipairs(turns.named(lines[side.key], "reads")) do
            reads, old = reads + words[2], old + words[3]
        end
        local function time(share)
            local value = stats.percentile(times, share)
            return value > PATIENCE and "later than " .. report.time(PATIENCE) or report.time(value)
        end
        rows[i] = why_not[side.key] and { side.name, why_not[side.key], NONE, NONE, NONE }
            or { side.name, time(0.5), time(1), ("%d of %d"):format(old, reads),
                 side.key == "ours" and "0, " .. (old == 0 and "met" or "missed") or NONE }
    end
    return {
        title = "A value set in one process, read in the others",
        headings = { "cache", "first correct read, p50", "longest", "old reads after set returned", "target" },
        rows = rows,
        note = ("The time from the beginning of set in one worker of nginx until another worker, which reads all the "
                .. "time, gets the new value (%d workers, pinned).")
            :format(WORKERS),
    }
end


local CALLS_TARGET, CROWD_TARGET = 1, 1e-3

local function crowd(context, chosen)
    local rows = {}
    local told = { what = "crowd", rounds = context.quick and 1 or 5, coroutines = 50 }
    local lines, why_not = turns.lines(context, PART, told, chosen, 2)
    for i, side in ipairs(chosen) do
        local function values(name)
            return stats.map(turns.named(lines[side.key], name), function (words) return words[2] end)
        end
        local times, calls = values("crowd"), values("calls")
        local is_ours = side.key == "ours"
        rows[i] = why_not[side.key] and { side.name, why_not[side.key], NONE, NONE, NONE, NONE }
            or { side.name, report.digits(stats.percentile(calls, 1)), report.time(stats.median(times)),
                 report.time(stats.percentile(times, 1)),
                 is_ours and ("%d call, <= %s"):format(CALLS_TARGET, report.time(CROWD_TARGET)) or NONE,
                 is_ours and report.distance(stats.median(times) * 1e3, CROWD_TARGET * 1e3) or NONE }
    end
    return {
        title = "100 callers miss one value",
        headings = { "cache", "calls of the loader", "last after the first", "longest", "target", "distance" },
        rows = rows,
        note = "50 light threads in each of two workers of nginx; the loader takes 50 ms.",
    }
end


function _M.make(context)
    local name, dir, missing = peers.find("mlcache")
    local function side(fields)
        fields.place = fields.place or "nginx"
        fields.told = fields.told or {}
        fields.told.dir = dir
        return fields
    end
    local ours = side { key = "ours", name = "holdfast", only = "ours", side = "holdfast" }
    local get = side { key = "get", name = name .. " get", only = "peer", side = "mlcache", missing = missing,
                       target = 0.15 }
    local update = side { key = "update", name = name .. " update + get", only = "peer", side = "mlcache",
                          missing = missing, told = { update = "each" } }
    local timer = side { key = "timer", name = name .. ", update each 100 ms", only = "peer", side = "mlcache",
                         missing = missing, told = { update = "timer" } }
    local lrucache = side { key = "lrucache", name = "lua-resty-lrucache", only = "peer", side = "lrucache",
                            target = 0.8 }
    return hits(context, ours, { lrucache, get, update }), spread(context, { ours, update, timer }),
        crowd(context, { ours, get })
end


return _M
