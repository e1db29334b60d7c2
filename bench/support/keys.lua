-- Keys and their order, which are the same in every run and on every machine.

local floor = math.floor

local KEYS_SEED = 20090101
local TRACE_SEED = 19121954
local TRACE_KEYS = 100000
-- One third of the polluted trace consists of scans, each with this number of keys. A key of a scan is not requested
-- again.
local SCAN = 10000
local TEXT = "/usr/share/common-licenses/GPL-3"

local _M = {}


-- Returns Park and Miller's generator of random numbers between 0 and 1, both excluded.
local function generator(seed)
    local state = seed
    return function ()
        state = (state * 16807) % 2147483647
        return state / 2147483647
    end
end


-- Returns the numbers 1 to count in a random order.
local function permutation(count, seed)
    local random = generator(seed)
    local numbers = {}
    for i = 1, count do
        numbers[i] = i
    end
    for i = count, 2, -1 do
        local j = floor(random() * i) + 1
        numbers[i], numbers[j] = numbers[j], numbers[i]
    end
    return numbers
end


-- Returns a function that returns a random number k from 1 to `count`, with a probability proportional to 1 / k ^ skew.
local function zipf(count, skew, seed)
    local random = generator(seed)
    local sums, sum = {}, 0
    for k = 1, count do
        sum = sum + k ^ -skew
        sums[k] = sum
    end
    return function ()
        local wanted, low, high = random() * sum, 1, count
        while low < high do
            local middle = floor((low + high) / 2)
            if sums[middle] < wanted then
                low = middle + 1
            else
                high = middle
            end
        end
        return low
    end
end


-- --- lists of keys of 9 bytes --------------------------------------------------------------------------
--
-- Each list is created once, so all sides use the same strings. The strings are created in the order of the list, so
-- they are in memory in this order, like keys that a program has just created. So the benchmark times the search in the
-- dictionary rather than the loading of keys from all over the heap.

local lists = {}


-- Returns each of the keys 1 to `count` once, in a random order.
function _M.shuffled(count)
    if not lists[count] then
        local list = permutation(count, KEYS_SEED)
        for i, number in ipairs(list) do
            list[i] = ("k%08d"):format(number)
        end
        lists[count] = list
    end
    return lists[count]
end


-- Returns a list of `length` keys, each chosen at random from `count` keys.
function _M.drawn(count, length)
    local choose = generator(KEYS_SEED)
    local list = {}
    for i = 1, length do
        list[i] = ("k%08d"):format(floor(choose() * count) + 1)
    end
    return list
end


-- --- requests for numbered keys: { what = "name", requests = { numbers from 1 }, keys = number } ---------

function _M.zipf(skew, length)
    local draw = zipf(TRACE_KEYS, skew, TRACE_SEED)
    local requests = {}
    for i = 1, length do
        requests[i] = draw()
    end
    return { what = ("Zipf %.2g"):format(skew), requests = requests, keys = TRACE_KEYS }
end


function _M.scans(length)
    local draw = zipf(TRACE_KEYS, 0.99, TRACE_SEED)
    local requests, keys = {}, TRACE_KEYS
    for i = 1, length do
        if floor((i - 1) / SCAN) % 3 == 2 then
            keys = keys + 1
            requests[i] = keys
        else
            requests[i] = draw()
        end
    end
    return { what = "Zipf 0.99 and scans", requests = requests, keys = keys }
end


-- Returns the words of a text that every Debian system has, in order, or nil if the text is missing.
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
