-- Methods for the holders of a key, a lock or permits, and for its waiters.

local checks = require "resty.holdfast.dictionary.checks"
local cluster = require "resty.holdfast.lock.cluster"
local lock_info = require "resty.holdfast.lock.lock_info"

local require = require
local bad_whole, check_zone, is_whole = checks.bad_whole, checks.check_zone, checks.is_whole

local methods = {}


-- The store of a cluster may have to be asked: by what waits for locks, which a dictionary of values does without.
function methods.holder(zone, key)
    local handle = check_zone(zone, "holder")
    if cluster.has(handle) then
        return require("resty.holdfast.lock.cluster_holder").find(handle, key)
    end
    return lock_info.find(handle, key)
end


function methods.holders(zone, key, max)
    local handle = check_zone(zone, "holders")
    if max ~= nil and not is_whole(max) then
        bad_whole("max", max)
    end
    return lock_info.find_all(handle, key, max)
end


function methods.waiters(zone, key)
    return lock_info.count_waiters(check_zone(zone, "waiters"), key)
end


return methods
