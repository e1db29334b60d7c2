-- How long from the release of a lock in one process to the waiter's next line in another; and, in turns with it, how
-- long from a bare futex wake to the sleeper's next line. Both after the same rest: both meet an idle processor.

local bit = require "bit"
local clock = require "bench.support.clock"
local ffi = require "ffi"
local stats = require "bench.support.stats"

local C = ffi.C
local now = clock.now

ffi.cdef [[
typedef struct {
  int32_t announced;  // number of the sample for which the receiver is to wait
  int32_t received;   // number of the last sample that it got
  int32_t word;       // the futex
  double sent;        // when
} holdfast_bench_ping;
int open(const char *path, int flags, int mode);
int ftruncate(int descriptor, long length);
void *mmap(void *address, size_t length, int protection, int flags, int descriptor, long offset);
long syscall(long number, ...);
int usleep(unsigned microseconds);
]]

local KEY = "ping"
local PATIENCE = 30
local REST = 0.002
local SHORT_REST = 0.0002

local FUTEX = ({ x64 = 202, arm64 = 98 })[jit.arch]
local FUTEX_WAIT, FUTEX_WAKE = 0, 1
local O_RDWR_CREATE = 0x42
local READ_WRITE, SHARED = 3, 1

local _M = {}


local function map(path)
    local size = ffi.sizeof("holdfast_bench_ping")
    local descriptor = C.open(path, O_RDWR_CREATE, tonumber("600", 8))
    assert(descriptor >= 0 and C.ftruncate(descriptor, size) == 0, "cannot make " .. path)
    local address = C.mmap(nil, size, READ_WRITE, SHARED, descriptor, 0)
    assert(ffi.cast("intptr_t", address) ~= -1, "cannot map " .. path)
    return ffi.cast("holdfast_bench_ping *", address)
end


local function futex(ping, operation, value)
    C.syscall(ffi.cast("long", FUTEX), ffi.cast("int32_t *", ping) + 2, ffi.cast("int", operation),
              ffi.cast("int", value), nil, nil, ffi.cast("int", 0))
end


local function wait_until(host, condition)
    local deadline = now() + PATIENCE
    while not condition() do
        assert(now() < deadline, "the other process does not answer")
        host.sleep(SHORT_REST)
    end
end


-- --- both ways to wake: what the sender does before and after its rest, and what the receiver does -------------

local function lock_way(host)
    local side = host.sides[1]
    local lock = assert(side.lock:new(side.locks, { exptime = PATIENCE, timeout = PATIENCE }))
    return {
        rest = host.sleep,
        prepare = function ()
            assert(lock:lock(KEY))
        end,
        send = function ()
            assert(lock:unlock())
        end,
        receive = function ()
            local elapsed = assert(lock:lock(KEY))
            local time = now()
            assert(lock:unlock())
            return elapsed > 0 and time or nil
        end,
    }
end


local function futex_way(ping)
    return {
        rest = function (seconds)
            C.usleep(seconds * 1e6)
        end,
        prepare = function ()
            ping.word = 0
        end,
        send = function ()
            ping.word = 1
            futex(ping, FUTEX_WAKE, 1)
        end,
        receive = function ()
            local slept = false
            while ping.word == 0 do
                slept = true
                futex(ping, FUTEX_WAIT, 0)
            end
            local time = now()
            return slept and time or nil
        end,
    }
end


local function send(host, way, ping, number)
    way.prepare()
    ping.announced = number
    way.rest(REST)
    ping.sent = now()
    way.send()
    wait_until(host, function () return ping.received == number end)
end


-- nil when the signal came before the wait for it.
local function receive(host, way, ping, number)
    wait_until(host, function () return ping.announced == number end)
    local time = way.receive()
    local latency = time and time - ping.sent
    ping.received = number
    return latency
end


local function report(host, name, rounds)
    local all, medians = {}, {}
    for round, values in ipairs(rounds) do
        medians[round] = stats.median(values) * 1e6
        for _, value in ipairs(values) do
            all[#all + 1] = value * 1e6
        end
    end
    host.emit("wakeup", name, #all, stats.percentile(all, 0.5), stats.percentile(all, 0.99), unpack(medians))
end


local function run(host, options)
    local ping = map(options.folder .. "/ping")
    local ways = { { name = "lock", way = lock_way(host) }, { name = "futex", way = futex_way(ping) } }
    local number = 0
    for round = 1, options.rounds do
        for turn = 1, #ways do
            local entry = ways[bit.band(round, 1) == 1 and turn or #ways + 1 - turn]
            entry[round] = {}
            for _ = 1, options.samples do
                number = number + 1
                if options.process == 0 then
                    send(host, entry.way, ping, number)
                else
                    table.insert(entry[round], (receive(host, entry.way, ping, number)))
                end
            end
        end
    end
    for _, entry in ipairs(ways) do
        if options.process == 1 then
            report(host, entry.name, entry)
        end
    end
end


function _M.run(host, options)
    if not FUTEX then
        host.emit("failed", "the number of the futex call is not known for " .. jit.arch)
        return
    end
    host.run_all(1, function ()
        run(host, options)
    end)
    host.emit("done")
end


return _M
