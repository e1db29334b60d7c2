-- Queues of jobs: the time from push to take in another process, the cost of a job without waiting, and what happens to
-- the job of a killed worker.

local clock, job_queues, peers, report, runs, sides, stats, turns =
    require "bench.support" ("clock", "job_queues", "peers", "report", "runs", "sides", "stats", "turns")

local _M = {}

local PART = "bench/tables/queues"


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- One process pushes, takes and ends jobs. Emits the elapsed nanoseconds per job rather than processor time, because
-- servers work in another process.

function _M.run(host, options)
    local queue, times = job_queues[options.side](options.folder, options), {}
    for round = 1, 5 do
        local start = clock.now()
        for i = 1, options.steps do
            queue.push("job " .. i)
            queue.done(assert(queue.take(0)))
        end
        times[round] = (clock.now() - start) / options.steps * 1e9
    end
    table.remove(times, 1)  -- LuaJIT compiles the loop in this round
    host.emit(PART, "job", options.side, unpack(times))
end


-- --- the tables ---------------------------------------------------------------------------------------------

local NONE = report.NONE
local FUTEX_TARGET, WAIT_TARGET = 1.4, 0.1
local JOB_TARGET, JOB_SERVER_TARGET = 500, 1 / 20
local TAKEOVER_TARGET = 15

-- The queues. `host` is the host of the taker that waits.
local OURS = { key = "holdfast", name = "holdfast", host = "none" }
local SCHEDULER = { key = "holdfast", name = "holdfast, scheduler", host = "scheduler" }
local FUTEX = { key = "futex", name = "bare futex", host = "none" }
local REDIS = { key = "redis", host = "none" }
local STREAM = { key = "redis_stream", host = "none" }
local BEANSTALKD = { key = "beanstalkd", host = "none" }


-- Formats a target as a factor.
local function share(target)
    return not target and NONE or target < 1 and (">= %.0f times faster"):format(1 / target) or "<= " .. target .. "x"
end


-- --- from push to take ---

