-- Runs in a worker of nginx. Compares when values end in ngx.shared and in resty.shdict, in many concurrent light
-- threads with real sleeps. Prints "differs" and the difference, "late" and a value that existed after its exptime, or
-- "early" and a lock that ended too soon. Then prints "times", "rounds" and "leases" with their numbers.

local ffi = require "ffi"
local names_of = require "spec.support.names"
local shdict = require "resty.shdict"
local worker = require "spec.side_by_side.worker"

local ngx = ngx  -- luacheck: ignore 113
local now, random, say = require("resty.holdfast.core").C.holdfast_now, math.random, worker.say

local THREADS = 500
local ROUNDS = 20
local LONGEST = 0.05
-- The milliseconds of the original's clock do not begin at the same moment as ours, and its values still exist during
-- their last millisecond.
local TICK = 0.001
local ROUNDING = 1e-6

local theirs, ours


-- Calls that store a value under a key that has none.
local STORES = {
    set = function (dict, key, exptime) dict:set(key, "value", exptime) end,
    safe_set = function (dict, key, exptime) dict:safe_set(key, true, exptime) end,
    add = function (dict, key, exptime) dict:add(key, 5, exptime, 7) end,
    safe_add = function (dict, key, exptime) dict:safe_add(key, "value", exptime) end,
    replace = function (dict, key, exptime) dict:set(key, 1) dict:replace(key, 2, exptime) end,
    incr = function (dict, key, exptime) dict:incr(key, 1, 0, exptime) end,
    expire = function (dict, key, exptime) dict:set(key, 1) dict:expire(key, exptime) end,
    list = function (dict, key, exptime) dict:rpush(key, 1) dict:expire(key, exptime) end,
}

local NAMES = names_of(STORES)


-- Acts like a slow handler, while the loop's time stands still.
local function compute(seconds)
    local over = now() + seconds
    repeat until now() >= over
end


local function is_there(dict, key)
    return dict:get(key) ~= nil or dict:llen(key) > 0
end


-- Returns how far ngx.now(), the clock of the original's values, is ahead of the clock of timers and of our values. The
-- latter is a coarse clock and may lag by any time.
local function clock_difference()
    return ngx.now() - tonumber(ffi.C.holdfast_nginx_msec[0]) / 1000
end


-- If the original's value has ended, ours must also have ended. If not, ours must also exist, unless it is about to
-- end. The remaining times must differ by at most a tick. `apart` is what clock_difference() returned when the value
-- was stored.
local function compare(name, key, exptime, apart, when)
    local original, mine = is_there(theirs, key), is_there(ours, key)
    local their_ttl, our_ttl = theirs:ttl(key), ours:ttl(key)
    local tolerance = TICK + ROUNDING + math.abs(clock_difference() - apart)
    local is_near = their_ttl and math.abs(their_ttl) < tolerance
    if mine ~= original and not (original and is_near)
        or their_ttl and our_ttl and not is_near and math.abs(their_ttl - our_ttl) > tolerance
        or our_ttl and (our_ttl > 0) ~= mine then
        say("differs", when, name, exptime, original, their_ttl, mine, our_ttl)
    end
    return mine
end


local function one_round(key)
    local name, exptime = NAMES[random(#NAMES)], random(1, LONGEST * 1000) / 1000
    theirs:delete(key)
    ours:delete(key)
    local busy = random(50) == 1
    if busy then
        compute(random() * 0.01)
    end
    local stored_at, apart = ngx.now(), clock_difference()
    STORES[name](theirs, key, exptime)
    STORES[name](ours, key, exptime)
    if busy then
        compute(random() * 0.01)
    end
    if not compare(name, key, exptime, apart, "in the same handler") then
        say("differs", "gone at once", name, exptime)
    end
    local way = random(4)
    if way == 1 then
        ngx.sleep(random() * exptime)
        compare(name, key, exptime, apart, "earlier")
    elseif way == 2 then
        ngx.sleep(exptime + 2 * TICK)
        local is_over = ngx.now() - stored_at > exptime + ROUNDING
        if compare(name, key, exptime, apart, "later") or is_over and is_there(theirs, key) then
            say("differs", "there later", name, exptime)
        end
    else
        ngx.sleep(exptime)
        if compare(name, key, exptime, apart, "after it") then
            say("late", name, exptime)
        end
    end
end


-- Also compares times that are too long for a sleep, up to 10^10 s. They begin at 1 ms, because for the original, less
-- means that the value never expires.
local function compare_long_times()
    for digits = -2, 10 do
        for _ = 1, 50 do
            local exptime = math.min(TICK + random() * 10 ^ digits, 1e10)
            theirs:set("long", 1, exptime)
            ours:set("long", 1, exptime)
            if theirs:ttl("long") ~= ours:ttl("long") then
                say("differs", "ttl of", ("%.17g"):format(exptime), theirs:ttl("long"), ours:ttl("long"))
            end
        end
    end
    return 13 * 50
end


-- A lease counts from its grant, however far the loop's clock is behind.
local function hold(number)
    local resty_lock = require "resty.lock"
    local lock, other = resty_lock:new("side_by_side_time"), resty_lock:new("side_by_side_time")
    local key = "lock " .. number
    for _ = 1, ROUNDS do
        local exptime = random(1, 10) / 1000
        if random(20) == 1 then
            compute(random() * 0.01)
        end
        local taken = now()
        assert(lock:lock(key, { exptime = exptime }))
        while not other:trylock(key, { exptime = 0.001 }) do
            ngx.sleep(random() < 0.5 and exptime or TICK)
        end
        local held = now() - taken
        if held < exptime then
            say("early", held, exptime)
        end
        lock:unlock()
        other:unlock()
    end
end


worker.run(function ()
    math.randomseed(tonumber(os.getenv("HOLDFAST_SPEC_SEED")))
    theirs = ngx.shared.side_by_side_time
    ours = assert(shdict.open("side_by_side_time", { size = "4m", persist = false }))
    say("times", compare_long_times())
    worker.in_threads(THREADS, function (number)
        for _ = 1, ROUNDS do
            one_round("key " .. number)
        end
    end)
    say("rounds", THREADS * ROUNDS)
    worker.in_threads(20, hold)
    say("leases", 20 * ROUNDS)
end)
