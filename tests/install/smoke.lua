-- Tries a user's first steps: a dictionary, a lock that excludes another lock object, and a wait that a release ends.
local shdict = require "resty.shdict"
local lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local core = require "resty.holdfast.core"

local dict = assert(shdict.open("smoke", { size = "100k" }))
assert(dict:incr("runs", 1, 0))

-- Each process has its own key, because the workers of one run may run this file at the same time.
local key = "key " .. tostring(dict)
local held = assert(lock:new("smoke", { exptime = 5 }))
assert(held:lock(key))
local other = assert(lock:new("smoke", { timeout = 0 }))
local elapsed, err = other:lock(key)
assert(elapsed == nil and err == "timeout", err)

local waited
scheduler.spawn(function ()
    local patient = assert(lock:new("smoke", { timeout = 5 }))
    waited = assert(patient:lock(key))
    assert(patient:unlock())
end)
scheduler.spawn(function ()
    scheduler.sleep(0.01)
    assert(held:unlock())
end)
scheduler.run()
assert(waited and waited < 5, waited)

-- Cluster dictionaries need additional Lua files.
local gated, refusal = shdict.open("smoke_cluster", { size = "64k", cluster = "smoke" })
if gated then
    assert(gated:cluster().name == "smoke")
else
    assert(refusal:find("built without cluster support", 1, true), refusal)
end

io.write(("holdfast %s works in %s: %s\n"):format(core.version, jit.version, core.path))
