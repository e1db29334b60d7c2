-- Kills producers and workers of a queue at random, and checks what happened to each job:
--   luajit tests/queue/storm.lua [kills [fault]]
-- Prints a line for each claim. Exits with 1 if a job was lost, was begun twice with attempts 1, or was taken by two
-- live workers at the same time. `fault` names an entry of FAULTS below, which is planted first. Needs HOLDFAST_LIB and
-- HOLDFAST_DIR.

local kills, fault = tonumber(arg[1]) or 10000, arg[2]
local PRODUCERS, WORKERS, BACKLOG = 2, 4, 50
-- The number of kills in a round, and the number of seconds within which the queue must become empty afterwards.
local ROUND, PATIENCE = 250, tonumber(os.getenv("HOLDFAST_STORM_PATIENCE")) or 60

-- Each fault replaces a part of a module's text before the module is loaded.
local FAULTS = {
    ["claim later"] = { "claims", "local code = swap(self, CLAIM, n, READY, mine)",
                        "swap(self, NEXT, 0, n, n + 1) local code = swap(self, CLAIM, n, READY, mine)" },
    ["no void"] = { "claims", "elseif now - self.gap_since >= PATIENCE then", "elseif false then" },
    ["attempts forgotten"] = { "claims", "local mine = self.worker * GRANTS + grants + 1",
                               "local mine = self.worker * GRANTS + grants" },
    ["the living are dead"] = { "claims", "known[owner] = code ~= NOT_FOUND and (code ~= OK or holder.alive ~= 0)",
                                "known[owner] = owner % 2 == 0" },
}

if fault then
    local room, old, new = unpack((assert(FAULTS[fault], "no such fault")))
    local module = "resty.holdfast.queue." .. room
    package.preload[module] = function ()
        local file = assert(io.open(assert(package.searchpath(module, package.path))))
        local text = file:read("*a")
        file:close()
        local first, last = text:find(old, 1, true)
        assert(first, "the fault does not fit the module")
        return assert(loadstring(text:sub(1, first - 1) .. new .. text:sub(last + 1), module))()
    end
end

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local queue = require "resty.holdfast.queue"
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"

ffi.cdef [[
int fork(void);
int kill(int pid, int signal);
int waitpid(int pid, int *status, int options);
int getpid(void);
int poll(void *fds, unsigned long count, int timeout);
void _exit(int status);
]]

local C = ffi.C
local now = core.C.holdfast_now

local name = "storm" .. C.getpid()
-- The number of attempts is practically unlimited, because a storm may kill a job's workers any number of times.
local jobs = assert(queue.open(name, { size = "2m", max_attempts = 1e6, max = BACKLOG, persist = false }))
local seen = assert(shdict.open(name .. ".seen", { size = "64m", persist = false }))
local busy = assert(shdict.open(name .. ".busy", { size = "2m", persist = false }))


local function fork(fn, ...)
    local pid = C.fork()
    if pid == 0 then
        math.randomseed(C.getpid())
        local _, err = pcall(fn, ...)
        seen:incr("failed " .. tostring(err), 1, 0)
        C._exit(1)
    end
    return pid
end


-- Pushes jobs until the process is killed. Records each push that returned.
local function produce()
    for i = 1, math.huge do
        local id = C.getpid() .. "." .. now() .. "." .. i
        local opts = i % 8 == 0 and { delay = 0.002 } or i % 8 == 1 and { priority = i % 3 } or { key = id }
        opts.timeout = 60
        local n, err = jobs:push(id, opts)
        assert(n or err == "timeout", err)  -- a killed process may keep a mutex until it next runs
        assert(not n or seen:safe_set("pushed " .. id, true))
    end
end


