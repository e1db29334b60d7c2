-- One case, one side, in a process that does nothing else: runs its program and emits its output.

local program, sides = require "bench.support" ("program", "sides")
local cases = require "bench.cases"

local _M = {}


-- options.case: a name of bench/cases.lua; options.side: one of the system's locks instead of the host's side.
function _M.run(host, options)
    local side = sides.chosen(host, options)
    local found
    for _, case in ipairs(cases) do
        found = case.name == options.case and case or found
    end
    -- The program requires the module as any program does.
    package.loaded["resty.lock"] = side.lock
    local times = {}
    local text = program.alone(found, side.name, side.locks, sides.SIZES, options.quick)
    assert(loadstring("local print = ... " .. text, found.name))(function (line)
        times[#times + 1] = tonumber(line:match("[%d.]+"))
    end)
    -- The first round compiles, and meets cold memory.
    table.remove(times, 1)
    host.emit("alone", found.name, side.name, unpack(times))
end


return _M
