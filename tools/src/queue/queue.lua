-- Calls the module for `holdfast queue`. lua_queue.cc calls these functions, each with a table of options. On failure,
-- they return nil and the reason.

local queue = require "resty.holdfast.queue"

local _M = {}
local jobs, current


-- Returns the fields of a job that C++ needs.
local function described(job)
    return { number = job.number, attempts = job.attempts, value = job.value }
end


-- Opens the queue for the other functions.
function _M.open(opts)
    local err
    if opts.create then
        jobs, err = queue.open(opts.name, { size = opts.size, max = opts.max, max_attempts = opts.max_attempts })
    else
        jobs, err = queue.find(opts.name, { max = opts.max, max_attempts = opts.max_attempts })
    end
    return jobs and true, err
end


function _M.push(opts)
    local number, err, message = jobs:push(opts.value, { delay = opts.delay, priority = opts.priority, key = opts.key,
                                                         timeout = opts.timeout })
    return number, message or err
end


-- Takes a job, which finish() or give_back() must end. If the option `lease` is given, detaches the job instead.
function _M.take(opts)
    local err, detached
    current, err = jobs:take(opts.timeout)
    if current and opts.lease then
        detached, err = current:detach(opts.lease)
        return detached and described(current), err
    end
    return current and described(current), err
end


local function with_reason(ok, what)
    return ok and (what or true), what
end


-- The following functions return true, or "dead" if the job is dead now.
function _M.finish()
    return with_reason(current:done())
end


function _M.give_back(opts)
    return with_reason(current:retry(opts.delay))
end


function _M.done(opts)
    local job, err = jobs:job(opts.number, opts.attempts)
    if not job then
        return nil, err
    end
    return with_reason(job:done())
end


function _M.retry(opts)
    local job, err = jobs:job(opts.number, opts.attempts)
    if not job then
        return nil, err
    end
    return with_reason(job:retry(opts.delay))
end


function _M.stats()
    local counts, workers = jobs:stats(), {}
    for pid, count in pairs(counts.workers) do
        workers[#workers + 1] = { pid = pid, jobs = count }
    end
    table.sort(workers, function (a, b) return a.pid < b.pid end)
    counts.workers = workers
    return counts
end


function _M.dead(opts)
    local found = {}
    for i, job in ipairs(jobs:dead(opts.max)) do
        found[i] = described(job)
    end
    return found
end


return _M
