-- A semaphore or a read-write lock that very many hold: what it takes to be refused, and to give one share back.

local clock, stats = require "bench.support" ("clock", "stats")

local KEY = "crowded"
local DICTIONARY = "bench_crowd"
local PATIENCE = 600

local _M = {}


-- Microseconds, of `count` calls each by itself: their median.
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


-- options: kind, holders, samples.
function _M.run(host, options)
    assert(host.sides[1].dict(DICTIONARY))
    local holders = options.holders
    local take, refuse, release = WAYS[options.kind](holders)
    for i = 1, holders do
        take(i)
    end
    -- At no particular place among the others.
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


return _M
