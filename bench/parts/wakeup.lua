-- Measures the time from the release of a lock in one process until the waiter's next line runs in another. Alternates
-- this with the time from a bare futex wake until the sleeper's next line runs. The same pause precedes both, so that
-- the processor is idle before both. Also measures the time from the push of a job until the taker's next line runs.
--
-- Options: `way` (lock, futex, or a name of bench/support/job_queues.lua) restricts the measurement to one way;
-- `shortest` and `longest` limit the random pause; `seed` is the seed of the pauses; `warm_up` is the number of samples
-- before the counted samples, which follow the shortest pause.

local clock, job_queues, sides, stats, system_locks =
    require "bench.support" ("clock", "job_queues", "sides", "stats", "system_locks")
local ffi = require "ffi"

local C = ffi.C
local now = clock.now

ffi.cdef [[
typedef struct {
  int32_t announced;  // number of the sample for which the receiver is to wait
  int32_t received;   // number of the last sample that it got
  int32_t word;       // the futex
  double sent;        // when
} holdfast_bench_ping;
int usleep(unsigned microseconds);
]]

local KEY = "ping"
local PATIENCE = 30
local REST = 0.002
local SHORT_REST = 0.0002

local _M = {}


local function wait_until(host, condition)
    local deadline = now() + PATIENCE
    while not condition() do
        assert(now() < deadline, "the other process does not answer")
        host.sleep(SHORT_REST)
    end
end


-- --- the ways to wake: what the sender does before and after its pause, and what the receiver does -------------------

local function lock_way(host)
    local side = host.sides[1]
    local lock = sides.new_lock(side, PATIENCE)
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


local function futex_way(_, ping)
    local word = ffi.cast("int32_t *", ping) + 2
    return {
        rest = function (seconds)
            C.usleep(seconds * 1e6)
        end,
        prepare = function ()
            ping.word = 0
        end,
        send = function ()
            ping.word = 1
            system_locks.wake(word)
        end,
        receive = function ()
            local slept = false
            while ping.word == 0 do
                slept = true
                system_locks.sleep(word, 0)
            end
            local time = now()
            return slept and time or nil
        end,
    }
end


local function job_way(host, ping, options)
    local queue = job_queues[options.way](options.folder, options)
    return {
        rest = host.sleep,
        prepare = function () end,
        send = function ()
            queue.push("job")
        end,
        receive = function ()
            local began = now()
            local job = assert(queue.take(PATIENCE))
            local time = now()
            queue.done(job)
            return began < ping.sent and time or nil
        end,
    }
end


local function draw_rest(options, counts)
    local shortest = options.shortest or REST
    return counts and shortest + math.random() * ((options.longest or shortest) - shortest) or shortest
end


local function send(host, way, ping, number, rest)
    way.prepare()
    ping.announced = number
    way.rest(rest)
    ping.sent = now()
    way.send()
    wait_until(host, function () return ping.received == number end)
end


-- Returns the latency, or nil if the signal came before the receiver waited for it.
local function receive(host, way, ping, number)
    wait_until(host, function () return ping.announced == number end)
    local time = way.receive()
    local latency = time and time - ping.sent
    ping.received = number
    return latency
end


local function report(host, name, rounds)
    local all, medians = stats.concat(rounds), {}
    for i, value in ipairs(all) do
        all[i] = value * 1e6
    end
    for round, values in ipairs(rounds) do
        medians[round] = stats.median(values) * 1e6
    end
    host.emit("wakeup", name, #all, stats.percentile(all, 0.5), stats.percentile(all, 0.99), unpack(medians))
    host.emit("latencies", name, unpack(all))
end


local function ways_of(host, options, ping)
    local ways = {}
    for i, name in ipairs(options.way and { options.way } or { "lock", "futex" }) do
        local make = name == "lock" and lock_way or name == "futex" and futex_way or job_way
        ways[i] = { name = name, way = make(host, ping, options) }
    end
    return ways
end


local function run(host, options)
    local ping = system_locks.map(options.folder .. "/ping", "holdfast_bench_ping")
    local ways = ways_of(host, options, ping)
    local number, warm_up = 0, options.warm_up or 0
    math.randomseed(options.seed or 1)
    for round, i in sides.turns(options.rounds, #ways) do
        local entry = ways[i]
        entry[round] = {}
        for sample = 1, warm_up + options.samples do
            number = number + 1
            if host.number == 0 then
                send(host, entry.way, ping, number, draw_rest(options, sample > warm_up))
            else
                local latency = receive(host, entry.way, ping, number)
                table.insert(entry[round], sample > warm_up and latency or nil)
            end
        end
    end
    for _, entry in ipairs(ways) do
        if host.number == 1 then
            report(host, entry.name, entry)
        end
    end
end


function _M.run(host, options)
    if not system_locks.has_futexes then
        host.emit("failed", "the number of the futex call is not known for " .. jit.arch)
        return
    end
    host.run_all(1, function ()
        run(host, options)
    end)
    host.emit("done")
end


return _M
