-- Sequences of requests for numbered keys: { what = "name", requests = { numbers from 1 }, keys = how many }.

local random = require "bench.support.random"

local SEED = 19121954
local KEYS = 100000
-- One third of the polluted trace are scans of this many keys each, none of which is asked for again.
local SCAN = 10000
local TEXT = "/usr/share/common-licenses/GPL-3"

local _M = {}


function _M.zipf(skew, length)
    local draw = random.zipf(KEYS, skew, SEED)
    local requests = {}
    for i = 1, length do
        requests[i] = draw()
    end
    return { what = ("Zipf %.2g"):format(skew), requests = requests, keys = KEYS }
end


function _M.scans(length)
    local draw = random.zipf(KEYS, 0.99, SEED)
    local requests, keys = {}, KEYS
    for i = 1, length do
        if math.floor((i - 1) / SCAN) % 3 == 2 then
            keys = keys + 1
            requests[i] = keys
        else
            requests[i] = draw()
        end
    end
    return { what = "Zipf 0.99 and scans", requests = requests, keys = keys }
end


-- The words of a text that every Debian has, in their order; nil without it.
function _M.words()
    local file = io.open(TEXT, "rb")
    if not file then
        return nil
    end
    local text = file:read("*a"):lower()
    file:close()
    local numbers, requests, keys = {}, {}, 0
    for word in text:gmatch("%a+") do
        if not numbers[word] then
            keys = keys + 1
            numbers[word] = keys
        end
        requests[#requests + 1] = numbers[word]
    end
    return { what = "words of the GPL", requests = requests, keys = keys }
end


return _M
