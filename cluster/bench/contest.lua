-- Runs contenders of one side, each in its own process, for one lock over etcd. Measures how often they get the lock,
-- how long they wait, the load on etcd, and whether two ever have the lock at the same time.

local process, sides, stats = require "bench.support" ("process", "sides", "stats")
local machines = require "cluster.bench.machines"
local shared_page = require "cluster.bench.shared_page"

local HELD, PAUSE = 20e-6, 200e-6

local _M = {}
-- Makes the names of a run differ from those of earlier runs.
local runs = 0


local function start(context, etcd, entry, told, spread)
    local children = {}
    for i = 1, entry.contenders do
        told.process = i - 1
        told.url = etcd.urls[(i - 1) % #etcd.urls + 1]
        local command = process.quote(context.build .. "/cluster/bench/cluster_clients")
        if spread then
            command = spread:command((i - 1) % entry.machines + 1)
        end
        children[i] = process.start(command, spread and "cluster/bench/contender" or entry.side, told)
    end
    return children
end


-- Returns the children's output, in order. If a child failed, returns nil and a sentence.
local function read(children)
    local lines, err, all = {}, nil, true
    for _, child in ipairs(children) do
        local complete = false
        for words in child.lines() do
            lines[#lines + 1] = words
            complete = complete or words[1] == "waits"
            err = err or words[1] == "failed" and words[2] or nil
        end
        child.close()
        all = all and complete
    end
    if not all then
        return nil, err or "a contender failed"
    end
    return lines
end


local function add_up(lines, sections, seconds, before, after)
    local found = { acquired = 0, overlaps = 0, longest = 0, waits = {} }
    local waits = 0
    for _, words in ipairs(lines) do
        if words[1] == "contender" then
            found.acquired = found.acquired + words[2]
            found.overlaps = found.overlaps + words[3]
            found.longest = math.max(found.longest, words[4])
            waits = waits + words[2] + 1
        elseif words[1] == "waits" then
            stats.add_histogram(found.waits, unpack(words, 2))
        end
    end
    found.overlaps = found.overlaps + found.acquired - sections
    found.rate = found.acquired / seconds
    found.requests = (after.requests - before.requests) / waits
    found.events = (after.events - before.events) / waits
    return found
end


local function compete(context, etcd, entry, told, spread)
    local page = shared_page.open(told.page)
    local children = start(context, etcd, entry, told, spread)
    local complete = page:await(entry.contenders)
    local before = etcd:counts()
    if complete then
        page:start()
    end
    local lines, err = read(children)
    if not lines then
        return nil, err
    end
    return add_up(lines, page:sections(), told.seconds, before, etcd:counts())
end


-- Makes one run of entry: { side = "holdfast", or a part of cluster/bench/clients/main.cc, contenders =, machines = }.
-- The result has the fields acquired, rate (per second), longest (wait), waits (a histogram), requests and events (of
-- etcd, per wait), and overlaps. Returns nil and a sentence on failure.
function _M.run(context, etcd, entry, seconds)
    runs = runs + 1
    local space = "run" .. runs
    local told = { root = context.root, page = context.folder .. "/" .. space .. ".page", space = space, host = "none",
                   seconds = seconds, held = HELD, pause = PAUSE }
    local spread = entry.side == "holdfast" and machines.start(context, etcd, space, entry.machines)
    local found, err = compete(context, etcd, entry, told, spread)
    if spread then
        spread:stop()
    end
    os.remove(told.page)
    return found, err
end


-- Adds a run to the sums of earlier runs.
local function merge(sum, found)
    table.insert(sum.rates, found.rate)
    table.insert(sum.requests, found.requests)
    table.insert(sum.events, found.events)
    stats.add_histogram(sum.waits, stats.write_histogram(found.waits))
    sum.longest = math.max(sum.longest, found.longest)
    sum.overlaps = sum.overlaps + found.overlaps
    sum.acquired = sum.acquired + found.acquired
    if found.overlaps > 0 then
        sum.err = sum.err or found.overlaps .. " overlaps"
    end
end


-- Runs several entries in turn, each with its own `etcd`. For each entry, the result has the lists of rates, requests
-- and events of all its runs, or `err`.
function _M.compare(context, entries, seconds, rounds)
    local sums = {}
    for i in ipairs(entries) do
        sums[i] = { rates = {}, requests = {}, events = {}, waits = {}, longest = 0, overlaps = 0, acquired = 0 }
    end
    for _, i in sides.turns(rounds, #entries) do
        local found, err = _M.run(context, entries[i].etcd, entries[i], seconds)
        if found then
            merge(sums[i], found)
        else
            sums[i].err = sums[i].err or err
        end
    end
    return sums
end


return _M
