-- Runs one part in each worker of an nginx that has nothing else to do. In a timer, where sleeping is allowed.

local part, sides = require "bench.support" ("part", "sides")

local ngx = ngx  -- luacheck: ignore 113
local emit = part.emit

-- Debian builds nginx for debugging, where lock modules keep more books than they do elsewhere.
ngx.config.debug = false


local function run_all(count, task)
    local threads = {}
    for i = 1, count do
        threads[i] = ngx.thread.spawn(task, i)
    end
    for i = 1, count do
        assert(ngx.thread.wait(threads[i]))
    end
end


-- nginx counts milliseconds. Less than one would be none, and a line in its log.
local function sleep(seconds)
    ngx.sleep(math.max(seconds, 0.001))
end


-- The sides of this process: only one of them where the other's modules would be in its way.
local function sides_of(read)
    if read.only == "ours" then
        return { sides.holdfast() }
    end
    local peer = sides.nginx()
    emit("peer", peer.label)
    return read.only == "peer" and { peer } or { sides.holdfast(), peer }
end


local function run()
    local read = part.read()
    part.load().run({
        emit = emit,
        number = ngx.worker.id(),
        workers = ngx.worker.count(),
        run_all = run_all,
        sides = sides_of(read),
        sleep = sleep,
    }, read)
end


assert(ngx.timer.at(0, function (premature)
    if premature then
        return
    end
    local ok, err = xpcall(run, debug.traceback)
    if not ok then
        emit("failed", (tostring(err):gsub("\n.*", "")))
    end
    emit("end")
end))
