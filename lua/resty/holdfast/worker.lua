-- The number of this worker of `holdfast run`, and whether it is asked to end. In any other process: worker 0 of 1,
-- never asked.

local getenv = require("resty.holdfast.program").getenv

local floor, preload, tonumber = math.floor, package.preload, tonumber

local _M = {}

local function whole_number(name, default)
    local value = tonumber(getenv(name))
    if not value or value < 0 or value ~= floor(value) then
        return default
    end
    return value
end

local number = whole_number("HOLDFAST_WORKER", 0)
local workers = whole_number("HOLDFAST_WORKERS", 1)


-- The number of this worker, 0 to count() - 1. A replacement has the number of the worker it replaces.
function _M.id()
    return number
end


-- How many workers there are.
function _M.count()
    return workers
end


-- Whether the worker was told to finish (QUIT or HUP to the master). Ends no sleep: loops ask between their steps. The
-- command preloads resty.holdfast.channel; without the command nothing asks.
if preload["resty.holdfast.channel"] then
    _M.exiting = require("resty.holdfast.channel").exiting
else
    function _M.exiting()
        return false
    end
end


return _M
