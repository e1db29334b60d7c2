-- The counts of all caches in a dictionary, for the metrics. Each cache object adds its counts to them about once a
-- second. The name of a cache does not contain '%', so the keys of the counts do not belong to a cache.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C = core.C

local seconds, found = ffi.new("double[1]"), ffi.new("holdfast_value")

local _M = {}


-- Returns the dictionary's key of a count that stats() returns.
local function key(name)
    return "%cache:" .. name
end
_M.key = key


-- Returns the sum of a count, or nil if the dictionary has no such count. In the latter case, the call does not count
-- as a read.
function _M.sum(handle, name)
    local full = key(name)
    if C.holdfast_ttl(handle, full, #full, seconds) ~= core.OK or C.holdfast_get(handle, full, #full, found) ~= core.OK
       or found.type ~= core.NUMBER then
        return nil
    end
    return found.number
end


return _M
