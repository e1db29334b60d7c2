-- The arguments of a dictionary's methods. What raises is called by a method itself (or by what the method returns the
-- result of): the line to blame is the one that called the method.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local describe = core.describe
local error = error
local ffi_istype = ffi.istype
local floor = math.floor
local type = type

local handle_type = ffi.typeof("holdfast_dict *")

local _M = {}


-- The C handle of a dictionary.
function _M.check_zone(zone, method)
    local handle = type(zone) == "table" and zone[1]
    if not ffi_istype(handle_type, handle) then
        error('bad "zone" argument: a dictionary expected, got ' .. describe(zone) .. "; call it as dict:" .. method
              .. "(...)", 3)
    end
    return handle
end


-- The check is core.is_duration.
function _M.bad_duration(name, given)
    error('bad "' .. name .. '" argument: a finite number of seconds, 0 or more, expected, got ' .. describe(given), 3)
end


function _M.is_whole(number)
    return type(number) == "number" and number >= 0 and number <= 0xffffffff and number == floor(number)
end


function _M.bad_whole(name, given)
    error('bad "' .. name .. '" argument: a whole number, 0 to 4294967295, expected, got ' .. describe(given), 3)
end


-- For what has rules of its own; `accepted` says them.
function _M.bad_argument(name, accepted, given)
    error('bad "' .. name .. '" argument: ' .. accepted .. " expected, got " .. describe(given), 3)
end


return _M
