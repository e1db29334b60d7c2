-- Measures locks of a cluster that no other machine wants: the cost of one lock, compared with a bare request, and the
-- cost of an idle agent.

local clock, process, report, runs, stats = require "bench.support" ("clock", "process", "report", "runs", "stats")
local contest = require "cluster.bench.contest"
local etcd = require "cluster.bench.etcd"
local machines = require "cluster.bench.machines"

local NONE = report.NONE
local ROUNDS, SAMPLES, WARM_UP = 5, 100, 10
local ASK_TARGET = 1.15
-- A lock needs one request to take it and one to return it. The agent also sends one check each second.
local REQUESTS_TARGET, REQUESTS_SAMPLES = 2.05, 1000
-- A lock that stays on its machine needs only the checks.
local LOCAL_TARGET = 0.01
-- Seconds until an agent has returned unused locks, and until a new agent is idle.
local LINGER, REST = 1, 2
local IDLE_SECONDS = 10
-- In percent of a core, and in megabytes.
local IDLE_TARGET, MEMORY_TARGET = 0.2, 15

local _M = {}


-- --- holdfast's request compared with the bare request -------------------------------------------------------------

local function ask_once(context, cluster, command, part, round)
    local child = process.start(command, part, {
        root = context.root, host = "none", url = cluster.urls[1], space = "direct", round = "r" .. round,
        samples = context.quick and 10 or SAMPLES, warm_up = WARM_UP,
    })
    local times, err
    for words in child.lines() do
        times = words[1] == "ask" and { unpack(words, 2) } or times
        err = words[1] == "failed" and words[2] or err
    end
    child.close()
    return times, err or "a process failed"
end


-- Alternates between the two requests. Returns, for each of them, the medians of the rounds.
local function measure_asks(context, cluster)
    local direct, ours = {}, {}
    local spread = machines.start(context, cluster, "ask", 1)
    local fault
    for round = 1, context.quick and 1 or ROUNDS do
        local clients = process.quote(context.build .. "/cluster/bench/cluster_clients")
        local bare, err = ask_once(context, cluster, clients, "ask", round)
        local mine, err2 = ask_once(context, cluster, spread:command(1), "cluster/bench/ask", round)
        if not bare or not mine then
            fault = not bare and err or err2
            break
        end
        direct[round], ours[round] = stats.median(bare), stats.median(mine)
    end
    spread:stop()
    if fault then
        return nil, fault
    end
    return direct, ours
end


local function ask_row(context, cluster, nodes, target)
    local what = ("lock that nobody has, %d node%s"):format(nodes, nodes > 1 and "s" or "")
    local direct, ours = measure_asks(context, cluster)
    if not direct then
        return { what, runs.failed(ours), NONE, NONE, NONE, NONE }
    end
    local ratio, _, distance = report.ratio(stats.ratios(ours, direct), target)
    return { what, report.time(stats.median(ours)), report.time(stats.median(direct)), ratio,
             target and ("<= %.2fx"):format(target) or NONE, distance }
end


local function asks(context)
    local rows = {}
    for i, nodes in ipairs { 1, 3 } do
        local cluster = assert(etcd.start(context.disk .. "/etcd", nodes))
        rows[i] = ask_row(context, cluster, nodes, nodes == 1 and ASK_TARGET)
        cluster:stop()
    end
    return {
        title = "One request, through the agent and without",
        headings = { "what", "lock()", "the bare request", "ratio (middle half)", "target", "distance" },
        rows = rows,
    }
end


-- --- the load on etcd, and an idle agent ---------------------------------------------------

local function row(what, value, format, target)
    return { what, format:format(value), "<= " .. format:format(target), report.distance(value, target) }
end


-- A target of 0 has no percentage.
local function zero_row(what, value)
    if value > 0 then
        return { what, ("%d"):format(value), "0", "missed" }
    end
    return { what, "0", "0", "met" }
end


-- Measures locks of the first machine while the second machine is idle.
local function measure_requests(context, cluster, spread)
    local samples = context.quick and 50 or REQUESTS_SAMPLES
    local before = cluster:counts()
    local child = process.start(spread:command(1), "cluster/bench/ask", {
        root = context.root, host = "none", round = "requests", samples = samples, warm_up = 0, release = "yes",
    })
    local done
    for words in child.lines() do
        done = done or words[1] == "ask"
    end
    child.close()
    clock.sleep(LINGER)
    local after = cluster:counts()
    return done and (after.requests - before.requests) / samples, after.events - before.events
end


local function request_rows(context, cluster, spread)
    local rows = {}
    local requests, events = measure_requests(context, cluster, spread)
    if not requests then
        return { { "requests for a lock that nobody has", runs.failed(), NONE, NONE } }
    end
    rows[1] = row("requests for a lock that nobody has, and its release", requests, "%.2f", REQUESTS_TARGET)
    rows[2] = zero_row(("events that reach an idle agent while another takes %d of them"):format(
                           context.quick and 50 or REQUESTS_SAMPLES), events)
    local found, err = contest.run(context, cluster, { side = "holdfast", machines = 1, contenders = 8 },
                                   context.quick and 0.3 or 2)
    if found then
        rows[3] = row("requests for a lock that 8 processes of one machine hand on", found.requests, "%.3f",
                      LOCAL_TARGET)
    else
        rows[3] = { "requests for a lock that 8 processes of one machine hand on", runs.failed(err), NONE, NONE }
    end
    return rows
end


-- Returns the processor time of all threads, in seconds.
local function processor_time(pid)
    return tonumber(process.output(("cat /proc/%d/task/*/schedstat | awk '{ sum += $1 } END { print sum }'"):format(
                                   pid))) * 1e-9
end


local function memory(pid)
    return tonumber(process.output("awk '/^VmRSS/ { print $2 }' /proc/" .. pid .. "/status")) / 1024
end


local function idle_rows(context, pid)
    clock.sleep(REST)
    local seconds = context.quick and 1 or IDLE_SECONDS
    local before, start = processor_time(pid), clock.now()
    clock.sleep(seconds)
    local share = (processor_time(pid) - before) / (clock.now() - start)
    return row("processor of an idle agent, of one core", share * 100, "%.3f %%", IDLE_TARGET),
        row("memory of an idle agent", memory(pid), "%.1f MB", MEMORY_TARGET)
end


local function costs(context)
    local cluster = assert(etcd.start(context.disk .. "/etcd", 1))
    local spread = machines.start(context, cluster, "costs", 2)
    clock.sleep(REST)
    local rows = request_rows(context, cluster, spread)
    rows[#rows + 1], rows[#rows + 2] = idle_rows(context, spread.agents[2].pid)
    spread:stop()
    cluster:stop()
    return {
        title = "What is asked of etcd, and an agent that has nothing to do",
        headings = { "what", "measured", "target", "distance" },
        rows = rows,
    }
end


function _M.make(context)
    return asks(context), costs(context)
end


return _M
