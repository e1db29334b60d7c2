-- Job runners for the controllers of cqueues: one coroutine in each with something to renew. A controller ends when its
-- coroutines have ended, and tells nothing, so this coroutine checks every STEP whether it is the last.

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

-- Job runners by controller, which they must not keep alive.
local runners = setmetatable({}, { __mode = "k" })


local function spawn(fn, ...)
    cqueues.running():wrap(fn, ...)
end


local function run(runner)
    local controller = cqueues.running()
    local jobs = runner.jobs
    while jobs.next() < INFINITY and controller:count() > 1 do
        cqueues.poll(runner.condition, max(min(jobs.next() - C.holdfast_now(), STEP), 0))
        local ok, err = pcall(jobs.run, C.holdfast_now())
        if not ok then
            report(nil, tostring(err))
        end
    end
    runner.is_running = false
end


local function new()
    local runner = { condition = condition.new(), is_running = false, spawn = spawn }
    runner.jobs = new_jobs(function ()
        local controller = cqueues.running()
        if runner.is_running then
            runner.condition:signal()
        elseif controller and runners[controller] == runner and runner.jobs.next() < INFINITY then
            runner.is_running = true
            controller:wrap(run, runner)
        end
    end)
    return runner
end


-- The job runner of a controller.
function _M.of(controller)
    local runner = runners[controller]
    if not runner then
        runner = new()
        runners[controller] = runner
    end
    return runner
end


return _M
