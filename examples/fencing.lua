-- Fencing: shows what happens to a writer that has lost its lock without noticing.
--
--   luajit examples/fencing.lua
--
-- Two tasks write a report under a lock. The slow task's lock expires after 0.1 seconds, but its work takes longer.
-- After the expiry, the quick task gets the lock and writes. In the end, a store that accepts every write contains the
-- slow task's old report. A store that remembers the largest fencing token so far refuses the old report.

local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"

local store = assert(shdict.open("fencing_store", { size = "100k" }))
assert(shdict.open("fencing_locks", { size = "100k" }))


local function write_anything(key, _, text)
    return store:set(key, text)
end


-- The stored value begins with the largest token. So the token and the text change in one step, even if there are other
-- writers.
local function write_fenced(key, token, text)
    while true do
        local old = store:get(key)
        local largest = old and tonumber(old:match("^%d+")) or 0
        if token < largest then
            return nil, "stale"
        end
        local done, err = store:cas(key, old, ("%.0f %s"):format(token, text))
        if done then
            return true
        end
        if err ~= "value differs" and err ~= "exists" and err ~= "not found" then
            return nil, err
        end
    end
end


local function report(name, write, exptime, seconds)
    local lock = assert(resty_lock:new("fencing_locks", { exptime = exptime }))
    assert(lock:lock("report"))
    scheduler.sleep(seconds)
    local written, err = write("report", lock:token(), "by the " .. name .. " one")
    print(("  the %s one %s the lock: %s"):format(name, lock:valid() and "has" or "has lost",
                                                      written and "written" or err))
    lock:unlock()
end


local function run(title, write)
    print(title)
    store:delete("report")
    local slow = scheduler.spawn(report, "slow", write, 0.1, 0.3)
    local quick = scheduler.spawn(report, "quick", write, 5, 0)
    assert(slow:join())
    assert(quick:join())
    local text = store:get("report"):gsub("^%d+ ", "")
    print("  in the end: " .. text)
    return text
end


run("a store that takes everything", write_anything)
local text = run("a store that looks at the token", write_fenced)
if text ~= "by the quick one" then
    print "The store was not protected."
    os.exit(1)
end
