-- A script for wrk, in which all readers want the newest articles. A newer article appears after every STEP requests of
-- a thread.
--   wrk ... -s load.lua URL -- ARTICLES

local STEP = 20
local NEWEST = 3

local articles, url
local asked = 0
local threads = 0


function setup(thread)
    threads = threads + 1
    thread:set("number", threads)
end


function init(arguments)
    articles = tonumber(arguments[1])
    url = wrk.path
    math.randomseed(number)
end


function request()
    local newest = math.floor(asked / STEP)
    asked = asked + 1
    return wrk.format("GET", url .. (newest + math.random(NEWEST)) % articles)
end


-- Prints a line for `run`: the number of requests, the requests per second, the median and the 99th percentile in
-- milliseconds, and the number of failures.
function done(summary, latency)
    local errors = summary.errors
    io.write(("figures %d %.0f %.2f %.2f %d\n"):format(summary.requests, summary.requests / (summary.duration / 1e6),
        latency:percentile(50) / 1000, latency:percentile(99) / 1000,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
