-- Times the loops of all sides in turns.

local clock, keys, sides = require "bench.support" ("clock", "keys", "sides")
local cases = require "bench.cases"

local _M = {}


-- Nanoseconds of processor time per step; and the number of steps.
local function time(loop, n)
    collectgarbage()
    local start = clock.cpu()
    local done = loop(n)
    return (clock.cpu() - start) * 1e9 / done, done
end


-- As many steps as take about `seconds`; and the loop is compiled after that.
local function calibrate(loop, seconds)
    local n = 1000
    while true do
        local per_step, done = time(loop, n)
        local spent = per_step * done * 1e-9
        if spent >= seconds / 4 then
            return math.ceil(done * seconds / spent)
        end
        n = n * 2
    end
end


-- A loop for this side alone: see bench/parts/loops.lua.
local function make_loop(case, side, options)
    local loops = assert(loadfile(options.root .. "/bench/parts/loops.lua"))()
    return loops[case.loop or case.name](side, case.dict and side.dict(case.dict),
                                         case.keys and keys.shuffled(case.keys))
end


local function compare(case, all, options, emit)
    local loops, steps, times = {}, {}, {}
    for i, side in ipairs(all) do
        loops[i] = make_loop(case, side, options)
        steps[i] = calibrate(loops[i], options.seconds)
        times[i] = {}
    end
    for round, i in sides.turns(options.rounds, #all) do
        times[i][round] = time(loops[i], steps[i])
    end
    for i, side in ipairs(all) do
        emit("loop", case.name, side.name, unpack(times[i]))
    end
end


-- options.which: which cases: those of bench/cases.lua that have a field of this name. With "locks" there are two more
-- sides.
function _M.run(host, options)
    local all = { unpack(host.sides) }
    if options.which == "locks" then
        all[#all + 1] = sides.robust_mutex(options.folder)
        all[#all + 1] = sides.flock(options.folder)
    end
    for _, case in ipairs(cases) do
        if case[options.which] then
            compare(case, all, options, host.emit)
        end
    end
end


return _M
