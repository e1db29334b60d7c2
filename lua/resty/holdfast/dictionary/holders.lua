-- Methods for the holders of a key, a lock or permits, and for its waiters.

local checks = require "resty.holdfast.dictionary.checks"
local lock_info = require "resty.holdfast.lock.lock_info"

local bad_whole, check_zone, is_whole = checks.bad_whole, checks.check_zone, checks.is_whole

local methods = {}


function methods.holder(zone, key)
    return lock_info.find(check_zone(zone, "holder"), key)
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
