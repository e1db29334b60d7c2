-- Contends with other processes, on one or several machines, for one lock of a cluster. Repeatedly takes the lock, runs
-- the section, releases the lock, and pauses.
--
--   page      the file of cluster/bench/shared_page.lua
--   seconds   the length of the run; held, pause: the length of one section and pause

local clock, stats = require "bench.support" ("clock", "stats")
local machines = require "cluster.bench.machines"
local shared_page = require "cluster.bench.shared_page"
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"

local KEY = "contended"
-- Longer than any wait.
local PATIENCE = 120

local _M = {}


local function connect()
    assert(shdict.open(machines.DICTIONARY, machines.OPTIONS))
    local lock = assert(resty_lock:new(machines.DICTIONARY, { exptime = PATIENCE, timeout = PATIENCE, cluster = true }))
    assert(lock:lock(KEY))  -- waits for the agent
    assert(lock:unlock())
    return lock
end


-- The last wait ends after the deadline, so it counts as a wait, but not as an acquisition.
local function contend(lock, page, options)
    local ending = page:await_start() + options.seconds
    local acquired, longest, waits = 0, 0, {}
    while true do
        local asked = clock.now()
        assert(lock:lock(KEY))
        local got = clock.now()
        stats.count(waits, got - asked)
        longest = math.max(longest, got - asked)
        if got >= ending then
            assert(lock:unlock())
            return acquired, longest, waits
        end
        page:section(options.held)
        acquired = acquired + 1
        assert(lock:unlock())
        clock.sleep(options.pause)
    end
end


function _M.run(host, options)
    local page = shared_page.open(options.page, options.process)
    local connected, lock = pcall(connect)
    if not connected then
        page:give_up()
        error(lock, 0)
    end
    local acquired, longest, waits = contend(lock, page, options)
    host.emit("contender", acquired, page.overlaps, longest)
    host.emit("waits", stats.write_histogram(waits))
end


return _M
