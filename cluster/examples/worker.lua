-- A worker on one of several machines. Together, the workers renew one certificate whenever it is due, and do one job
-- step by step. At any time, at most one worker on all machines does each of these tasks. The machine's agent must
-- already be running:
--
--   holdfast agent main --etcd http://10.0.0.5:2379
--   holdfast run --workers 3 cluster/examples/worker.lua FOLDER MACHINE
--
-- All machines share FOLDER, which stands for a file server or a database; MACHINE is the name of this machine.

-- Finds the modules of a checkout that is built but not installed.
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

-- Each key of this dictionary is one lock for all machines.
assert(shdict.open("jobs", { size = "1m", cluster = "main" }))
journal.open(folder .. "/journal", machine, worker.id())


-- Repeats work(lock) while this worker has the lock, until the worker must finish. Tries again if it does not get the
-- lock within `timeout`, because another machine has the lock or the store is unreachable.
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


-- If this machine hangs or is disconnected for a long time, it can lose the lock while it makes the new certificate. So
-- the store gets the token of the grant, and refuses a token that is lower than the last one.
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
