-- What concerns neither locks nor dictionaries. Manual: docs/hosts.md.

local core = require "resty.holdfast.core"
local current = require("resty.holdfast.host").current

local describe, is_duration = core.describe, core.is_duration
local error, min, type = error, math.min, type

local INFINITY = math.huge
-- The longest single sleep of every host, in seconds.
local LONGEST = 86400

local _M = { _VERSION = core.version }


-- Sleeps `seconds`, or for ever with math.huge, as the caller's host does: only the calling coroutine where there are
-- others. true; nil and the reason where the caller may not wait, or its host ends the sleep.
function _M.sleep(seconds)
    if not is_duration(seconds) and seconds ~= INFINITY then
        error("bad seconds to sleep: a number, 0 or more, expected, got " .. describe(seconds), 2)
    end
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
