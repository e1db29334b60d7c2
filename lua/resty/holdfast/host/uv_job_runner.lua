-- The job runner in a loop of libuv's: one timer, which does not keep the loop from ending. A program may close all
-- handles of its loop (uv.walk): the next lock makes another timer. We do not close it ourselves: luv crashes the
-- process if a Lua state is closed before the loop has run once more.

local core = require "resty.holdfast.core"
local new_jobs = require("resty.holdfast.tasks.background_jobs").new

local C = core.C
local ceil, max = math.ceil, math.max

local INFINITY = math.huge


-- spawn(fn, ...) begins a coroutine.
return function (uv, spawn)
    local jobs, timer
    local due = INFINITY  -- the time of the timer

    local function is_ready()
        return timer and not timer:is_closing()
    end

    local function stop()
        if is_ready() then
            timer:stop()
        end
        due = INFINITY
    end

    -- Sets the timer for the first job. An early run finds nothing to do.
    local function changed()
        local time = jobs.next()
        if time == INFINITY then
            return stop()
        end
        if time >= due and is_ready() then
            return
        end
        if not is_ready() then
            timer = uv.new_timer()
            timer:unref()
        end
        uv.update_time()
        timer:start(ceil(max(time - C.holdfast_now(), 0) * 1000), 0, function ()
            due = INFINITY
            jobs.run(C.holdfast_now())
            changed()
        end)
        due = time
    end

    jobs = new_jobs(function () changed() end)

    return { jobs = jobs, spawn = spawn }
end
