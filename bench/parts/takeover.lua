-- Measures the time from kill -9 of a lock's holder until the first waiter, in a different process, has the lock. The
-- first process kills the holder, and `waiters` other processes wait. Each kill has a new holder.

local clock, part, sides = require "bench.support" ("clock", "part", "sides")
local ffi = require "ffi"

local KEY = "orphan"
local PATIENCE = 30
local SIGKILL = 9

ffi.cdef "int getpid(void); int kill(int pid, int signal);"

local _M = {}


local function hold(host, side)
    assert(sides.new_lock(side, PATIENCE):lock(KEY))
    host.emit("holder", ffi.C.getpid())
    host.sleep(PATIENCE)
end


-- Returns the pid of a new process that holds the lock, and the pipe that ends with the process.
local function start_holder(options)
    local pipe = assert(io.popen("HOLDFAST_BENCH_OPTIONS=holder=1 exec luajit '" .. options.root
                                 .. "/bench/child.lua' takeover", "r"))
    return assert(tonumber((pipe:read("*l") or ""):match("%d+")), "the holder does not start"), pipe
end


local function wait(host, side, sync, kills)
    local lock = sides.new_lock(side, PATIENCE)
    for kill = 1, kills do
        part.await(host, sync, "held", kill)
        sync:incr("waiting " .. kill, 1, 0)
        assert(lock:lock(KEY))
        local got = clock.now()
        -- The waiters get the lock one after another: the first one adds this key, and later calls do nothing.
        sync:add("got " .. kill, got)
        assert(lock:unlock())
        sync:incr("served " .. kill, 1, 0)
    end
end


-- Returns the milliseconds from the kill until the first waiter has the lock.
local function kill_and_measure(host, sync, options, kill)
    local pid, pipe = start_holder(options)
    sync:set("held", kill)
    part.await(host, sync, "waiting " .. kill, options.waiters)
    -- Sleeps until a random moment of a waiter's periodic work.
    host.sleep(0.002 + math.random() * 0.03)
    local killed = clock.now()
    ffi.C.kill(pid, SIGKILL)
    part.await(host, sync, "served " .. kill, options.waiters)
    pipe:close()
    return (sync:get("got " .. kill) - killed) * 1000
end


local function kill_all(host, sync, options)
    math.randomseed(os.time())
    local times = {}
    for kill = 1, options.kills do
        times[kill] = kill_and_measure(host, sync, options, kill)
    end
    host.emit("takeover", unpack(times))
end


function _M.run(host, options)
    local side = host.sides[1]
    if options.holder then
        return hold(host, side)
    end
    local sync = side.dict("bench_sync")
    host.run_all(1, function ()
        if host.number == 0 then
            kill_all(host, sync, options)
        else
            wait(host, side, sync, options.kills)
        end
    end)
    host.emit("done")
end


return _M
