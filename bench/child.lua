-- Runs one part in a new process, in the loop of a host: luajit bench/child.lua PART. Without the argument, the
-- environment names the part: the programs of some hosts take no arguments.

local hosts, part, sides = require "bench.support" ("hosts", "part", "sides")

local read = part.read()
local sleep, run_all = hosts[read.host or "scheduler"].start()

part.load(arg and arg[1]).run({
    emit = part.emit,
    number = read.process or 0,
    workers = read.workers or 1,
    run_all = run_all,
    sides = { sides.holdfast() },
    sleep = sleep,
}, read)
