-- Takes and releases several locks of one dictionary together: resty_lock:all(dict_name, keys, opts).
--
-- An object has a lock object for each key, and takes the locks in the order of the keys. So programs that use only
-- such objects cannot deadlock. If the object does not get one of the locks, it releases the locks that it has already
-- taken.

local core = require "resty.holdfast.core"
local options = require "resty.holdfast.lock.options"
local with = require "resty.holdfast.lock.with"

local C, describe, key_string, refused = core.C, core.describe, core.key_string, core.refused
local error, getmetatable, max, min, pairs, pcall = error, getmetatable, math.max, math.min, pairs, pcall
local setmetatable, sort, type = setmetatable, table.sort, type

local _M = {}
local mt = { __index = _M }


local function check_receiver(self, method)
    if getmetatable(self) ~= mt then
        error("bad receiver of " .. method .. ": expected locks from resty_lock:all(), got " .. describe(self)
              .. "; call it as obj:" .. method .. "(...)", 3)
    end
end


-- Returns the sorted keys without duplicates, or nil and the reason.
local function read_keys(keys)
    if type(keys) ~= "table" or #keys == 0 then
        error("bad keys to all: expected an array of keys, got " .. (type(keys) == "table" and "an empty table"
              or describe(keys)), 3)
    end
    local sorted, known = {}, {}
    for i = 1, #keys do
        local key, err = key_string(keys[i])
        if not key then
            return nil, err
        end
        if not known[key] then
            known[key] = true
            sorted[#sorted + 1] = key
        end
    end
    sort(sorted)
    return sorted
end


-- Makes the object, which holds no locks yet. `new` is resty_lock.new.
function _M.make(new, class, dict_name, keys, opts)
    local err
    keys, err = read_keys(keys)
    if not keys then
        return nil, err
    end
    local locks = {}
    for i = 1, #keys do
        locks[i], err = new(class, dict_name, opts)
        if not locks[i] then
            return nil, err
        end
    end
    return setmetatable({ keys = keys, locks = locks, timeout = locks[1].timeout }, mt)
end


-- Releases the first `count` locks, in reverse order. Returns 1, or nil and the error from the first release that
-- failed.
local function release(self, count)
    local ok, err = 1, nil
    for i = count, 1, -1 do
        local unlocked, why = self.locks[i]:unlock()
        if not unlocked and ok then
            ok, err = nil, why
        end
    end
    return ok, err
end


-- Takes all locks with take(lock, key). Returns true. On failure, returns nil, the error and, after a deadlock, the
-- keys.
local function take_all(self, take)
    for i = 1, #self.keys do
        local ok, taken, err, keys = pcall(take, self.locks[i], self.keys[i])
        if not ok or not taken then
            release(self, i - 1)
            if not ok then
                error(taken, 0)
            end
            return nil, err, keys
        end
    end
    return true
end


-- Takes all locks, and waits for each lock that is held. Yields as lock() of resty.lock does. opts: exptime, timeout
-- (for all locks together), why. Returns the seconds waited. If the object does not get all locks, it holds none, and
-- the method returns nil and an error from lock().
function _M.lock(self, opts)
    check_receiver(self, "lock")
    local start = C.holdfast_now()
    local timeout = opts and opts.timeout or self.timeout
    local deadline = type(timeout) == "number" and start + timeout
    local each = {}
    for name, value in pairs(opts or {}) do
        each[name] = value
    end
    local taken, err, keys = take_all(self, function (lock, key)
        each.timeout = deadline and max(min(deadline - C.holdfast_now(), timeout), 0) or timeout
        return lock:lock(key, each)
    end)
    if not taken then
        return refused(err, keys)
    end
    return C.holdfast_now() - start
end


-- Takes all locks if all are free. opts: exptime, why. Returns true, or nil and "held" or another error from lock().
function _M.trylock(self, opts)
    check_receiver(self, "trylock")
    local taken, err = take_all(self, function (lock, key) return lock:trylock(key, opts) end)
    return taken, err
end


-- Releases all locks. Returns 1. If a release fails, the method still releases the other locks, and then returns nil
-- and the first error.
function _M.unlock(self)
    check_receiver(self, "unlock")
    return release(self, #self.keys)
end


-- Restarts the exptime of all locks. Returns true, or nil and the first error.
function _M.expire(self, exptime)
    check_receiver(self, "expire")
    for i = 1, #self.keys do
        local ok, err = self.locks[i]:expire(exptime)
        if not ok then
            return nil, err
        end
    end
    return true
end


-- Returns whether all locks are still held, as valid() of resty.lock does.
function _M.valid(self)
    check_receiver(self, "valid")
    for i = 1, #self.keys do
        if not self.locks[i]:valid() then
            return false
        end
    end
    return true
end


local WITH_OPTIONS = options.known { "exptime", "timeout", "why" }

local with_all = with.method("with", {
    check = check_receiver,
    check_options = function (opts, method) options.read_call(opts, method, WITH_OPTIONS) end,
    take = function (self, _, opts) return _M.lock(self, opts) end,
    keep = function (self) return self end,
    give_back = function (self) release(self, #self.keys) end,
})


-- with([opts,] fn, ...) takes all locks, calls fn(...) and releases the locks, as with() of resty.lock does.
function _M.with(self, ...)
    return with_all(self, nil, ...)
end


return _M
