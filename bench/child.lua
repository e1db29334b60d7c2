-- Runs one part in a plain LuaJIT process: luajit bench/child.lua PART

local options = require "bench.support.options"
local sides = require "bench.support.sides"
local scheduler = require "resty.holdfast.scheduler"

local read = options.read()


local function run_all(count, task)
    for i = 1, count do
        scheduler.spawn(task, i)
    end
    assert(scheduler.run())
end


require("bench.parts." .. arg[1]).run({
    emit = options.emit,
    workers = read.workers or 1,
    run_all = run_all,
    sides = { sides.holdfast() },
    sleep = scheduler.sleep,
}, read)
