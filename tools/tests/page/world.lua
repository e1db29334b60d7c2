-- Fills the runtime directory that tools/tests/page/run shows with dictionaries of many sizes, and with trees of waits.
-- With the argument "odd", adds names that a page must not execute.

local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"

local worker = tonumber(os.getenv "HOLDFAST_WORKER")
local is_odd = arg[1] == "odd"
local kept = {}

local function lock(dictionary, key, why)
    local object = assert(resty_lock:new(dictionary, { exptime = 100000, timeout = 100000 }))
    kept[#kept + 1] = object
    return object:lock(key, { why = why })
end

local NAMES = { "sessions", "rates", "jobs" }
if is_odd then
    NAMES[4], NAMES[5] = "<script>alert(1)</script>", "bad\255name"
end

for i = 1, 74 do
    local dictionary = assert(shdict.open(("tenant-%02d"):format(i), { size = "128k" }))
    for key = 1, worker == 0 and (i * 37) % 500 or 0 do
        dictionary:set("key " .. key, ("x"):rep(100))
    end
end
for _, name in ipairs(NAMES) do
    assert(shdict.open(name, { size = "256k" }))
end
local pages = assert(shdict.open("pages", { size = "1m" }))

math.randomseed(worker * 77 + 1)
if worker == 1 then
    assert(lock("jobs", "nightly backup", "weekly full"))
    assert(not is_odd or lock("jobs", "<img src=x onerror=alert(1)>"))
    for i = 1, 400 do
        assert(lock("sessions", "session " .. i))
    end
elseif worker == 2 then
    assert(lock("jobs", "mail queue", "newsletter"))
end
local function refill()
    local object = assert(resty_lock:new("rates", { exptime = 10, timeout = 5 }))
    if object:lock("page " .. math.random(6)) then
        scheduler.sleep(math.random() ^ 6 * 0.2)
        object:unlock()
    end
end

scheduler.spawn(function ()
    scheduler.sleep(0.5)
    for _ = 1, worker > 1 and worker or 0 do
        scheduler.spawn(lock, "jobs", "nightly backup")
    end
    if worker > 3 then
        scheduler.spawn(lock, "jobs", "mail queue")
    end
    local round = 0
    while true do
        round = round + 1
        for _ = 1, 4 do
            scheduler.spawn(refill)
        end
        for _ = 1, 50 do
            if not pages:get("page " .. math.random(30 + round % 200)) and math.random() < 0.3 then
                pages:set("page " .. math.random(30 + round % 200), ("x"):rep(math.random(9000)), 20)
            end
        end
        scheduler.sleep(0.2)
    end
end)
scheduler.run()
