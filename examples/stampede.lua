-- A cache stampede, with and without a lock.
--
-- All coroutines of all workers read the same text at the same time, and look up each of its words in a shared cache. A
-- slow backend computes missing words, as if an entry of a busy cache had expired. The backend serves four calls at a
-- time. With resty.lock, one caller calls the backend, and the other callers wait for its answer. Without the lock, all
-- callers call the backend, and wait for each other there.
--
--   holdfast run --workers 4 --dict stampede_locks=1m --dict stampede_cache=4m examples/stampede.lua
--   luajit examples/stampede.lua                                    (one worker)

local here = dofile((arg[0]:match("^(.*)/") or ".") .. "/checkout.lua")

local ffi = require "ffi"
local report = require "stampede.report"
local resty_lock = require "resty.lock"
local resty_semaphore = require "resty.semaphore"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"
local trace = require "stampede.trace"
local worker = require "resty.holdfast.worker"

ffi.cdef "int isatty(int fd); int getpid(void); int getppid(void);"

local id, workers = worker.id(), worker.count()
local options = trace.read_options(arg)
local words = trace.read_words(options, here .. "/../LICENSE")
local quit = trace.quit

-- `holdfast run --dict` has already created both dictionaries. Plain luajit creates them here. When the last process
-- ends, they are removed.
local cache = shdict.shared.stampede_cache or assert(shdict.open("stampede_cache", { size = "4m", persist = false }))
local locks = shdict.shared.stampede_locks or assert(shdict.open("stampede_locks", { size = "1m", persist = false }))

-- The keys begin with a pid that all workers of this run know, so that two runs in one runtime directory do not share
-- answers.
local run = (workers > 1 and ffi.C.getppid() or ffi.C.getpid()) .. ":"
-- After this many seconds, a worker stops waiting for the other workers.
local TIMEOUT = 3600

local prefix  -- the prefix of this phase's keys
local waits   -- the seconds for which this worker's coroutines waited for locks


-- --- a cache in front of a backend ---------------------------------------------------------------------

-- The connections to the backend, which all workers share like a pool of database connections.
local connections = assert(resty_semaphore:new("stampede_locks", { permits = options.connections }))
local POOL = run .. "connections"

local function backend(word)
    assert(cache:incr(prefix .. "calls", 1, 0))
    assert(cache:incr(prefix .. "calls for:" .. word, 1, 0))
    assert(connections:wait(POOL, TIMEOUT))
    scheduler.sleep(options.backend_ms / 1000)
    assert(connections:post(POOL))
    return "all there is to know about " .. word
end


local function get_without_lock(word)
    local key = prefix .. "word:" .. word
    local value = cache:get(key)
    if not value then
        value = backend(word)
        assert(cache:set(key, value))
    end
    return value
end


-- A holder that hangs for longer than exptime loses the lock to the next waiter. No waiter waits longer than timeout.
local LOCK_OPTIONS = { exptime = options.backend_ms / 1000 + 30, timeout = options.backend_ms / 1000 + 10 }

local function get_with_lock(word)
    local key = prefix .. "word:" .. word
    local value = cache:get(key)
    if value then
        return value
    end

    local lock = assert(resty_lock:new("stampede_locks", LOCK_OPTIONS))
    while not value and not lock:trylock(key) do
        -- wait() takes no lock, so one release wakes all waiters at the same time.
        waits[#waits + 1] = assert(lock:wait(key))
        value = cache:get(key)
    end
    if value then
        return value
    end

    -- The previous holder may have stored the word. Without this second check, every waiter would compute the word
    -- again.
    value = cache:get(key)
    if not value then
        value = backend(word)
        assert(cache:set(key, value))
    end
    assert(lock:unlock())
    return value
end


-- --- the replay ----------------------------------------------------------------------------------------

local next_show = id == 0 and ffi.C.isatty(1) == 1 and 0 or math.huge

-- Shows progress on a terminal. All readers have the same pace, so the progress of one reader is enough.
local function show_progress(name, read)
    if scheduler.now() >= next_show then
        next_show = scheduler.now() + 0.1
        io.write(("\r\27[K%s: %d of %d words, %d backend calls"):format(name, read, #words,
            cache:get(prefix .. "calls") or 0))
        io.flush()
    end
end

local function replay(name, get)
    for reader = 1, options.coroutines do
        scheduler.spawn(function ()
            for n, word in ipairs(words) do
                get(word)
                if reader == 1 then
                    show_progress(name, n)
                end
            end
        end)
    end
    if not scheduler.run() then
        os.exit(1)  -- the scheduler has printed the reason; the other workers notice the exit
    end
    if next_show < math.huge then
        io.write("\r\27[K")
    end
end


-- --- how the workers meet ------------------------------------------------------------------------------

-- Each worker takes its own lock before a phase and holds it until the end of the phase. A worker that gets all these
-- locks knows that all workers are done or dead. The lock of a dead worker is free immediately, but its result is
-- missing.
local START_TIMEOUT = 10

local function take(name)
    local lock = assert(resty_lock:new("stampede_locks", { exptime = TIMEOUT, timeout = TIMEOUT }))
    assert(lock:lock(run .. name))
    return lock
end

local function wait_for_start()
    local deadline = scheduler.now() + START_TIMEOUT
    local started = assert(locks:incr(run .. "started", 1, 0, TIMEOUT))
    while started < workers and scheduler.now() < deadline do
        scheduler.sleep(0.001)
        started = locks:get(run .. "started")
    end
    if started < workers then
        quit(1, ("stampede: only %d of %d workers have started\n"):format(started, workers))
    end
end

local phases = options.no_lock and { { "without lock", get_without_lock } }
    or { { "with resty.lock", get_with_lock }, { "without lock", get_without_lock } }

local mine = take(phases[1][1] .. id)
wait_for_start()

local results = {}
for i, phase in ipairs(phases) do
    local name, get = phase[1], phase[2]
    prefix, waits = run .. name .. ":", {}
    local start = scheduler.now()
    replay(name, get)
    assert(cache:set(prefix .. "waits:" .. id, report.pack(waits), TIMEOUT))

    -- Take the lock of the next phase before releasing the lock of this phase, so that no worker runs ahead.
    local following = phases[i + 1] and take(phases[i + 1][1] .. id)
    assert(mine:unlock())
    for other = 0, workers - 1 do
        assert(take(name .. other):unlock())
        if not cache:get(prefix .. "waits:" .. other) then
            quit(1, ("stampede: worker %d ended before its requests were answered\n"):format(other))
        end
    end
    mine = following
    if id == 0 then
        results[i] = report.collect(cache, prefix, name, words, workers, workers * options.coroutines,
                                    scheduler.now() - start)
    end
end

if id == 0 then
    os.exit(report.print(results, options, workers) and 0 or 1)
end
