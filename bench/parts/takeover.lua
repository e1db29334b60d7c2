-- How long from kill -9 of a lock's holder until a coroutine of another process, which waits for it, has the lock.

local clock = require "bench.support.clock"
local ffi = require "ffi"

local KEY = "orphan"
local PATIENCE = 30
local SIGKILL = 9

ffi.cdef "int getpid(void); int kill(int pid, int signal);"

local _M = {}


local function hold(host, side)
    local lock = assert(side.lock:new(side.locks, { exptime = PATIENCE, timeout = PATIENCE }))
    assert(lock:lock(KEY))
    host.emit("holder", ffi.C.getpid())
    host.sleep(PATIENCE)
end


-- The pid of a new process that holds the lock, and the pipe that ends with it.
local function start_holder(options)
    local pipe = assert(io.popen("HOLDFAST_BENCH_OPTIONS=holder=1 exec luajit '" .. options.root
                                 .. "/bench/child.lua' takeover", "r"))
    return assert(tonumber((pipe:read("*l") or ""):match("%d+")), "the holder does not start"), pipe
end


local function measure(host, side, options)
    local pid, pipe = start_holder(options)
    local killed, got
    host.run_all(2, function (task)
        if task == 1 then
            local lock = assert(side.lock:new(side.locks, { exptime = PATIENCE, timeout = PATIENCE }))
            assert(lock:lock(KEY))
            got = clock.now()
            assert(lock:unlock())
        else
            -- At no particular moment of whatever the waiter does from time to time.
            host.sleep(0.002 + math.random() * 0.03)
            killed = clock.now()
            ffi.C.kill(pid, SIGKILL)
        end
    end)
    pipe:close()
    return (got - killed) * 1000
end


function _M.run(host, options)
    local side = host.sides[1]
    if options.holder then
        return hold(host, side)
    end
    math.randomseed(os.time())
    local times = {}
    for i = 1, options.kills do
        times[i] = measure(host, side, options)
    end
    host.emit("takeover", unpack(times))
end


return _M