-- Takes jobs until the process is killed. Records the beginning and the end of each job, and the time from the death of
-- a worker until its job was taken again.
local function work(is_slow)
    while true do
        local job = assert(jobs:take(60))
        local id = job.value
        local lock = assert(resty_lock:new(busy, { exptime = 0 }))
        if not lock:trylock(id) and lock:holder(id) then
            seen:incr("together " .. id, 1, 0)
        end
        local before = seen:get("worker " .. id)
        local killed = before and seen:get("killed " .. before)
        if killed then
            seen:safe_add("latency " .. id .. "." .. job.attempts, now() - killed)
        end
        assert(seen:safe_set("worker " .. id, C.getpid()))
        seen:incr((job.attempts == 1 and "first " or "again ") .. id, 1, 0)
        if is_slow then
            C.poll(nil, 0, math.random(0, 2))
        end
        lock:unlock()
        if math.random(20) == 1 then
            seen:delete("worker " .. id)
            assert(job:retry(math.random(2) == 1 and 0.001 or 0))
        else
            assert(job:done())
        end
    end
end


local pids = {}

local function start(i)
    if i <= PRODUCERS then
        pids[i] = fork(produce)
    else
        pids[i] = fork(work, i % 2 == 0)
    end
end


local function kill(i)
    seen:safe_set("killed " .. pids[i], now())
    C.kill(pids[i], 9)
    C.waitpid(pids[i], nil, 0)
    seen:safe_set("killed " .. pids[i], now())  -- on a busy processor, the process dies only now
end


local sums = { pushed = 0, again = 0, lost = 0, stuck = 0, first = 0, together = 0, failed = 0 }
local latencies, failures = {}, {}


-- Counts what happened to the jobs of a round, and deletes their records.
local function count()
    for _, key in ipairs(seen:get_keys(0)) do
        local kind, id = key:match("^(%l+) (.*)")
        local number = seen:get(key)
        if kind == "pushed" then
            sums.pushed = sums.pushed + 1
            sums.lost = sums.lost + ((seen:get("first " .. id) or seen:get("again " .. id)) and 0 or 1)
        elseif kind == "first" then
            sums.first = sums.first + number - 1
        elseif kind == "latency" then
            latencies[#latencies + 1] = number * 1000
        elseif sums[kind] then
            sums[kind] = sums[kind] + number
            failures[kind == "failed" and id or "none"] = true
        end
    end
    seen:flush_all()
    seen:flush_expired()
end


local function round(its_kills)
    for i = 1, PRODUCERS + WORKERS do
        start(i)
    end
    for _ = 1, its_kills do
        C.poll(nil, 0, math.random(0, 10))
        local i = math.random(PRODUCERS + WORKERS)
        kill(i)
        start(i)
    end
    for i = 1, PRODUCERS do
        kill(i)
    end
    local deadline, left = now() + PATIENCE
    repeat  -- until the workers have emptied the queue
        C.poll(nil, 0, 20)
        left = jobs:stats()
        left = left.ready + left.taken + left.delayed
    until now() > deadline or left == 0
    sums.stuck = sums.stuck + left
    for i = PRODUCERS + 1, PRODUCERS + WORKERS do
        kill(i)
    end
    count()
end


math.randomseed(tonumber(os.getenv("SEED")) or os.time())
for left = kills, 1, -ROUND do
    round(math.min(left, ROUND))
end
for _, suffix in ipairs { "", ".claims", ".workers", ".seen", ".busy" } do
    shdict.remove(name .. suffix)
end

table.sort(latencies)
local function quantile(share)
    return latencies[math.max(1, math.ceil(#latencies * share))] or 0
end

print(("%d kills, %d jobs pushed, %d begun again"):format(kills, sums.pushed, sums.again))
print(("lost: %d"):format(sums.lost))
print(("left in the queue: %d"):format(sums.stuck))
print(("begun twice with attempts 1: %d"):format(sums.first))
print(("with two live workers: %d"):format(sums.together))
print(("failed calls: %d"):format(sums.failed))
print(("begun again after a kill: p50 %.1f ms, p99 %.1f ms, max %.1f ms, of %d")
      :format(quantile(0.5), quantile(0.99), quantile(1), #latencies))
failures.none = nil
for err in pairs(failures) do
    print("failed: " .. err)
end
os.exit(sums.lost + sums.stuck + sums.first + sums.together + sums.failed > 0 and 1 or 0)
