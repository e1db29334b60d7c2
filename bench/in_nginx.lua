-- Runs one part in each worker of an otherwise idle nginx. The part runs in a timer, where sleeping is allowed.

local part, sides = require "bench.support" ("part", "sides")
local worker = require "spec.side_by_side.worker"

local ngx = ngx  -- luacheck: ignore 113
local emit = part.emit

-- Debian builds nginx for debugging, and in such an nginx lock modules do more bookkeeping.
ngx.config.debug = false


-- nginx counts in milliseconds. With a shorter time, it would not sleep at all, and would write a line to the log.
local function sleep(seconds)
    ngx.sleep(math.max(seconds, 0.001))
end


-- Returns the sides that this process measures: only one if the modules of the two sides would conflict.
local function sides_of(read)
    if read.only == "ours" then
        return { sides.holdfast() }
    end
    local peer = sides.nginx()
    emit("peer", peer.label)
    return read.only == "peer" and { peer } or { sides.holdfast(), peer }
end


worker.run(function ()
    local read = part.read()
    part.load().run({
        emit = emit,
        number = ngx.worker.id(),
        workers = ngx.worker.count(),
        run_all = worker.in_threads,
        sides = sides_of(read),
        sleep = sleep,
        spawn = ngx.thread.spawn,
    }, read)
end)
