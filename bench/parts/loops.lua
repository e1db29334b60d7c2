-- The loops that several processes run at the same time. Each loop is a function (n) for one side, which makes about n
-- steps and returns the number of steps. Load this file once for each case: a loop that was compiled for one kind of
-- lock or dictionary would be slow with another kind.

local KEY = "key000001"

local min = math.min
local now = require("bench.support.clock").now

local loops = {}


-- Raises an error if a call in the timed loop failed; `result` and `err` are the call's results.
local function check(what, result, err)
    if not result then
        error(what .. ": " .. tostring(result) .. ", " .. tostring(err), 2)
    end
end


-- --- locks ---------------------------------------------------------------------------------------------

-- Holds the lock for a while, and does not release the processor.
function loops.short_section(side, seconds)
    local lock = side.lock:new(side.locks)
    return function (n)
        for _ = 1, n do
            check("lock", lock:lock(KEY))
            if seconds > 0 then
                local ending = now() + seconds
                repeat until now() >= ending
            end
            check("unlock", lock:unlock())
        end
        return n
    end
end


-- If unlock returns "timeout", the lock is still held, and the call may be repeated.
local function unlock_eventually(lock)
    local ok, err
    for _ = 1, 10 do
        ok, err = lock:unlock()
        if ok or err ~= "timeout" then
            break
        end
    end
    check("unlock", ok, err)
end


-- Uses a key, or a lock of the operating system, that no other process uses.
function loops.own_key(side, number)
    local lock = side.lock:new(side.system and side.locks .. number or side.locks)
    local key = ("own%06d"):format(number)
    return function (n)
        for _ = 1, n do
            check("lock", lock:lock(key))
            if not lock:unlock() then
                unlock_eventually(lock)
            end
        end
        return n
    end
end


function loops.own_set(dict, number)
    local key = ("own%06d"):format(number)
    return function (n)
        for i = 1, n do
            check("set", dict:set(key, i))
        end
        return n
    end
end


-- --- many keys -----------------------------------------------------------------------------------------

-- Returns a loop that processes all keys again and again, and continues each time where it last stopped. walk(first,
-- last) processes the keys with these numbers.
local function over(keys, walk)
    local at, count = 0, #keys
    return function (n)
        local left = n
        while left > 0 do
            local last = min(count, at + left)
            walk(at + 1, last)
            left = left - (last - at)
            at = last % count
        end
        return n
    end
end


-- Stores a value under each key, in an order that differs from the order of the loops, so that entries used one after
-- another are not adjacent in memory. 7919 is prime and divides no number of keys here, so no key is left out.
local function fill(dict, keys)
    local count = #keys
    for i = 1, count do
        assert(dict:set(keys[i * 7919 % count + 1], i))
    end
end


-- Repeats one write and `reads` reads.
function loops.mixed(dict, keys, reads)
    fill(dict, keys)
    return over(keys, function (first, last)
        local sum = 0
        for i = first, last, reads + 1 do
            check("set", dict:set(keys[i], i))
            for j = i + 1, min(i + reads, last) do
                sum = sum + dict:get(keys[j])
            end
        end
        return sum
    end)
end


return loops
