-- Events from one process to another: how soon they arrive, and how many per second.

local clock, part, peers, report, stats, turns =
    require "bench.support" ("clock", "part", "peers", "report", "stats", "turns")

local _M = {}

local PART = "bench/tables/events"
-- The number of events that are kept: at least as many as are published at once.
local KEEP = 20000
-- The seconds after which a subscriber gives up.
local PATIENCE = 30


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- The first of two workers publishes numbers; the second receives them. Measures the side that options.side names. Each
-- maker returns publish(number), and calls receive(number) in the second worker.

local makers = {}
local bus  -- lua-resty-events, for serve()


function makers.holdfast(host, _, receive)
    local ours = assert(require("resty.holdfast.events").open("bench_events", {
        size = "32m", keep = KEEP, persist = false }))
    if host.number == 1 then
        local sub = assert(ours:subscribe { topic = "bench" })
        host.spawn(function ()
            while true do
                local topic, number, _, lost = sub:next(PATIENCE)
                assert(topic and lost == 0, "lost events")
                receive(number)
            end
        end)
    end
    return function (number)
        assert(ours:publish("bench", number))
    end
end


function makers.worker_events(host, options, receive)
    peers.use(options.dir)
    local events = require "resty.worker.events"
    assert(events.configure { shm = "bench_events", timeout = PATIENCE, interval = options.interval })
    if host.number == 1 then
        events.register(receive, "bench")
    end
    return function (number)
        assert(events.post("bench", "number", number))
    end
end


-- The library's C module keeps workers other than the broker from listening. Without this module, a worker reconnects
-- until it reaches the broker, which only delays the first event.
function makers.resty_events(host, options, receive)
    peers.use(options.dir)
    local _, _, disable = pcall(require, "resty.events.disable_listening")
    package.loaded["resty.events.disable_listening"] = disable or function () return true end
    bus = require("resty.events").new { listening = "unix:" .. options.socket, max_queue_len = KEEP }
    if host.number == 1 then
        bus:subscribe("bench", "number", receive)
    end
    assert(bus:init_worker())
    return function (number)
        assert(bus:publish("all", "bench", "number", number))
    end
end


-- Handles a request to the Unix socket of nginx.
function _M.serve()
    bus:run()
end


-- Publishes numbers until one of them has arrived, because a library may connect in the background.
local function connect(host, sync, publish)
    local patience = clock.now() + PATIENCE
    while not sync:get("received") do
        assert(clock.now() < patience, "no event arrives")
        publish(0)
        host.sleep(0.02)
    end
    host.sleep(1.2)  -- until all published numbers have arrived
end


local function publish_all(host, options, sync, publish)
    connect(host, sync, publish)
    for number = 1, options.single do
        host.sleep(0.001 + math.random() * 0.01)
        sync:set("sent " .. number, clock.now())
        publish(number)
        part.await(host, sync, "received", number)
    end
    sync:set("begin", clock.now())
    for number = options.single + 1, options.single + options.many do
        publish(number)
    end
    part.await(host, sync, "received", options.single + options.many)
    host.emit("rate", options.many / (sync:get("end") - sync:get("begin")))
end


function _M.run(host, options)
    local sync = require("resty.shdict").open("bench_sync", { size = "100k", persist = false })
    local single, last = options.single, options.single + options.many
    local publish = makers[options.side](host, options, function (number)
        local now = clock.now()
        if number > 0 and number <= single then
            host.emit("latency", now - sync:get("sent " .. number))
        end
        if number <= single or number == last then
            sync:set("end", now)
            sync:set("received", number)
        end
    end)
    if host.number == 0 then
        publish_all(host, options, sync, publish)
    else
        part.await(host, sync, "received", last)
    end
end


-- --- the table ----------------------------------------------------------------------------------------------

local NONE = report.NONE


local function row(lines, side, why_not, ours)
    if why_not then
        return { side.name, why_not, NONE, NONE, NONE }
    end
    local function second(words) return words[2] end
    local times = stats.map(turns.named(lines, "latency"), second)
    local rate = stats.median(stats.map(turns.named(lines, "rate"), second))
    ours.rate = ours.rate or rate
    return { side.name, report.time(stats.percentile(times, 0.5)), report.time(stats.percentile(times, 0.99)),
             ("%.0f k/s"):format(rate / 1e3), ("%.2fx"):format(ours.rate / rate) }
end


function _M.make(context)
    local chosen = { { key = "holdfast", name = "holdfast", only = "ours" } }
    for _, key in ipairs { "worker_events", "resty_events" } do
        local name, dir, missing = peers.find(key)
        chosen[#chosen + 1] = { key = key, name = name, only = "peer", missing = missing, told = { dir = dir } }
    end
    chosen[2].told.single = context.quick and 2 or 12  -- it polls once a second
    chosen[3].told.serve = "bench.tables.events"
    chosen[3].told.socket = (context.nginx or "") .. "/socket"
    for _, side in ipairs(chosen) do
        side.place, side.side = "nginx", side.key
    end
    local told = { single = context.quick and 3 or 60, many = context.quick and 1000 or 10000 }
    local lines, why_not = turns.lines(context, PART, told, chosen, 2)
    local ours = {}
    return {
        title = "From publish to the subscriber in another process",
        headings = { "events", "p50", "p99", "events per second", "holdfast's rate" },
        rows = stats.map(chosen, function (side) return row(lines[side.key], side, why_not[side.key], ours) end),
        note = ("Two workers of nginx. For the rate, %d events are published at once, until the last has arrived.")
            :format(told.many),
    }
end


return _M
