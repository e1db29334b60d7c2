-- How long this machine takes for the steps of which operations consist.

local clock, report, runs, sides, stats, system_locks, turns =
    require "bench.support" ("clock", "report", "runs", "sides", "stats", "system_locks", "turns")
local ffi = require "ffi"

local C = ffi.C

ffi.cdef [[
int abs(int number);
bool __atomic_compare_exchange_4(void *word, void *expected, uint32_t desired, int success, int failure);
]]

local PART = "bench/tables/limits"
local ROUNDS = 5

local _M = {}


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- Each limit is a function of the options that returns a function of a number of steps.

local limits = {}


function limits.call()
    return function (steps)
        for i = 1, steps do
            C.abs(i)
        end
    end
end


function limits.swaps()
    local atomic = ffi.load("libatomic.so.1")
    local word, free, held = ffi.new("uint32_t[1]"), ffi.new("uint32_t[1]", 0), ffi.new("uint32_t[1]", 1)
    local SEQUENTIAL = 5
    return function (steps)
        for _ = 1, steps do
            atomic.__atomic_compare_exchange_4(word, free, 1, SEQUENTIAL, SEQUENTIAL)
            atomic.__atomic_compare_exchange_4(word, held, 0, SEQUENTIAL, SEQUENTIAL)
        end
    end
end


function limits.mutex(options)
    local lock = system_locks.robust_mutex:new(options.folder .. "/limit")
    return function (steps)
        for _ = 1, steps do
            assert(lock:lock())
            assert(lock:unlock())
        end
    end
end


-- Loads the numbers of a cycle through all lines. The multiplier and the increment of this random number generator give
-- it the full period.
function limits.miss()
    local LINES, NUMBERS = 2 ^ 22, 16
    local next_line = ffi.new("uint32_t[?]", LINES * NUMBERS)
    for i = 0, LINES - 1 do
        next_line[i * NUMBERS] = (i * 1664525 + 1013904223) % LINES * NUMBERS
    end
    local at = 0
    return function (steps)
        for _ = 1, steps do
            at = next_line[at]
        end
    end
end


-- Two processes wake each other in turn.
function limits.wake(options, host)
    local word = system_locks.map(options.folder .. "/turns", "int32_t")
    local mine, theirs = host.number, 1 - host.number
    return function (steps)
        for _ = 1, steps do
            while word[0] ~= mine do
                system_locks.sleep(word, theirs)
            end
            word[0] = theirs
            system_locks.wake(word)
        end
    end
end


-- Emits the nanoseconds per step in each round, of processor time or, with two processes, of elapsed time.
function _M.run(host, options)
    local step = limits[options.what](options, host)
    local now = host.workers == 1 and clock.cpu or clock.now
    local times = {}
    step(options.steps)
    for round = 1, ROUNDS do
        local start = now()
        step(options.steps)
        times[round] = (now() - start) / options.steps * 1e9
    end
    host.emit("limit", unpack(times))
end


-- --- the table ----------------------------------------------------------------------------------------------

-- Each has a title, a function of `limits`, the number of processes, and the number of steps in a round.
local ROWS = {
    { "a call of C from Lua", "call", 1, 1e6 },
    { "two calls, each with a compare-and-swap", "swaps", 1, 1e6 },
    { "lock + unlock of a robust mutex from Lua", "mutex", 1, 1e6 },
    { "a load from 256 MB, which no cache contains", "miss", 1, 1e6 },
    { "two processes wake each other by a futex", "wake", 2, 2e3 },
}


-- Measures each row in turn, in new processes. Returns a list of times for each row, with one time for each turn, or
-- the reason why there are none.
local function measure(context)
    local times = stats.map(ROWS, function () return {} end)
    for _, i in sides.turns(context.quick and 1 or turns.PROCESSES, #ROWS) do
        local _, what, processes, steps = unpack(ROWS[i])
        if processes > 1 and not system_locks.has_futexes then
            times[i] = "the number of the futex call is not known for " .. jit.arch
        elseif type(times[i]) == "table" then
            local told = { what = what, steps = context.quick and steps / 100 or steps, folder = context.folder }
            local lines, err = runs.here(context, PART, told, processes)
            local words = runs.find(lines, "limit")
            if words then
                table.insert(times[i], stats.median({ unpack(words, 2) }))
            else
                times[i] = runs.failed(err)
            end
        end
    end
    return times
end


function _M.make(context)
    local rows = {}
    for i, times in ipairs(measure(context)) do
        rows[i] = { ROWS[i][1], type(times) == "table" and report.spread(times) or times }
    end
    return {
        title = "Limits of the machine",
        headings = { "what", "takes" },
        rows = rows,
        note = "Nanoseconds of processor time (for the futex, of elapsed time) in plain LuaJIT: the minimum; the "
               .. "median (and the middle half) of processes.",
    }
end


return _M
