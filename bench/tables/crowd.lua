-- Many waiters, each of which waits for its own lock: their memory, and how soon all of them continue.

local clock, part, report, runs, sides, stats =
    require "bench.support" ("clock", "part", "report", "runs", "sides", "stats")
local ffi = require "ffi"

local _M = {}


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- One process holds many locks, and as many coroutines of a second process wait for one lock each. Then all locks are
-- released. Emits the memory of a waiter, and the time until all waiters continue.

local DICTIONARY = "bench_crowd"
-- After this time, waiters that poll sleep for their longest interval.
local REST = 1.1

ffi.cdef [[
typedef struct { size_t arena, ordblks, smblks, hblks, mapped, usmblks, fsmblks, used, fordblks, keepcost; }
  holdfast_bench_heap;
holdfast_bench_heap mallinfo2(void);
]]


-- Returns the allocated bytes of the C heap, which is separate from LuaJIT's heap.
local function native()
    local heap = ffi.C.mallinfo2()
    return tonumber(heap.used) + tonumber(heap.mapped)
end


-- Returns the bytes in use: by LuaJIT, by C and C++, and in the dictionary.
local function used(dict)
    collectgarbage()
    collectgarbage()
    return {
        lua = collectgarbage("count") * 1024,
        native = native(),
        shared = dict:capacity() - dict:free_space(),
    }
end


local function key_of(number)
    return ("k%08d"):format(number)
end


local function hold(host, side, sync, count)
    local locks = {}
    for i = 1, count do
        locks[i] = sides.new_lock(side, nil, DICTIONARY)
        assert(locks[i]:lock(key_of(i)))
    end
    sync:set("held", 1)
    part.await(host, sync, "asleep", 1)
    host.sleep(REST)
    local start = clock.now()
    for i = 1, count do
        assert(locks[i]:unlock())
    end
    host.emit("released", side.name, clock.now() - start)
    sync:set("start", start)
    part.await(host, sync, "done", 1)
end


local function wait(host, side, sync, count)
    local dict = side.dict(DICTIONARY)
    part.await(host, sync, "held", 1)
    local waiting, first, last = 0, math.huge, 0
    local before = used(dict)
    local after
    host.run_all(count + 1, function (task)
        if task > count then
            repeat
                host.sleep(0.1)
            until waiting == count
            after = used(dict)
            sync:set("asleep", 1)
            return
        end
        local lock, key = sides.new_lock(side, nil, DICTIONARY), key_of(task)
        waiting = waiting + 1
        assert(lock:lock(key))
        local now = clock.now()
        first, last = math.min(first, now), math.max(last, now)
        assert(lock:unlock())
    end)
    part.await(host, sync, "start", 0.001)
    local start = sync:get("start")
    host.emit("crowd", side.name, (after.lua - before.lua) / count, (after.native - before.native) / count,
              (after.shared - before.shared) / count, first - start, last - start)
    sync:set("done", 1)
end


function _M.run(host, options)
    local side = host.sides[1]
    local work = host.number == 0 and hold or wait
    work(host, side, side.dict("bench_sync"), options.count)
end


-- --- the table ----------------------------------------------------------------------------------------------

local NONE = report.NONE
-- The target, in bytes for each waiting coroutine.
local WAITER_TARGET = 1600
-- The positions in a line of results: the bytes of Lua, of C and C++, and of shared memory.
local MEMORY = { 3, 4, 5 }


-- Returns the median of column `place` over the rounds.
local function median_of(rounds, name, place)
    return stats.median(stats.map(rounds, function (lines) return runs.find(lines, name)[place] end))
end


local function crowd_column(rounds, why_not)
    local column = {}
    if not rounds[1] then
        return { why_not, NONE, NONE, NONE, NONE, NONE, NONE }
    end
    local sum = 0
    for i, place in ipairs(MEMORY) do
        local bytes = median_of(rounds, "crowd", place)
        sum = sum + bytes
        column[i + 1] = ("%.0f"):format(bytes)
    end
    column[1] = ("%.0f"):format(sum)
    column[5] = report.digits(median_of(rounds, "released", 3) * 1e3) .. " ms"
    column[6] = report.digits(median_of(rounds, "crowd", 6) * 1e3) .. " ms"
    column[7] = report.digits(median_of(rounds, "crowd", 7) * 1e3) .. " ms"
    return column
end


function _M.make(context)
    local count = context.quick and 1000 or 10000
    local here, there, err, why_not = runs.both(context, "bench/tables/crowd", { count = count }, 2,
                                                context.quick and 1 or 3)
    local mine, theirs = crowd_column(here, err), crowd_column(there, why_not)
    local rows = {}
    for i, what in ipairs { "bytes per waiter", "  of Lua", "  of C and C++", "  of shared memory",
                            "releasing all", "first release to first resume", "first release to last resume" } do
        rows[i] = { what, mine[i], theirs[i], NONE, NONE }
    end
    local bytes = tonumber(mine[1])
    rows[1][4] = "<= " .. WAITER_TARGET
    rows[1][5] = bytes and report.distance(bytes, WAITER_TARGET) or NONE
    return {
        title = ("%d coroutines of one process, each waiting for its own lock"):format(count),
        headings = { "what", "holdfast", "lua-resty-lock", "target", "distance" },
        rows = rows,
        note = "Another process holds all locks and releases them one after another. The values are "
               .. "medians of all rounds.",
    }
end


return _M
