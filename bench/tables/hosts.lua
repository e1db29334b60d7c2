-- Measures in each host how soon a coroutine continues after another process has released the lock, and what coroutines
-- cost that wait while nothing happens.

local hosts, process, report, runs, stats = require "bench.support" ("hosts", "process", "report", "runs", "stats")

local NONE = report.NONE
-- The targets relative to the bare futex and to lua-resty-lock.
local FUTEX_TARGET, PEER_TARGET = 4, 20
-- `shortest` and `longest` limit the seconds for which a lock is held. `samples` is the number of samples in a round,
-- `quick` their number with --quick, and `warm_up` the number of samples before them. LuaJIT compiles a function after
-- some 110 calls.
local SHORT = { shortest = 0.002, longest = 0.02, samples = 60, quick = 10, warm_up = 200 }
local LONG = { shortest = 0.05, longest = 0.15, samples = 10, quick = 2, warm_up = 2 }
local ROUNDS = 6
local IDLE_WAITERS = 100
-- The target for idle waiters, in percent of a core.
local IDLE_TARGET = 1

local FUTEX = { what = "bare futex, no host", host = "none", way = "futex", hold = SHORT }
local NGINX = { what = "nginx", host = "nginx", way = "lock", hold = SHORT }
local NGINX_LONG = { what = "nginx, held for longer", host = "nginx", way = "lock", hold = LONG }
-- This host waits for locks of lua-resty-lock; all others wait for ours.
local PEER = { what = "lua-resty-lock in nginx", host = "nginx", way = "lock", hold = SHORT, peer = true }
local PEER_LONG = { what = "lua-resty-lock, held for longer", host = "nginx", way = "lock", hold = LONG, peer = true }

local SIDES = {
    FUTEX,
    { what = "none: the process waits", host = "none", way = "lock", hold = SHORT },
    { what = "scheduler", host = "scheduler", way = "lock", hold = SHORT },
    { what = "a custom loop, wait_fd", host = "wait_fd", way = "lock", hold = SHORT },
    { what = "cqueues", host = "cqueues", way = "lock", hold = SHORT },
    { what = "copas", host = "copas", way = "lock", hold = SHORT },
    { what = "luv", host = "luv", way = "lock", hold = SHORT },
    { what = "Neovim, coroutine", host = "neovim", way = "lock", hold = SHORT },
    { what = "Neovim, main loop", host = "neovim_main", way = "lock", hold = SHORT },
    NGINX,
    PEER,
    NGINX_LONG,
    PEER_LONG,
}

local _M = {}


-- Returns nil, or the reason why a host cannot be measured.
local function missing(context, host)
    if host == "nginx" then
        return not context.nginx and (context.why_not or "not installed") or nil
    end
    local needs = hosts[host].needs
    local command = hosts[host].command and "command -v " .. needs
                    or needs and "luajit -e 'require " .. '"' .. needs .. '"; print "there"' .. "'"
    if command and process.output(command) == "" then
        return "not installed"
    end
end


-- --- from release to resume ---------------------------------------------------------------------------

local function measure(context, side, told)
    os.remove(context.folder .. "/ping")
    told.way = side.way
    told.only = side.peer and "peer" or nil
    told.folder = context.folder
    if side.host == "nginx" then
        return runs.in_nginx(context, "wakeup", told, 2)
    end
    return runs.here(context, "wakeup", told, 2, { side.way == "lock" and "scheduler" or "none", side.host })
end


