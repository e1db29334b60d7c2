-- One process holds many locks, and as many coroutines of another process wait for one each. Then all locks are
-- released. Tells what memory a waiter takes, and how long it takes until all go on.

local clock, part, sides = require "bench.support" ("clock", "part", "sides")
local ffi = require "ffi"

local DICTIONARY = "bench_crowd"
-- Those that poll then sleep as long as they ever do.
local REST = 1.1

ffi.cdef [[
typedef struct { size_t arena, ordblks, smblks, hblks, mapped, usmblks, fsmblks, used, fordblks, keepcost; }
  holdfast_bench_heap;
holdfast_bench_heap mallinfo2(void);
]]

local _M = {}


-- Of the C heap. LuaJIT has a heap of its own.
local function native()
    local heap = ffi.C.mallinfo2()
    return tonumber(heap.used) + tonumber(heap.mapped)
end


-- lua: alive; native: what C and C++ have allocated; shared: of the dictionary.
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


return _M
