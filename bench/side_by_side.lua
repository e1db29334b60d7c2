-- Times the loops of all sides in turns: round after round, each side once, in an order that alternates. Whatever else
-- the machine does in the meantime then falls on all of them alike.

local clock = require "bench.support.clock"

-- Those that read keys come after the one that writes them.
local LOOPS = {
    "lock_unlock", "new_lock_unlock", "set_hot", "get_hot", "incr_hot", "set_random", "get_random", "incr_random",
}

local _M = {}


-- Nanoseconds of processor time per step.
local function time(loop, n)
    collectgarbage()
    local start = clock.cpu()
    local done = loop(n)
    return (clock.cpu() - start) * 1e9 / done
end


-- As many steps as take about `seconds`; and the loop is compiled after that.
local function calibrate(loop, seconds)
    local n = 1000
    while true do
        local spent = time(loop, n) * n * 1e-9
        if spent >= seconds / 4 then
            return math.ceil(n * seconds / spent)
        end
        n = n * 2
    end
end


local function compare(name, sides, options, emit)
    local steps, times = {}, {}
    for i, side in ipairs(sides) do
        steps[i] = calibrate(side.loops[name], options.seconds)
        times[i] = {}
    end
    for round = 1, options.rounds do
        for turn = 1, #sides do
            local i = round % 2 == 1 and turn or #sides + 1 - turn
            times[i][round] = time(sides[i].loops[name], steps[i])
        end
    end
    for i, side in ipairs(sides) do
        emit("loop", name, side.name, unpack(times[i]))
    end
end


function _M.run(host, options)
    for _, side in ipairs(host.sides) do
        side.loops = assert(loadfile(options.root .. "/bench/loops.lua"))()(side)
    end
    for _, name in ipairs(LOOPS) do
        compare(name, host.sides, options, host.emit)
    end
end


return _M
