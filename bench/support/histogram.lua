-- How often which duration came up, on a logarithmic scale: the small thing that processes tell each other, and that is
-- kept, in place of all durations. A histogram is a table of counts by the number of the bucket.

local ceil = math.ceil
local log10 = math.log10
local max = math.max

local PER_DECADE = 20
-- Bucket 0 is for what is not longer than this.
local SHORTEST = 1e-6

local _M = {}


function _M.add(histogram, seconds)
    local bucket = max(0, ceil(log10(seconds / SHORTEST) * PER_DECADE))
    histogram[bucket] = (histogram[bucket] or 0) + 1
end


-- bucket, count, bucket, count, ...
function _M.write(histogram)
    local words = {}
    for bucket, count in pairs(histogram) do
        words[#words + 1] = bucket
        words[#words + 1] = count
    end
    return unpack(words)
end


-- Adds what another one has written.
function _M.read(histogram, ...)
    local words = { ... }
    for i = 1, #words, 2 do
        histogram[words[i]] = (histogram[words[i]] or 0) + words[i + 1]
    end
end


-- Pairs of a duration and the share of all that did not last longer, in order.
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


return _M
