-- Tests wait/wait.lua, lock/acquire.lua, lock/held_lock.lua and the scheduler: what a waiting coroutine takes.

local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"

local COUNT = 1000
-- Bytes of Lua for each, with its coroutine and its lock object. A field more in one of these tables, or a few slots
-- more on the way to the sleep, and it is some hundreds more.
local MOST = 2400


local function used()
    collectgarbage()
    collectgarbage()
    return collectgarbage("count") * 1024
end


it("a coroutine that waits for a lock takes little memory", function ()
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
            assert(lock:lock("key" .. i))
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
    assert.is_true(bytes < MOST, bytes .. " bytes")
end)
