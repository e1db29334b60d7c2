-- Who holds what is under a key, be it a lock or permits, and how many wait for it.

local checks = require "resty.holdfast.dictionary.checks"
local holders = require "resty.holdfast.lock.lock_info"

local bad_whole = checks.bad_whole
local check_zone = checks.check_zone
local count_waiters = holders.count_waiters
local find = holders.find
local find_all = holders.find_all
local is_whole = checks.is_whole

local DEFAULT_MAX = holders.DEFAULT_MAX

local methods = {}


function methods.holder(zone, key)
    local handle = check_zone(zone, "holder")
    return find(handle, key)
end


function methods.holders(zone, key, max)
    local handle = check_zone(zone, "holders")
    if max == nil then
        max = DEFAULT_MAX
    elseif not is_whole(max) then
        bad_whole("max", max)
    end
    return find_all(handle, key, max)
end


function methods.waiters(zone, key)
    local handle = check_zone(zone, "waiters")
    return count_waiters(handle, key)
end


return methods
