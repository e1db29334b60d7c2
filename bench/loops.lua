-- The loops that are timed, for one side. Load this file once per side: a loop that has been compiled for one kind of
-- dictionary would be slow with another.

local KEY = "key000001"
local KEYS = 100000

local concat = table.concat


local function fail(what, ...)
    error(what .. ": " .. concat({ tostring((...)), tostring((select(2, ...))) }, ", "), 2)
end


-- The same keys in the same random order for everybody: about the order of their memory, too.
local function shuffled_keys()
    local keys = {}
    for i = 1, KEYS do
        keys[i] = ("k%08d"):format(i)
    end
    local state = 20090101
    for i = KEYS, 2, -1 do
        state = (state * 16807) % 2147483647
        local j = state % i + 1
        keys[i], keys[j] = keys[j], keys[i]
    end
    return keys
end


-- side: { lock = module, locks = name of its dictionary, cache = a dictionary }
return function (side)
    local resty_lock, locks, cache = side.lock, side.locks, side.cache
    local keys
    local loops = {}

    function loops.lock_unlock(n)
        local lock = resty_lock:new(locks)
        for _ = 1, n do
            local elapsed, err = lock:lock(KEY)
            if not elapsed then
                fail("lock", elapsed, err)
            end
            local ok
            ok, err = lock:unlock()
            if not ok then
                fail("unlock", ok, err)
            end
        end
        return n
    end

    function loops.new_lock_unlock(n)
        for _ = 1, n do
            local lock = resty_lock:new(locks)
            local elapsed, err = lock:lock(KEY)
            if not elapsed then
                fail("lock", elapsed, err)
            end
            local ok
            ok, err = lock:unlock()
            if not ok then
                fail("unlock", ok, err)
            end
        end
        return n
    end

    function loops.set_hot(n)
        for i = 1, n do
            local ok, err = cache:set(KEY, i)
            if not ok then
                fail("set", ok, err)
            end
        end
        return n
    end

    function loops.get_hot(n)
        local sum = 0
        for _ = 1, n do
            sum = sum + cache:get(KEY)
        end
        return n, sum
    end

    function loops.incr_hot(n)
        for _ = 1, n do
            local sum, err = cache:incr(KEY, 1)
            if not sum then
                fail("incr", sum, err)
            end
        end
        return n
    end

    -- Those over many keys go over all of them, as often as it takes for n.

    function loops.set_random(n)
        keys = keys or shuffled_keys()
        local done = 0
        repeat
            for i = 1, KEYS do
                local ok, err = cache:set(keys[i], i)
                if not ok then
                    fail("set", ok, err)
                end
            end
            done = done + KEYS
        until done >= n
        return done
    end

    function loops.get_random(n)
        local done, sum = 0, 0
        repeat
            for i = 1, KEYS do
                sum = sum + cache:get(keys[i])
            end
            done = done + KEYS
        until done >= n
        return done, sum
    end

    function loops.incr_random(n)
        local done = 0
        repeat
            for i = 1, KEYS do
                local sum, err = cache:incr(keys[i], 1)
                if not sum then
                    fail("incr", sum, err)
                end
            end
            done = done + KEYS
        until done >= n
        return done
    end

    return loops
end
