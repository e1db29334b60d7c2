-- The loops that are timed. Each is made for one side: (side, dictionary, keys) -> function (n), which makes about n
-- steps and returns how many it made. Load this file once for each case and side: a loop that has been compiled for
-- one kind of dictionary would be slow with another.

local KEY = "key000001"

local min = math.min
local now = require("bench.support.clock").now

local loops = {}


-- An error if a call of the timed loop failed; these are its results.
local function check(what, result, err)
    if not result then
        error(what .. ": " .. tostring(result) .. ", " .. tostring(err), 2)
    end
end


-- A loop of steps that are all the same.
local function again(step)
    return function (n)
        for i = 1, n do
            step(i)
        end
        return n
    end
end


-- --- locks ---------------------------------------------------------------------------------------------

function loops.lock_unlock(side)
    local lock = side.lock:new(side.locks)
    return again(function ()
        check("lock", lock:lock(KEY))
        check("unlock", lock:unlock())
    end)
end


function loops.new_lock_unlock(side)
    local resty_lock, locks = side.lock, side.locks
    return again(function ()
        local lock = resty_lock:new(locks)
        check("lock", lock:lock(KEY))
        check("unlock", lock:unlock())
    end)
end


-- Keeps the lock for a while, and the processor, too.
function loops.short_section(side, seconds)
    local lock = side.lock:new(side.locks)
    return again(function ()
        check("lock", lock:lock(KEY))
        if seconds > 0 then
            local ending = now() + seconds
            repeat until now() >= ending
        end
        check("unlock", lock:unlock())
    end)
end


-- --- one key -------------------------------------------------------------------------------------------

function loops.set_hot(_, dict)
    return again(function (i)
        check("set", dict:set(KEY, i))
    end)
end


function loops.get_hot(_, dict)
    assert(dict:set(KEY, 1))
    return function (n)
        local sum = 0
        for _ = 1, n do
            sum = sum + dict:get(KEY)
        end
        return n, sum
    end
end


local function get_string_of(bytes)
    return function (_, dict)
        assert(dict:set(KEY, ("x"):rep(bytes)))
        return function (n)
            local sum = 0
            for _ = 1, n do
                sum = sum + #dict:get(KEY)
            end
            return n, sum
        end
    end
end

loops.get_string_hot = get_string_of(100)
loops.get_1k_hot = get_string_of(1024)


function loops.incr_hot(_, dict)
    assert(dict:set(KEY, 1))
    return again(function ()
        check("incr", dict:incr(KEY, 1))
    end)
end


-- A step is both.
function loops.add_delete(_, dict)
    dict:delete(KEY)
    return again(function (i)
        check("add", dict:add(KEY, i))
        check("delete", dict:delete(KEY))
    end)
end


function loops.set_1k_hot(_, dict)
    local value = ("x"):rep(1024)
    return again(function ()
        check("set", dict:set(KEY, value))
    end)
end


-- --- many keys -----------------------------------------------------------------------------------------

-- A loop that goes over all keys, again and again, and goes on where it last ended. `walk` does those from `first` to
-- `last`.
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


-- The same with step(i) for each keys[i].
local function over_each(keys, step)
    return over(keys, function (first, last)
        for i = first, last do
            step(i)
        end
    end)
end


-- Stores a value under each key: in another order than that of the loops, so that entries which are used one after
-- the other do not lie side by side. 7919 is prime and divides no number of keys here, so no key is left out.
local function fill(dict, keys, value)
    local count = #keys
    for i = 1, count do
        assert(dict:set(keys[i * 7919 % count + 1], value or i))
    end
end


function loops.set(_, dict, keys)
    fill(dict, keys)
    return over_each(keys, function (i)
        check("set", dict:set(keys[i], i))
    end)
end


function loops.set_1k(_, dict, keys)
    local value = ("x"):rep(1024)
    fill(dict, keys, value)
    return over_each(keys, function (i)
        check("set", dict:set(keys[i], value))
    end)
end


function loops.get(_, dict, keys)
    fill(dict, keys)
    return over(keys, function (first, last)
        local sum = 0
        for i = first, last do
            sum = sum + dict:get(keys[i])
        end
        return sum
    end)
end


function loops.incr(_, dict, keys)
    fill(dict, keys)
    return over_each(keys, function (i)
        check("incr", dict:incr(keys[i], 1))
    end)
end


-- A step is both; all other keys are there all the time.
function loops.delete_add(_, dict, keys)
    fill(dict, keys)
    return over_each(keys, function (i)
        check("delete", dict:delete(keys[i]))
        check("add", dict:add(keys[i], i))
    end)
end


-- One write, then `reads` reads, and so on.
function loops.mixed(_, dict, keys, reads)
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


-- A step is one key. The keys are in the dictionary only, not in Lua, and were last used in another order than that of
-- their memory.
function loops.get_keys(_, dict)
    local count = 100000
    for _, stride in ipairs { 1, 7919 } do
        for i = 1, count do
            assert(dict:set(("q%08d"):format(i * stride % count), i))
        end
    end
    return function (n)
        local done = 0
        repeat
            local listed = #dict:get_keys(0)
            check("get_keys", listed == count, listed)
            done = done + listed
        until done >= n
        return done
    end
end


return loops
