-- Tests how much memory a waiting coroutine needs in wait/wait.lua, lock/acquire.lua, lock/held_lock.lua and the
-- scheduler.

local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"

local COUNT = 1000
-- The maximum number of bytes of Lua memory for each waiter, with its coroutine and its lock object. A table instead of
-- a C object, or a ninth field in one of the tables, would take at least 180 bytes more. A larger stack would take 880
-- bytes more.
local MOST = 1980
-- The number of variables that a caller may have in its own frame before the size of its coroutine's stack doubles.
local VARIABLES = 12


local function used()
    collectgarbage()
    collectgarbage()
    return collectgarbage("count") * 1024
end


-- Returns a function that calls lock:lock(key), with this many variables that it needs afterwards.
local function caller_with(variables)
    local names = {}
    for i = 1, variables do
        names[i] = "v" .. i
    end
    local list = table.concat(names, ", ")
    return assert(loadstring(("local lock, key = ...; local %s; assert(lock:lock(key)); return %s"):format(list, list)))
end


local function bytes_of_each(take)
    assert(shdict.open("spec_waiting_memory", { size = "1m" })):flush_all()
    local held = {}
    for i = 1, COUNT do
        held[i] = assert(resty_lock:new("spec_waiting_memory"))
        assert(held[i]:lock("key" .. i))
    end
    local waiting, bytes = 0, nil
    local before = used()
    for i = 1, COUNT do
        scheduler.spawn(function ()
            local lock = resty_lock:new("spec_waiting_memory")
            waiting = waiting + 1
            take(lock, "key" .. i)
            assert(lock:unlock())
        end)
    end
    scheduler.spawn(function ()
        repeat
            scheduler.sleep(0.01)
        until waiting == COUNT
        bytes = (used() - before) / COUNT
        for i = 1, COUNT do
            held[i]:unlock()
        end
    end)
    assert(scheduler.run())
    return bytes
end


it("a coroutine that waits for a lock takes little memory", function ()
    local bytes = bytes_of_each(caller_with(1))
    assert.is_true(bytes < MOST, bytes .. " bytes")
end)


it("a waiting coroutine takes no more memory if its function has a few variables", function ()
    local bytes = bytes_of_each(caller_with(VARIABLES))
    assert.is_true(bytes < MOST, bytes .. " bytes")
end)
