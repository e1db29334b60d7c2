-- Random choices that are the same in every run and on every machine.

local floor = math.floor

local _M = {}


-- Park and Miller's generator: numbers from 0 to 1, neither of them included.
function _M.generator(seed)
    local state = seed
    return function ()
        state = (state * 16807) % 2147483647
        return state / 2147483647
    end
end


-- 1 to count in a random order.
function _M.permutation(count, seed)
    local random = _M.generator(seed)
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


-- A function that draws 1 to count, where k is drawn as often as 1 / k ^ skew says.
function _M.zipf(count, skew, seed)
    local random = _M.generator(seed)
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


return _M
