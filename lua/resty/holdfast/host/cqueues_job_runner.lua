-- Who renews locks in the controllers of cqueues: one coroutine in each where there is something to renew. A controller
-- ends when its coroutines have ended, and tells nobody. So this one looks, every STEP, whether it is the last.

local condition = require "cqueues.condition"
local core = require "resty.holdfast.core"
local cqueues = require "cqueues"
local new_jobs = require("resty.holdfast.tasks.background_jobs").new
local report = require("resty.holdfast.scheduler").report

local C = core.C
local max, min, pcall, setmetatable, tostring = math.max, math.min, pcall, setmetatable, tostring

local INFINITY = math.huge
local STEP = 0.1

local _M = {}

-- Controller to runner, which must not keep it from being collected.
local runners = setmetatable({}, { __mode = "k" })


local function spawn(fn, ...)
    cqueues.running():wrap(fn, ...)
end


local function run(runner)
    local controller = cqueues.running()
    local jobs = runner.jobs
    while jobs.next() < INFINITY and controller:count() > 1 do
        cqueues.poll(runner.bell, max(min(jobs.next() - C.holdfast_now(), STEP), 0))
        local ok, err = pcall(jobs.run, C.holdfast_now())
        if not ok then
            report(nil, tostring(err))
        end
    end
    runner.is_running = false
end


local function new()
    local runner = { bell = condition.new(), is_running = false, spawn = spawn }
    runner.jobs = new_jobs(function ()
        local controller = cqueues.running()
        if runner.is_running then
            runner.bell:signal()
        elseif controller and runners[controller] == runner and runner.jobs.next() < INFINITY then
            runner.is_running = true
            controller:wrap(run, runner)
        end
    end)
    return runner
end


-- The runner of a controller.
function _M.of(controller)
    local runner = runners[controller]
    if not runner then
        runner = new()
        runners[controller] = runner
    end
    return runner
end


return _M
