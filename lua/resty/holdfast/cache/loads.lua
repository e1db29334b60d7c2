-- Level 3 of a cache: loads, each with the lock of its key. Waiters watch the grant of the lock, so all of them
-- continue when the grant ends, for whatever reason. They then find the value, or the error if the load failed. If they
-- find neither, one of the waiters loads the value.

local copies = require "resty.holdfast.cache.copies"
local core = require "resty.holdfast.core"
local entries = require "resty.holdfast.cache.entries"
local hosts = require "resty.holdfast.host"
local option = require("resty.holdfast.cache.options").of
local program = require "resty.holdfast.program"
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local vacate = require("resty.holdfast.lock.with").vacate

local C, keep, look, quote = core.C, copies.keep, copies.look, core.quote
local background_jobs = require("resty.holdfast.tasks.queues").background_jobs
local co_running, max, pcall, select = coroutine.running, math.max, pcall, select
local setmetatable, tostring, traceback, type = setmetatable, tostring, debug.traceback, type
local unpack, xpcall = unpack, xpcall

local VALUE, NUMBER, STALE = entries.VALUE, entries.NUMBER, entries.STALE

local NO_WAIT = { timeout = 0 }
-- If a refresh has not ended after this many seconds, the same Lua state may start another. No benchmark covers it.
local REFRESH_AGAIN = 1

local ngx = program.is_nginx and require "ngx"

-- The loads of this Lua state, by dictionary and lock. A load whose coroutine is gone has lost its lock, and is
-- collected.
local loading = setmetatable({}, { __mode = "v" })

local _M = {}


local function is_own_load(id)
    local load = loading[id]
    return load and load.co == (co_running() or true) and load.lock.cdata and not vacate(load.lock)
end


-- Returns value, err, ttl. An error is a string; the third result is then true if the loader returned this error.
local function call(cache, loader, ...)
    cache.counts.loads = cache.counts.loads + 1
    local ok, value, err, ttl = xpcall(loader, traceback, ...)
    if not ok then
        value, err = nil, "callback threw an error: " .. tostring(value)
    end
    if err ~= nil then
        cache.counts.load_errors = cache.counts.load_errors + 1
        return value, tostring(err), ok
    end
    return value, nil, type(ttl) == "number" and ttl or nil
end


-- Stores the error of a load. If the loader returned this error and there is an expired value, serves the value again.
-- Returns value, err, hit level.
local function fail(cache, key, opts, lock, list, value, err, is_returned)
    local again = is_returned and option(cache, opts, "resurrect_ttl") or 0
    local old = again > 0 and entries.expired(cache, key)
    entries.store_error(cache, key, err, lock, max(option(cache, opts, "error_ttl"), old and again or 0))
    local entry = old and entries.store(cache, key, old[VALUE], lock, -again, 2 * again, 0, 0, list)
    if not entry then
        return value, err
    end
    cache.counts.stale = cache.counts.stale + 1
    err = keep(cache, key, opts, entry)
    if err then
        return nil, err
    end
    return entry[VALUE], nil, 4
end


-- Calls the loader and stores the value. Returns value, err, hit level.
local function load_and_store(cache, key, opts, lock, loader, ...)
    local list, err = entries.read_tags(cache, option(cache, opts, "tags"))
    if err then
        return nil, err
    end
    local id = cache.shm .. cache.lock_prefix .. key
    local this = { co = co_running() or true, lock = lock }
    loading[id] = this
    local start = C.holdfast_now()
    local value, ttl
    value, err, ttl = call(cache, loader, ...)
    if loading[id] == this then
        loading[id] = nil
    end
    local entry = not err and { value }
    if entry and not (ttl and ttl < 0) then
        ttl = ttl or option(cache, opts, value == nil and "neg_ttl" or "ttl")
        entry, err = entries.store(cache, key, value, lock, ttl, option(cache, opts, "stale_ttl"),
                                   C.holdfast_now() - start, option(cache, opts, "early_refresh"), list)
        err = err and "cannot store the value: " .. err
    end
    if err and not entry then
        local is_loaders = entry == false
        return fail(cache, key, opts, lock, list, is_loaders and value or nil, err, is_loaders and ttl)
    elseif err then
        cache.counts.not_stored = cache.counts.not_stored + 1
    elseif not entry then  -- the lock was lost
        entry = look(cache, key, opts)
        if entry then
            return entry[VALUE], nil, 2
        end
        entry = { value }
    end
    err = keep(cache, key, opts, entry)
    if err then
        return nil, err
    end
    return entry[VALUE], nil, 3
end


