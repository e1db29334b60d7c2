-- Runs loaders of a cache in other coroutines, where the host has any.

local background_jobs = require("resty.holdfast.tasks.queues").background_jobs
local hosts = require "resty.holdfast.host"
local is_nginx = require("resty.holdfast.program").is_nginx
local scheduler = require "resty.holdfast.scheduler"

local ipairs, pcall = ipairs, pcall

local ngx = is_nginx and require "ngx" or nil

local _M = {}


-- Calls fn() soon, in a coroutine that outlives the caller; in nginx, in a timer. Returns whether it will be called.
function _M.spawn(fn)
    if ngx then
        local allowed, started = pcall(ngx.timer.at, 0, function () fn() end)
        return allowed and started
    end
    local runner = background_jobs.looping and scheduler or hosts.job_runner()
    if runner then
        runner.spawn(fn)
    end
    return runner ~= nil
end


-- Calls fn() `count` times, in as many coroutines if the caller is a light thread of nginx or a task of the scheduler,
-- otherwise one after the other. Returns when all have returned.
function _M.run(fn, count)
    local in_task = not ngx and scheduler.running()
    local started = {}
    for i = 1, (ngx or in_task) and count - 1 or 0 do
        local allowed, thread = pcall(ngx and ngx.thread.spawn or scheduler.spawn, fn)
        started[i] = allowed and thread or nil
    end
    fn()
    for _, thread in ipairs(started) do
        if ngx then
            ngx.thread.wait(thread)
        else
            thread:join()
        end
    end
end


return _M
