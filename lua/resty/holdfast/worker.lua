-- Tells a worker of `holdfast run` its number, and whether the master has ordered it to finish. Any other process is
-- worker 0 of 1, and never gets this order. The functions never yield or fail.

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


-- Returns the number of this worker, from 0 to count() - 1. If a worker is replaced, the new worker gets the old
-- worker's number.
function _M.id()
    return number
end


-- Returns the number of workers.
function _M.count()
    return workers
end


-- exiting() returns whether the master, after a QUIT or HUP signal, has ordered this worker to finish. The order does
-- not end a sleep; loops call exiting() between their steps. The command preloads resty.holdfast.channel, which reads
-- the order.
if preload["resty.holdfast.channel"] then
    _M.exiting = require("resty.holdfast.channel").exiting
else
    function _M.exiting()
        return false
    end
end


return _M