-- Loads the value while the caller holds the lock. `number`: the version of the value to replace, or 0. Returns true,
-- value, err, hit level.
local function load_locked(cache, key, opts, number, lock, loader, ...)
    local entry, err = look(cache, key, opts)
    if err then
        return true, nil, err
    elseif entry and not entry[STALE] and entry[NUMBER] ~= number then
        return true, entry[VALUE], nil, 2
    end
    return true, load_and_store(cache, key, opts, lock, loader, ...)
end


-- Returns value, err, hit level for a caller that cannot wait for the load, or has waited long enough.
local function give_up(cache, key, opts, why, loader, ...)
    cache.counts.timeouts = cache.counts.timeouts + 1
    local way = option(cache, opts, "on_timeout")
    local value, level, err, left, _
    if way == "load" then
        value, err = call(cache, loader, ...)
        if err then
            return value, err
        end
        level = 3
    elseif way == "stale" or option(cache, opts, "resurrect_ttl") > 0 then
        left, _, value = entries.peek(cache, key)
        level = left and 4
    end
    if not level then
        return nil, "could not acquire callback lock: " .. why
    elseif level == 4 then
        cache.counts.stale = cache.counts.stale + 1
    end
    local entry = { value }
    err = keep(cache, key, opts, entry)
    if err then
        return nil, err
    end
    return entry[VALUE], nil, level
end


-- Waits until the holder no longer has the lock. Returns the seconds waited. On failure, returns nil, or false if it
-- could not wait at all, and the reason. Does not raise the error with which nginx refuses waits in some phases, so
-- that on_timeout decides.
local function wait(cache, lock, lock_key, deadline)
    local asked, host, refusal = pcall(hosts.current, lock.settings.block)
    if not asked or not host then
        return false, asked and refusal or "cannot wait here: " .. tostring(host)
    end
    cache.counts.waits = cache.counts.waits + 1
    local elapsed, err = lock:wait(lock_key, { timeout = max(deadline - C.holdfast_now(), 0) })
    return elapsed, err
end


-- Loads a value that is in no level. Returns value, err, hit level.
function _M.load(cache, key, opts, loader, ...)
    local text, seen = entries.read_error(cache, key)
    if text and entries.is_for_all(seen) then
        return nil, text
    end
    local lock_key = cache.lock_prefix .. key
    if is_own_load(cache.shm .. lock_key) then
        return nil, "deadlock: the loader of " .. quote(key) .. " asks for the value that it loads"
    end
    local lock = resty_lock:new(cache.dict, option(cache, opts, "resty_lock_opts"))
    local deadline = C.holdfast_now() + lock.timeout
    while true do
        local done, value, why, level = lock:with(lock_key, NO_WAIT, load_locked, cache, key, opts, 0, lock, loader,
                                                  ...)
        if done then
            return value, why, level
        elseif value == "timeout" then
            done, value = wait(cache, lock, lock_key, deadline)
        end
        if not done then
            return give_up(cache, key, opts, value, loader, ...)
        end
        local entry, err = look(cache, key, opts)
        if entry and not entry[STALE] then
            cache.counts.l2_hits = cache.counts.l2_hits + 1
            return entry[VALUE], nil, 2
        end
        local flags
        text, flags = entries.read_error(cache, key)
        local is_new = text and flags ~= seen
        if entry and is_new then
            cache.counts.stale = cache.counts.stale + 1
            return entry[VALUE], nil, 4
        elseif err or is_new then
            return nil, err or text
        end
    end
end


-- Calls fn() soon, in a coroutine that outlives the caller. Returns whether it will be called.
local function spawn(fn)
    if ngx then
        local allowed, started = pcall(ngx.timer.at, 0, function () fn() end)
        return allowed and started
    end
    local runner = background_jobs.looping and scheduler or hosts.job_runner()
    if runner then
        runner.spawn(fn)
    end
    return runner ~= nil
end


-- Lets one caller replace the value that has this version and is stale or soon will be. Returns value, err, hit level.
-- Returns nothing if another caller replaces the value, if the load runs in the background, or if a load has failed
-- within error_ttl.
function _M.refresh(cache, key, opts, number, loader, ...)
    local now = C.holdfast_now()
    local _, seen = entries.read_error(cache, key)
    if (cache.refreshing[key] or 0) > now or entries.is_for_all(seen) then
        return
    end
    local arguments, count = { ... }, select("#", ...)
    local function run()
        local lock = resty_lock:new(cache.dict, option(cache, opts, "resty_lock_opts"))
        local done, value, err, level = lock:with(cache.lock_prefix .. key, NO_WAIT, load_locked, cache, key, opts,
                                                  number, lock, loader, unpack(arguments, 1, count))
        cache.refreshing[key] = nil
        return done and value, err, done and level
    end
    cache.refreshing[key] = now + REFRESH_AGAIN
    cache.counts.refreshes = cache.counts.refreshes + 1
    if not spawn(run) then
        return run()
    end
end


return _M
