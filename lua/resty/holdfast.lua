-- General functions that concern neither locks nor dictionaries. Manual: docs/hosts.md.

local core = require "resty.holdfast.core"
local current = require("resty.holdfast.host").current

local check_time = core.check_time
local min, type = math.min, type

-- The maximum duration of a single sleep in any host, in seconds.
local LONGEST = 86400

local _M = { _VERSION = core.version }


-- Sleeps for `seconds`; math.huge means forever. Yields if the host runs coroutines, and otherwise blocks the process.
-- Returns true, or nil and the reason if the caller may not wait or if its host has ended the sleep early. Raises an
-- error for a negative time.
function _M.sleep(seconds)
    check_time(seconds, "seconds", "sleep", 2)
    local host, err = current(false)
    if not host then
        return nil, err
    end
    repeat
        local step = min(seconds, LONGEST)
        local slept, why = host.sleep(step)
        if slept == nil and type(why) == "string" then
            return nil, why
        end
        seconds = seconds - step
    until seconds <= 0
    return true
end


return _M