-- Returns the microseconds of each round, by side.
local function measure_rounds(context, count)
    local found = {}
    for _, side in ipairs(SIDES) do
        found[side] = { rounds = {}, err = missing(context, side.host) }
        found[side].absent = found[side].err ~= nil
    end
    for round = 1, count do
        for turn = 1, #SIDES do
            local side = SIDES[(turn + round * 3) % #SIDES + 1]
            local mine = found[side]
            if not mine.err then
                local hold = side.hold
                local lines, err = measure(context, side, {
                    rounds = 1, samples = context.quick and hold.quick or hold.samples, warm_up = hold.warm_up,
                    shortest = hold.shortest, longest = hold.longest, seed = round,
                })
                local words = runs.find(lines, "latencies")
                mine.err = not words and (err or "no result") or nil
                mine.rounds[round] = words and { unpack(words, 3) }
            end
        end
    end
    return found
end


-- Returns the median over the rounds of the ratio of the two sides' medians, or NaN if a side was not measured.
local function times(found, side, other)
    local mine, theirs = found[side], found[other]
    if mine.err or theirs.err then
        return 0 / 0
    end
    return stats.median(stats.ratios(stats.map(mine.rounds, stats.median), stats.map(theirs.rounds, stats.median)))
end


local function time(microseconds)
    return report.time(microseconds * 1e-6)
end


local function factor(value)
    return value == value and report.digits(value) .. "x" or NONE
end


local function latency_row(found, side)
    local mine = found[side]
    if mine.err then
        return { side.what, mine.absent and mine.err or runs.failed(mine.err), NONE, NONE, NONE, NONE, NONE }
    end
    local all = stats.concat(mine.rounds)
    return {
        side.what, time(stats.percentile(all, 0.5)), time(stats.percentile(all, 0.99)), time(stats.percentile(all, 1)),
        tostring(#all), factor(times(found, side, FUTEX)),
        side.peer and NONE or factor(times(found, side.hold == LONG and PEER_LONG or PEER, side)),
    }
end


local function hold_text(hold)
    return ("held for %.0f to %.0f ms"):format(hold.shortest * 1000, hold.longest * 1000)
end


local function peer_row(found, ours, peer)
    local ratio = times(found, peer, ours)
    return { "p50 of lua-resty-lock / p50 of nginx, " .. hold_text(ours.hold), factor(ratio),
             ">= " .. PEER_TARGET .. "x", report.distance(ratio, PEER_TARGET, true) }
end


-- Only our lock in nginx has targets.
local function target_rows(found)
    local ratio = times(found, NGINX, FUTEX)
    return {
        { "p50 of nginx / p50 of the bare futex", factor(ratio), "<= " .. FUTEX_TARGET .. "x",
          report.distance(ratio, FUTEX_TARGET) },
        peer_row(found, NGINX, PEER),
        peer_row(found, NGINX_LONG, PEER_LONG),
    }
end


local function latency(context)
    local rounds = context.quick and 1 or ROUNDS
    local found = measure_rounds(context, rounds)
    return {
        title = "From release to resume, in another process",
        headings = { "waiter", "p50", "p99", "longest", "n", "of the futex", "lua-resty-lock takes" },
        rows = stats.map(SIDES, function (side) return latency_row(found, side) end),
        note = ("Locks are %s, in the last two rows %s. The last two columns show the median, over %d rounds, of the "
                .. "ratio of the medians."):format(hold_text(SHORT), hold_text(LONG), rounds),
    }, {
        title = "Targets",
        headings = { "what", "measured", "target", "distance" },
        rows = target_rows(found),
    }
end


-- --- while nothing happens ----------------------------------------------------------------------------

local IDLE_HOSTS = { "scheduler", "wait_fd", "cqueues", "copas", "luv", "neovim" }


local function percent(value)
    return ("%.2f %%"):format(value * 100)
end


local function idle_row(what, lines, why_not)
    local words = runs.find(lines, "idle")
    if not words then
        return { what, why_not or runs.failed(), NONE, NONE }
    end
    return { what, percent(words[3]), "<= " .. IDLE_TARGET .. " %", report.distance(words[3] * 100, IDLE_TARGET) }
end


-- Coroutines of all hosts but nginx wait for one lock at the same time; nginx and lua-resty-lock follow.
local function idle(context)
    local told = { coroutines = IDLE_WAITERS, keys = 1, seconds = context.quick and 0.5 or 5,
                   hasty = context.quick and "yes" or nil }
    local rows = {}
    local names, absent = { "scheduler" }, {}
    for _, host in ipairs(IDLE_HOSTS) do
        absent[host] = missing(context, host)
        names[#names + 1] = not absent[host] and host or nil
    end
    local lines, err = runs.here(context, "bench/tables/idle", told, #names, names)
    for i, host in ipairs(IDLE_HOSTS) do
        local mine = {}
        for _, words in ipairs(lines or {}) do
            mine[#mine + 1] = words[4] == host and words or nil
        end
        rows[i] = idle_row(host, mine, absent[host] or not lines and runs.failed(err))
    end
    told.host = nil
    for _, peer in ipairs { "no", "yes" } do
        told.only = peer == "yes" and "peer" or nil
        lines, err = runs.in_nginx(context, "bench/tables/idle", told, 2)
        rows[#rows + 1] = idle_row(peer == "yes" and "lua-resty-lock in nginx" or "nginx", lines,
                                   context.why_not or not lines and runs.failed(err))
    end
    return {
        title = ("%d coroutines wait for one lock while nothing happens"):format(IDLE_WAITERS),
        headings = { "waiter", "of one core", "target", "distance" },
        rows = rows,
    }
end


function _M.make(context)
    local latencies, targets = latency(context)
    return latencies, targets, idle(context)
end


return _M
