-- Tools for parts: they read the options that the driver passes, and let processes wait for each other in any host.
--
-- A part is the function run(host, options) in the file of its table, or in a file of bench/parts if several tables use
-- it. `sync` is a dictionary that all processes open.

local clock = require("bench.support.clock")

-- How long to wait for other processes, in seconds. Even the slowest process needs less.
local PATIENCE = 60
-- The seconds from the arrival of the last process to the common start.
local RUN_UP = 0.003
-- The seconds between two polls, for up to eight processes. If there are more processes, each polls less often, because
-- otherwise they would delay the start of the others.
local REST = 0.001

local _M = {}


-- Reads the options that the driver passes through the environment: "name=value,name=value".
function _M.read()
    local options = {
        root = assert(os.getenv("HOLDFAST_BENCH_ROOT"), "to be started by bench/run"),
        folder = os.getenv("HOLDFAST_BENCH_FOLDER"),
    }
    for name, value in (os.getenv("HOLDFAST_BENCH_OPTIONS") or ""):gmatch("([%w_]+)=([^,]+)") do
        options[name] = tonumber(value) or value
    end
    return options
end


-- Returns the part `name`, or the part that the driver names: a file of bench/parts, or a path such as
-- "bench/tables/memory".
function _M.load(name)
    name = name or os.getenv("HOLDFAST_BENCH_PART")
    return require(name:find("/", 1, true) and name:gsub("/", ".") or "bench.parts." .. name)
end


-- Prints one line of a part's results.
function _M.emit(...)
    local words = { ... }
    for i, word in ipairs(words) do
        words[i] = type(word) == "number" and ("%.17g"):format(word) or tostring(word)
    end
    io.write(table.concat(words, "\t"), "\n")
    io.flush()
end


-- Returns the run() of a part in which the first process calls one(host, side, sync, options) in a coroutine, and each
-- other process calls others(...) with the same arguments.
function _M.split(one, others)
    return function (host, options)
        local side = host.sides[1]
        local sync = side.dict("bench_sync")
        if host.number == 0 then
            host.run_all(1, function () one(host, side, sync, options) end)
        else
            others(host, side, sync, options)
        end
        host.emit("done")
    end
end


-- Waits until the number under this name is at least `value`. Sleeps between polls.
function _M.await(host, sync, name, value)
    local patience = clock.now() + PATIENCE
    while (sync:get(name) or 0) < value do
        assert(clock.now() < patience, "the other processes do not arrive: " .. name)
        host.sleep(REST * math.max(1, host.workers / 8))
    end
end


-- Waits for all other processes. Sleeps between polls.
function _M.gather(host, sync, name)
    assert(sync:incr(name, 1, 0))
    _M.await(host, sync, name, host.workers)
end


-- Waits for all other processes without sleeping. Returns in all of them at the same moment, with the time of this
-- moment.
function _M.start(host, sync, name)
    local arrived = assert(sync:incr(name .. " arrived", 1, 0))
    if arrived == host.workers then
        assert(sync:set(name .. " start", clock.now() + RUN_UP))
    end
    local patience = clock.now() + PATIENCE
    local start
    repeat
        start = sync:get(name .. " start")
        assert(clock.now() < patience, "the other processes do not arrive")
    until start and clock.now() >= start
    return start
end


-- Returns the steps per second of this process, measured from the start. loop(count) makes about `count` steps and
-- returns their number; the clock is checked every `batch` steps.
local function rate(loop, batch, start, seconds)
    local steps, now = 0
    repeat
        steps = steps + loop(batch)
        now = clock.now()
    until now >= start + seconds
    return steps / (now - start)
end


-- Runs a loop in all processes at the same time, and emits this process's rate for each round. make(loops) returns the
-- loop; `loops` is a copy of bench/parts/loops.lua that is loaded for this loop only.
function _M.rates(host, options, side, name, batch, make)
    local sync = side.dict("bench_sync")
    local loop = make(assert(loadfile(options.root .. "/bench/parts/loops.lua"))())
    loop(20 * batch)
    local rates = {}
    for round = 1, options.rounds do
        local start = _M.start(host, sync, name .. " " .. round)
        rates[round] = rate(loop, batch, start, options.seconds)
    end
    host.emit("rate", name, side.name, unpack(rates))
end


return _M
