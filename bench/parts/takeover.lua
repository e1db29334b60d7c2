-- Measures the time from the kill -9 of a lock's holder until the first waiter, in a different process, has the lock.
-- The first process kills the holder, and `waiters` other processes wait. For each kill, there is a new holder. If the
-- option `way` is a name of bench/support/job_queues.lua, measures the same for a job and its worker.

local clock, job_queues, part, sides = require "bench.support" ("clock", "job_queues", "part", "sides")
local ffi = require "ffi"

local KEY = "orphan"
local PATIENCE = 30
local SIGKILL = 9

ffi.cdef "int getpid(void); int kill(int pid, int signal);"

local _M = {}


-- Returns what a holder holds: prepare() creates the object, take() returns it when it is free, and release() gives it
-- back.
local function lock_way(side)
    local lock = sides.new_lock(side, PATIENCE)
    return {
        prepare = function () end,
        take = function () return lock:lock(KEY) end,
        release = function () assert(lock:unlock()) end,
    }
end


local function job_way(options)
    local queue = job_queues[options.way](options.folder, options)
    return {
        prepare = function () queue.push(KEY) end,
        take = function () return queue.take(PATIENCE) end,
        release = queue.done,
    }
end


local function hold(host, way)
    assert(way.take())
    host.emit("holder", ffi.C.getpid())
    host.sleep(PATIENCE)
end


-- Returns the pid of a new process that holds the lock, and a pipe from that process.
local function start_holder(options)
    local pipe = assert(io.popen("HOLDFAST_BENCH_OPTIONS=holder=1,way=" .. (options.way or "lock")
                                 .. " exec luajit '" .. options.root .. "/bench/child.lua' takeover", "r"))
    return assert(tonumber((pipe:read("*l") or ""):match("%d+")), "the holder does not start"), pipe
end


local function wait(host, way, sync, kills)
    for kill = 1, kills do
        part.await(host, sync, "held", kill)
        sync:incr("waiting " .. kill, 1, 0)
        local taken = assert(way.take())
        local got = clock.now()
        -- The waiters get the lock one after another. The first waiter adds this key; the later calls do nothing.
        sync:add("got " .. kill, got)
        way.release(taken)
        sync:incr("served " .. kill, 1, 0)
    end
end


-- Returns the milliseconds from the kill until the first waiter has the lock.
local function kill_and_measure(host, way, sync, options, kill)
    way.prepare()
    local pid, pipe = start_holder(options)
    sync:set("held", kill)
    part.await(host, sync, "waiting " .. kill, options.waiters)
    -- Sleeps for a random time, so that the kill happens at a random moment of the waiters' periodic work.
    host.sleep(0.002 + math.random() * 0.03)
    local killed = clock.now()
    ffi.C.kill(pid, SIGKILL)
    part.await(host, sync, "served " .. kill, options.waiters)
    pipe:close()
    return (sync:get("got " .. kill) - killed) * 1000
end


local function kill_all(host, way, sync, options)
    math.randomseed(os.time())
    local times = {}
    for kill = 1, options.kills do
        times[kill] = kill_and_measure(host, way, sync, options, kill)
    end
    host.emit("takeover", unpack(times))
end


function _M.run(host, options)
    local side = host.sides[1]
    local way = (options.way or "lock") == "lock" and lock_way(side) or job_way(options)
    if options.holder then
        return hold(host, way)
    end
    local sync = side.dict("bench_sync")
    host.run_all(1, function ()
        if host.number == 0 then
            kill_all(host, way, sync, options)
        else
            wait(host, way, sync, options.kills)
        end
    end)
    host.emit("done")
end


return _M
