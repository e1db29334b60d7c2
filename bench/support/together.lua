-- Processes that wait for each other, wherever they run: `sync` is a dictionary that all of them have.

local clock = require "bench.support.clock"

-- Longer than it takes the slowest process to come.
local PATIENCE = 60
-- Seconds from the last arrival to the start of all.
local RUN_UP = 0.003
local REST = 0.001

local _M = {}


-- Waits until the number under this name is `value` or more, and sleeps in between.
function _M.await(host, sync, name, value)
    local patience = clock.now() + PATIENCE
    while (sync:get(name) or 0) < value do
        assert(clock.now() < patience, "the other processes do not come: " .. name)
        host.sleep(REST)
    end
end


-- Waits for all others, and sleeps in between.
function _M.gather(host, sync, name)
    assert(sync:incr(name, 1, 0))
    _M.await(host, sync, name, host.workers)
end


-- Waits for all others without sleeping; then all go at the same time, which it returns.
function _M.start(host, sync, name)
    local arrived = assert(sync:incr(name .. " arrived", 1, 0))
    if arrived == host.workers then
        assert(sync:set(name .. " start", clock.now() + RUN_UP))
    end
    local patience = clock.now() + PATIENCE
    local start
    repeat
        start = sync:get(name .. " start")
        assert(clock.now() < patience, "the other processes do not come")
    until start and clock.now() >= start
    return start
end


-- Steps per second of this process from that start on: loop(count) does so many and returns how many it did, `batch` of
-- them between two looks at the clock.
function _M.rate(loop, batch, start, seconds)
    local steps, now = 0
    repeat
        steps = steps + loop(batch)
        now = clock.now()
    until now >= start + seconds
    return steps / (now - start)
end


return _M
