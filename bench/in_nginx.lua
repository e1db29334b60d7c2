-- Runs one part in each worker of an nginx that has nothing else to do. The part runs in a timer, where sleeping is
-- allowed.

local part, sides = require "bench.support" ("part", "sides")
local worker = require "spec.side_by_side.worker"

local ngx = ngx  -- luacheck: ignore 113
local emit = part.emit

-- Debian builds nginx for debugging, where lock modules do more bookkeeping than elsewhere.
ngx.config.debug = false


-- nginx counts milliseconds. A shorter time would not be a sleep at all, and would cause a line in the log.
local function sleep(seconds)
    ngx.sleep(math.max(seconds, 0.001))
end


-- Returns the sides of this process: only one side if the modules of the two sides would conflict.
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
