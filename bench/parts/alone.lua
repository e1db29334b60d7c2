-- Runs the program of one case for one side, in a process that does nothing else, and emits the output of the program.

local program, sides = require "bench.support" ("program", "sides")
local cases = require "bench.cases"

local QUICK_ROUNDS = 3

local _M = {}


-- options.case is a name of bench/cases.lua. options.side names a lock of the operating system to use instead of the
-- host's side.
function _M.run(host, options)
    local side = sides.chosen(host, options)
    local found
    for _, case in ipairs(cases) do
        found = case.name == options.case and case or found
    end
    -- The program loads the module with require, like any program.
    package.loaded["resty.lock"] = side.lock
    local times = {}
    local text = program.alone(found, side.name, side.locks, sides.SIZES, options.quick and QUICK_ROUNDS)
    assert(loadstring("local print = ... " .. text, found.name))(function (line)
        times[#times + 1] = tonumber(line:match("[%d.]+"))
    end)
    -- In the first round, LuaJIT compiles the loop and the memory is cold.
    table.remove(times, 1)
    host.emit("alone", found.name, side.name, unpack(times))
end


return _M
