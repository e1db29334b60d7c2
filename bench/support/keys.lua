-- Lists of keys of 9 bytes. Each list is made once: all sides use the same strings.
--
-- The strings of a list are made in its order, so their memory lies in that order, as that of keys which a program has
-- just made. What is timed is then the search in the dictionary, not the fetching of keys from all over the heap.

local random = require "bench.support.random"

local SEED = 20090101

local _M = {}

local lists = {}


-- All keys from 1 to count, once each, in a random order.
function _M.shuffled(count)
    if not lists[count] then
        local list = random.permutation(count, SEED)
        for i, number in ipairs(list) do
            list[i] = ("k%08d"):format(number)
        end
        lists[count] = list
    end
    return lists[count]
end


-- A list of `length` keys, drawn at random from `count` keys.
function _M.drawn(count, length)
    local choose = random.generator(SEED)
    local list = {}
    for i = 1, length do
        list[i] = ("k%08d"):format(math.floor(choose() * count) + 1)
    end
    return list
end


return _M