local function measure_waits(context, all)
    local rounds = {}
    for _, i in sides.turns(context.quick and 1 or 6, #all) do
        local side = all[i]
        rounds[side] = rounds[side] or {}
        if not side.missing then
            os.remove(context.folder .. "/ping")
            local lines, err = runs.here(context, "wakeup", {
                way = side.key, rounds = 1, samples = context.quick and 10 or 60, warm_up = 5, folder = context.folder,
            }, 2, { side.host, side.host })
            local words = runs.find(lines, "latencies")
            if words then
                table.insert(rounds[side], { unpack(words, 3) })
            else
                side.missing = runs.failed(err)
            end
        end
    end
    return rounds
end


local function wait_row(rounds, side, other, target)
    local function times(which, part)
        local all = stats.concat(rounds[which])
        return which.missing or report.time(stats.percentile(all, part) * 1e-6)
    end
    local ratio, distance = NONE, NONE
    if other and not side.missing and not other.missing then
        local ratios = stats.ratios(stats.map(rounds[side], stats.median), stats.map(rounds[other], stats.median))
        local _
        ratio, _, distance = report.ratio(ratios, target)
    end
    return { side.name, times(side, 0.5), times(side, 0.99), other and other.name or NONE,
             other and times(other, 0.5) or NONE, other and times(other, 0.99) or NONE, ratio, share(target), distance }
end


local function waits(context)
    local rounds = measure_waits(context, { OURS, SCHEDULER, FUTEX, REDIS, STREAM, BEANSTALKD })
    return {
        title = "From push to take, in another process",
        headings = { "taker", "p50", "p99", "beside", "p50 ", "p99 ", "ratio (middle half)", "target", "distance" },
        rows = {
            wait_row(rounds, OURS, FUTEX, FUTEX_TARGET),
            wait_row(rounds, OURS, REDIS, WAIT_TARGET),
            wait_row(rounds, OURS, STREAM, WAIT_TARGET),
            wait_row(rounds, OURS, BEANSTALKD),
            wait_row(rounds, SCHEDULER, FUTEX),
        },
        note = "The taker waits for 2 ms or more, in a call of its process or in a coroutine of the scheduler. Redis "
               .. "uses BRPOPLPUSH, or a stream and XREADGROUP; beanstalkd uses reserve; both over Unix sockets. The "
               .. "ratio is the ratio of the medians of rounds. The sides take turns.",
    }
end


-- --- a job without waiting ---

local function jobs(context)
    local all = {}
    for i, side in ipairs { OURS, REDIS, STREAM, BEANSTALKD } do
        all[i] = { key = side.key, place = "luajit", side = side.key, missing = side.missing }
    end
    local found, why_not = turns.compare(context, PART, { steps = context.quick and 100 or 5000 }, all)
    local ours, rows = found.holdfast.job, {}
    rows[1] = { "push, take and done", report.spread(ours) or why_not.holdfast, NONE, NONE, NONE,
                "<= " .. JOB_TARGET .. " ns", ours and report.distance(stats.median(ours), JOB_TARGET) or NONE }
    for i, side in ipairs { REDIS, STREAM, BEANSTALKD } do
        local theirs, target = found[side.key].job, side ~= BEANSTALKD and JOB_SERVER_TARGET or nil
        local ratio = ours and theirs and stats.ratios(ours, theirs)
        rows[i + 1] = { "push, take and done", report.spread(ours) or why_not.holdfast, side.name,
                        report.spread(theirs) or why_not[side.key],
                        ratio and ("%.3fx (%.3f-%.3f)"):format(stats.median(ratio), stats.middle_half(ratio)) or NONE,
                        share(target), ratio and target and report.distance(stats.median(ratio), target) or NONE }
    end
    return {
        title = "A job without waiting",
        headings = { "what", "holdfast", "beside", "takes", "ratio (middle half)", "target", "distance" },
        rows = rows,
        note = "Nanoseconds per job, in one process that makes all three calls: the minimum; the median (and the "
               .. "middle half) of processes. The sides take turns. Redis uses LPUSH, RPOPLPUSH and LREM, or XADD, "
               .. "XREADGROUP, XACK and XDEL; beanstalkd uses put, reserve and delete.",
    }
end


-- --- a killed worker ---

local function takeovers(context)
    local rows, kills = {}, context.quick and 5 or 200
    for i, side in ipairs { OURS, BEANSTALKD } do
        local is_ours = side == OURS
        local lines, err = nil, side.missing
        if not err then
            lines, err = runs.here(context, "takeover", { kills = kills, waiters = 1, way = side.key }, 2)
            err = not runs.find(lines, "takeover") and runs.failed(err) or nil
        end
        local times = { unpack(runs.find(lines, "takeover") or {}, 2) }
        local p99 = stats.percentile(times, 0.99)
        rows[i] = err and { side.name, err, NONE, NONE, NONE, NONE }
            or { side.name, report.time(stats.median(times) / 1e3), report.time(p99 / 1e3),
                 report.time(stats.percentile(times, 1) / 1e3),
                 is_ours and "p99 <= " .. TAKEOVER_TARGET .. " ms" or NONE,
                 is_ours and report.distance(p99, TAKEOVER_TARGET) or NONE }
    end
    rows[3] = { REDIS.name, "never", NONE, NONE, NONE, NONE }
    return {
        title = "The job of a killed worker",
        headings = { "queue", "taken again, p50", "p99", "longest", "target", "distance" },
        rows = rows,
        note = ("%d kills, while one taker waits. beanstalkd notices the end of the connection. With Redis, the job "
                .. "stays in the list of taken jobs, or pending in the stream, until a program of the user takes it "
                .. "from there."):format(kills),
    }
end


function _M.make(context)
    for _, side in ipairs { REDIS, BEANSTALKD } do
        local name, missing = peers.start(side.key, context.folder)
        side.name, side.missing = name or side.key, missing
    end
    STREAM.name, STREAM.missing = REDIS.name .. ", stream", REDIS.missing
    local found = { waits(context), jobs(context), takeovers(context) }
    for _, side in ipairs { REDIS, BEANSTALKD } do
        peers.stop(side.key, context.folder)
    end
    return unpack(found)
end


return _M
