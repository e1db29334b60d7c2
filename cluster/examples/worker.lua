-- A worker of one of several machines. Together they renew one certificate whenever that is due, and do one job step by
-- step: at any time one worker of one machine is at each. The machine's agent runs already:
--
--   holdfast agent main --etcd http://10.0.0.5:2379
--   holdfast run --workers 3 cluster/examples/worker.lua FOLDER MACHINE
--
-- FOLDER is what all machines share, as a file server or a database would be; MACHINE is a name to tell them apart.

-- In a checkout that is built but not installed, the modules lie next door.
local here = arg[0]:match("^(.*)/") or "."
package.path = package.path .. ";" .. here .. "/../../lua/?.lua;" .. here .. "/?.lua"

local journal = require "journal"
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"
local store = require "store"
local worker = require "resty.holdfast.worker"

local folder, machine = arg[1], arg[2]
local certificate = folder .. "/certificate"

-- One lock over all machines for each key of this dictionary.
assert(shdict.open("jobs", { size = "1m", cluster = "main" }))
journal.open(folder .. "/journal", machine, worker.id())


-- Does work(lock) again and again, while this worker has the lock, until the worker is told to finish. No lock within
-- `timeout`, as other machines have it or the store is away, is no mistake: try again.
local function keep_doing(key, pause, work)
    local lock = assert(resty_lock:new("jobs", { timeout = 2, exptime = 60 }))
    while not worker.exiting() do
        lock:with(key, function ()
            journal.begin(key, lock)
            work(lock)
            journal.finish(key, lock)
        end)
        scheduler.sleep(pause)
    end
end


-- The lock can be lost while the new certificate is made, if this machine hangs or is cut off for long. So the store
-- gets the number of the grant, and refuses one that is older than what it has.
local function renew_certificate(lock)
    local token = lock:token()
    scheduler.sleep(0.3)
    local written = store.write(certificate, token, "renewed by machine " .. machine)
    journal.note("certificate", written and "written" or "refused")
end


local function do_a_step()
    scheduler.sleep(0.02)
end


scheduler.spawn(keep_doing, "certificate", 0.5, renew_certificate)
scheduler.spawn(keep_doing, "job", 0.01, do_a_step)
scheduler.run()
