-- The arguments of a dictionary's methods. What raises is called by a method itself (or by what the method returns the
-- result of): the line to blame is the one that called the method.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local describe = core.describe
local error = error
local ffi_istype = ffi.istype
local floor = math.floor
local is_duration = core.is_duration
local tonumber = tonumber
local type = type

local handle_type = ffi.typeof("holdfast_dict *")

-- From here on a number may stand for several whole ones.
local FIRST_INEXACT = 2 ^ 53
-- What the processor makes of a number that is none or too large for an integer of 32 bits.
local NO_INTEGER = 2 ^ 31

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


function _M.bad_duration(name, given)
    error('bad "' .. name .. '" argument: a number of seconds, 0 or more, expected, got ' .. describe(given), 3)
end


-- Times and counts that are no plain numbers, as ngx.shared takes them. What it does not take either is nil.

-- A time that has no end, or is none, is no limit.
function _M.loose_duration(given)
    if type(given) == "cdata" then
        given = tonumber(given)
    end
    if type(given) ~= "number" or given < 0 then
        return nil
    end
    return is_duration(given) and given or 0
end


-- As the low 32 bits of a C integer.
function _M.loose_flags(given)
    if given == true then
        return 1
    end
    given = type(given) ~= "string" and tonumber(given) or nil
    if not given then
        return nil
    elseif not (given < FIRST_INEXACT and given > -FIRST_INEXACT) then
        return NO_INTEGER
    end
    return (given < 0 and -floor(-given) or floor(given)) % 2 ^ 32
end


-- How many at most; 0 is all.
function _M.loose_count(given)
    given = type(given) ~= "cdata" and tonumber(given) or nil
    if not given then
        return nil
    end
    return given >= 1 and given <= 0xffffffff and floor(given) or 0
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
