-- What a list of numbers says.

local floor = math.floor
local max = math.max
local min = math.min

local _M = {}


local function sorted(values)
    local copy = {}
    for i = 1, #values do
        copy[i] = values[i]
    end
    table.sort(copy)
    return copy
end


-- The smallest value that at least `share` of all do not exceed. NaN of none.
function _M.percentile(values, share)
    local ordered = sorted(values)
    return ordered[min(#ordered, max(1, math.ceil(share * #ordered)))] or 0 / 0
end


function _M.median(values)
    local ordered = sorted(values)
    local count = #ordered
    local middle = floor((count + 1) / 2)
    if count % 2 == 1 then
        return ordered[middle]
    end
    return count > 0 and (ordered[middle] + ordered[middle + 1]) / 2 or 0 / 0
end


-- The quarters: half of all values lie between the two.
function _M.middle_half(values)
    return _M.percentile(values, 0.25), _M.percentile(values, 0.75)
end


-- The quotients of two lists of equal length, pair by pair.
function _M.ratios(values, others)
    local quotients = {}
    for i = 1, min(#values, #others) do
        quotients[i] = values[i] / others[i]
    end
    return quotients
end


return _M
