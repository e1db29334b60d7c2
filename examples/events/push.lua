-- Pushes a configuration to all workers of the site, and waits until all workers have it.
--
--   luajit push.lua LIMIT WORKERS

local events = require "resty.holdfast.events"
local scheduler = require "resty.holdfast.scheduler"

local limit, workers = tonumber(arg[1]), tonumber(arg[2])

local bus = assert(events.open("site_config", { keep = 1 }))
local answers = assert(assert(events.open("site_answers")):subscribe())

local start = scheduler.now()
local number = assert(bus:publish("config", { limit = limit }))

local has, count = {}, 0
while count < workers do
    local topic, answer = answers:next(10)
    if not topic then
        error(("%d of %d workers have the configuration: %s"):format(count, workers, answer))
    end
    if answer.number == number and not has[answer.worker] then
        has[answer.worker], count = true, count + 1
    end
end
print(("limit %d: %d workers have it, the last after %.2f ms"):format(limit, count, (scheduler.now() - start) * 1000))
