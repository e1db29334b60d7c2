-- Runs in a worker of nginx. Makes a sequence of random calls both to ngx.shared and to resty.shdict, without expiry
-- and eviction. For the first call whose results differ, prints "differs", the number of the call, the call, the
-- original's results and ours. Then prints "calls" and their number.

local names_of, pack = require "spec.support" ("names", "pack")
local shdict = require "resty.shdict"
local worker = require "spec.side_by_side.worker"

local ngx = ngx  -- luacheck: ignore 113
local random = math.random

local CALLS = 200000
local KEYS = 40


local function any(list)
    return list[random(#list)]
end


local function value()
    local kind = random(6)
    if kind == 1 then
        return random(-100, 100)
    elseif kind == 2 then
        return random() * 1e6
    elseif kind == 3 then
        return random(2) == 1
    end
    return any({ "a", "b", "\0", "" }):rep(random(0, random(2) == 1 and 10 or 3000))
end


local function element()
    return random(2) == 1 and random(1000) or ("e"):rep(random(0, 100))
end


-- The arguments after the key, indexed by method.
local ARGUMENTS = {
    get = function () end,
    get_stale = function () end,
    set = function () return value(), any { 0, 100 }, any { 0, 1, 77 } end,
    safe_set = value,
    add = value,
    safe_add = function () return value(), 1000, 3 end,
    replace = value,
    delete = function () end,
    incr = function () return random(-5, 5), any { false, 0, 10 }, nil end,
    expire = function () return any { 0, 1000 } end,
    lpush = element,
    rpush = element,
    lpop = function () end,
    rpop = function () end,
    llen = function () end,
}

local METHODS = names_of(ARGUMENTS)


-- Returns a random call. Lists grow, so a few calls delete them.
local function next_call()
    local method = any(METHODS)
    return method, pack("key " .. random(KEYS), ARGUMENTS[method]())
end


local function keys_of(dict)
    local keys = dict:get_keys(0)
    table.sort(keys)
    return table.concat(keys, " ")
end


worker.run(function ()
    math.randomseed(tonumber(os.getenv("HOLDFAST_SPEC_SEED")))
    local theirs = ngx.shared.side_by_side
    local ours = assert(shdict.open("side_by_side", { size = "8m", persist = false }))
    for i = 1, CALLS do
        local method, arguments = next_call()
        local original = worker.show_all(pack(theirs[method](theirs, unpack(arguments, 1, arguments.n))))
        local mine = worker.show_all(pack(ours[method](ours, unpack(arguments, 1, arguments.n))))
        if original ~= mine or i % 1000 == 0 and keys_of(theirs) ~= keys_of(ours) then
            worker.say("differs", i, method, worker.show_all(arguments), original, mine)
            break
        end
    end
    worker.say("calls", CALLS)
end)
