-- Caches in plain Lua that hold a fixed number of keys: to compare with. A cache is a function (key) that tells
-- whether the key was there, and puts it there.

local _M = {}


-- Least recently used goes first, exactly: a ring of linked keys around key 0.
function _M.lru(capacity)
    local newer, older, held = { [0] = 0 }, { [0] = 0 }, 0

    local function unlink(key)
        local before, after = older[key], newer[key]
        newer[before], older[after] = after, before
    end

    local function make_newest(key)
        local newest = older[0]
        newer[newest], older[key], newer[key], older[0] = key, newest, 0, key
    end

    return function (key)
        local hit = newer[key] ~= nil
        if hit then
            unlink(key)
        elseif held < capacity then
            held = held + 1
        else
            local oldest = newer[0]
            unlink(oldest)
            newer[oldest] = nil
        end
        make_newest(key)
        return hit
    end
end


-- The one that came first goes first.
function _M.fifo(capacity)
    local ring, at, there = {}, 0, {}
    return function (key)
        if there[key] then
            return true
        end
        at = at % capacity + 1
        if ring[at] then
            there[ring[at]] = nil
        end
        ring[at], there[key] = key, true
        return false
    end
end


return _M
