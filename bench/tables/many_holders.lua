-- The cost of operations on a key with very many holders.

local clock, report, runs, stats = require "bench.support" ("clock", "report", "runs", "stats")

local _M = {}


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- Measures a semaphore or a read-write lock with very many holders: the cost of a refusal, and the cost of releasing
-- one permit.

local KEY = "crowded"
local DICTIONARY = "bench_crowd"
local PATIENCE = 600


-- Returns the median duration of `count` separately measured calls, in microseconds.
local function time(count, call)
    local times = {}
    for i = 1, count do
        local start = clock.now()
        call(i)
        times[i] = (clock.now() - start) * 1e6
    end
    return stats.median(times)
end


-- Three functions: take(i) for the i-th holder, refuse(), and release(i).
local WAYS = {
    semaphore = function (holders)
        local semaphore = require "resty.semaphore"
        local object = assert(semaphore:new(DICTIONARY, { permits = holders, exptime = PATIENCE }))
        return function () assert(object:wait(KEY, 0)) end,
            function () assert(not object:wait(KEY, 0)) end,
            function () assert(object:post(KEY)) end
    end,
    rwlock = function (holders)
        local rwlock = require "resty.rwlock"
        local objects = {}
        for i = 1, holders + 1 do
            objects[i] = assert(rwlock:new(DICTIONARY, { exptime = PATIENCE, timeout = 0 }))
        end
        return function (i) assert(objects[i]:rdlock(KEY)) end,
            function () assert(not objects[holders + 1]:trywrlock(KEY)) end,
            function (i) assert(objects[i]:unlock()) end
    end,
}


-- The options are `kind`, `holders` and `samples`.
function _M.run(host, options)
    assert(host.sides[1].dict(DICTIONARY))
    local holders = options.holders
    local take, refuse, release = WAYS[options.kind](holders)
    for i = 1, holders do
        take(i)
    end
    -- Returns the number of a pseudorandomly chosen holder.
    local function place(i)
        return i * 7919 % holders + 1
    end
    local refused, released, taken = {}, {}, {}
    for round = 1, 10 do
        refused[round] = time(options.samples, refuse)
        for i = 1, options.samples do
            local number = place(i + round * options.samples)
            released[#released + 1] = time(1, function () release(number) end)
            taken[#taken + 1] = time(1, function () take(number) end)
        end
    end
    host.emit("holders", options.kind, holders, stats.median(refused), stats.median(released), stats.median(taken))
end


-- --- the table ----------------------------------------------------------------------------------------------

local NONE = report.NONE
-- The target, in microseconds.
local TARGET = 5
local FEW, MANY = 10, 10000

local WHAT = { { 4, "refused try" }, { 5, "release" }, { 6, "take again" } }
local NAMES = { rwlock = "read-write lock" }


-- Returns for each column of the line a list of microseconds, with one value for each process, or nil and the error.
local function measure(context, kind, holders)
    local lists = {}
    for _ = 1, context.quick and 1 or 5 do
        local lines, err = runs.here(context, "bench/tables/many_holders",
                                     { kind = kind, holders = holders, samples = context.quick and 2 or 20 })
        local words = runs.find(lines, "holders", kind)
        if not words then
            return nil, runs.failed(err)
        end
        for _, entry in ipairs(WHAT) do
            lists[entry[1]] = lists[entry[1]] or {}
            table.insert(lists[entry[1]], words[entry[1]])
        end
    end
    return lists
end


local function shown(times)
    return ("%s µs (%s)"):format(report.digits(stats.median(times)), report.digits(stats.percentile(times, 0)))
end


local function add_rows(context, rows, kind)
    local few = measure(context, kind, FEW)
    local many, err = measure(context, kind, MANY)
    for _, entry in ipairs(WHAT) do
        local what = (NAMES[kind] or kind) .. ", " .. entry[2]
        if few and many then
            local times = many[entry[1]]
            rows[#rows + 1] = { what, shown(few[entry[1]]), shown(times), "<= " .. TARGET .. " µs",
                                report.distance(stats.median(times), TARGET) }
        else
            rows[#rows + 1] = { what, err or NONE, NONE, NONE, NONE }
        end
    end
end


function _M.make(context)
    local rows = {}
    add_rows(context, rows, "semaphore")
    add_rows(context, rows, "rwlock")
    return {
        title = "Many holders of one key",
        headings = { "what", FEW .. " holders", "10,000 holders", "target", "distance" },
        rows = rows,
        note = "Time in the caller: the median (and the minimum) of five processes. One process has all permits, and "
               .. "nobody waits.",
    }
end


return _M
