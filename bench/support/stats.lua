-- Statistics: percentiles and ratios of lists of numbers, and histograms of durations.

local floor = math.floor
local max = math.max
local min = math.min

local PER_DECADE = 20
-- Bucket 0 counts durations up to this one.
local SHORTEST = 1e-6

local _M = {}


local function sorted(values)
    local copy = {}
    for i = 1, #values do
        copy[i] = values[i]
    end
    table.sort(copy)
    return copy
end


-- Returns the smallest value that at least the share `share` of all values do not exceed, or NaN for an empty list.
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


-- Returns the lower and the upper quartile: half of all values are between them.
function _M.middle_half(values)
    return _M.percentile(values, 0.25), _M.percentile(values, 0.75)
end


-- Divides the elements of one list by those of another list of the same length, and returns the quotients.
function _M.ratios(values, others)
    local quotients = {}
    for i = 1, min(#values, #others) do
        quotients[i] = values[i] / others[i]
    end
    return quotients
end


-- Applies a function to each element of a list.
function _M.map(list, make)
    local made = {}
    for i, element in ipairs(list) do
        made[i] = make(element)
    end
    return made
end


-- Concatenates several lists.
function _M.concat(lists)
    local all = {}
    for _, values in ipairs(lists) do
        for _, value in ipairs(values) do
            all[#all + 1] = value
        end
    end
    return all
end


-- --- histograms ----------------------------------------------------------------------------------------
--
-- Counts of durations on a logarithmic scale. Processes exchange and keep these counts instead of all durations. A
-- histogram is a table of counts by the number of the bucket.

function _M.count(histogram, seconds)
    local bucket = max(0, math.ceil(math.log10(seconds / SHORTEST) * PER_DECADE))
    histogram[bucket] = (histogram[bucket] or 0) + 1
end


-- Returns the written form: bucket, count, bucket, count, ...
function _M.write_histogram(histogram)
    local words = {}
    for bucket, count in pairs(histogram) do
        words[#words + 1] = bucket
        words[#words + 1] = count
    end
    return unpack(words)
end


-- Adds a second histogram, given in its written form.
function _M.add_histogram(histogram, ...)
    local words = { ... }
    for i = 1, #words, 2 do
        histogram[words[i]] = (histogram[words[i]] or 0) + words[i + 1]
    end
end


-- Returns pairs, in order: a duration, and the share of all durations that do not exceed it.
function _M.distribution(histogram)
    local buckets, sum = {}, 0
    for bucket, count in pairs(histogram) do
        buckets[#buckets + 1] = bucket
        sum = sum + count
    end
    table.sort(buckets)
    local points, so_far = {}, 0
    for i, bucket in ipairs(buckets) do
        so_far = so_far + histogram[bucket]
        points[i] = { SHORTEST * 10 ^ (bucket / PER_DECADE), so_far / sum }
    end
    return points
end


-- Returns the end of the bucket in which this share of all durations is reached, or NaN for an empty histogram.
function _M.histogram_percentile(histogram, share)
    for _, point in ipairs(_M.distribution(histogram)) do
        if point[2] >= share then
            return point[1]
        end
    end
    return 0 / 0
end


return _M
