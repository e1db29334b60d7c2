-- Runs the background jobs of an nginx worker, such as renewals, in nginx timers.

local background_jobs = require("resty.holdfast.tasks.queues").background_jobs
local core = require "resty.holdfast.core"
local scheduler = require "resty.holdfast.scheduler"
local threads = require "resty.holdfast.host.nginx_threads"

local C = core.C
local exiting, get_phase, log, sleep, timer_at = ngx.worker.exiting, ngx.get_phase, ngx.log, ngx.sleep, ngx.timer.at
local max, min, pcall = math.max, math.min, pcall
local next_job = background_jobs.next

local INFINITY = math.huge
-- How often an exiting worker drops finished jobs, in seconds. No benchmark covers this constant and the next, because
-- none has jobs.
local EXITING_STEP = 0.2
-- The minimum sleep, in seconds. A job may ask to run again immediately, and ngx.sleep(0) would be a busy loop that
-- writes a log line each time.
local LEAST_SLEEP = 0.005

-- The number of seconds by which nginx's timers may run too early. Without this margin, a timer that runs early would
-- be set again and again until the job is due.
local TICK = 0.001

local _M = {
    WHERE = "renewal needs an nginx phase that can wait",
    jobs = background_jobs,
    has_request = function () return get_phase() ~= "init" end,
    is_alive = threads.is_alive,
    has_local = threads.has_local,
    is_gone = threads.is_gone,
    spawn = ngx.thread.spawn,
    use_of = threads.use_of,
}

-- The time at which the newest timer runs. Timers that run earlier find nothing to do.
local due = INFINITY


local function run()
    local ok, err = pcall(background_jobs.run, C.holdfast_now())
    if not ok then
        log(ngx.ERR, "holdfast: ", err)
    end
end


-- Runs jobs in an exiting worker, where nginx refuses new timers.
local function run_until_exit()
    background_jobs.drop_over()
    while next_job() < INFINITY do
        sleep(min(max(next_job() - C.holdfast_now(), LEAST_SLEEP), EXITING_STEP))
        background_jobs.drop_over()
        run()
    end
    due = INFINITY
end


local function run_once(_, time)
    if exiting() then
        if due > 0 then
            due = 0
            run_until_exit()
        end
        return
    end
    if due == time then
        due = INFINITY
    end
    run()
    _M.changed()
end


-- Sets a timer for the first job.
function _M.changed()
    local time = next_job()
    if time >= due then
        return
    end
    local delay = exiting() and 0 or max(time - C.holdfast_now(), 0) + TICK
    local ok, err = timer_at(delay, run_once, time)
    if ok then
        due = time
    else
        log(ngx.ERR, "holdfast: cannot renew locks: ", err)
    end
end


function scheduler.on_error(_, message)
    log(ngx.ERR, "holdfast: ", message)
end


background_jobs.runner = _M

return _M
