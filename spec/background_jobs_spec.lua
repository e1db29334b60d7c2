-- Tests background jobs (resty.holdfast.tasks.queues), which are timed work that the scheduler and event loops do
-- besides their own.

local background_jobs = require("resty.holdfast.tasks.queues").background_jobs
local none = require "resty.holdfast.host.none"
local scheduler = require "resty.holdfast.scheduler"


describe("background_jobs", function ()
    -- Returns a job that calls fn.
    local function job(fn)
        return { run = fn }
    end

    it("run once, when they are due, in the order of their deadlines, while tasks run", function ()
        local order = {}
        local start = none.now()
        for _, delay in ipairs { 0.03, 0.01, 0.02 } do
            background_jobs.add(job(function ()
                assert.is_true(none.now() >= start + delay)
                order[#order + 1] = delay
            end), start + delay)
        end
        scheduler.spawn(scheduler.sleep, 0.1)
        assert.is_true(scheduler.run())
        assert.same({ 0.01, 0.02, 0.03 }, order)
    end)

    it("do not run after they were removed, and do not keep run() from ending", function ()
        local ran = false
        local removed, late = job(function () ran = true end), job(function () ran = true end)
        background_jobs.add(removed, none.now())
        background_jobs.remove(removed)
        background_jobs.add(late, none.now() + 1000)
        scheduler.spawn(scheduler.sleep, 0.01)
        assert.is_true(scheduler.run())
        background_jobs.remove(late)
        assert.is_false(ran)
    end)

    it("may wake a task that is due at the same time, and the task then runs only once", function ()
        local wakes = 0
        local sleeper = scheduler.spawn(function ()
            scheduler.sleep(0.01)
            wakes = wakes + 1
            scheduler.sleep(0.05)
            wakes = wakes + 1
        end)
        scheduler.spawn(function ()
            background_jobs.add(job(function () sleeper:wake() end), none.now() + 0.005)
            none.sleep(0.02)
        end)
        scheduler.spawn(function ()
            scheduler.sleep(0.03)
            assert.equal(1, wakes)
        end)
        assert.is_true(scheduler.run())
        assert.equal(2, wakes)
    end)

    it("may spawn tasks", function ()
        local ran = false
        background_jobs.add(job(function () scheduler.spawn(function () ran = true end) end), none.now() + 0.005)
        scheduler.spawn(scheduler.sleep, 0.02)
        assert.is_true(scheduler.run())
        assert.is_true(ran)
    end)
end)
