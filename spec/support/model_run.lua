-- A dictionary and its model, driven by random calls that are the same for the same seed. In an exact run nothing may
-- be missing. Where the dictionary is too small, what is missing must have been evicted; what is there must be right.

local model, names_of, pack = require "spec.support" ("model", "names", "pack")
local core = require "resty.holdfast.core"
local sleep = require("resty.holdfast.host.none").sleep

local C = core.C
local is_live = model.is_live
local ops = model.ops
local random = math.random

local LIST_MAX = 30

-- Those that answer "no memory" where live entries would have to go.
local SPARING = { safe_set = true, safe_add = true, lpush = true, rpush = true }

local Run = {}
Run.__index = Run


local function any(list)
    return list[random(#list)]
end


local function a_string()
    local size = random(20) == 1 and random(0, 3000) or random(0, 40)
    return string.char(random(0, 255)):rep(size)
end


local function a_value()
    local kind = random(8)
    if kind <= 3 then
        return random(-100, 100)
    elseif kind == 4 then
        return random(2) == 1
    end
    return a_string()
end


local function an_exptime()
    local kind = random(10)
    return kind == 1 and random() * 0.1 or kind == 2 and 1000 or kind == 3 and 0 or nil
end


local function some_flags()
    return random(4) == 1 and random(0, 5) or nil
end


-- Arguments after the key. What the model has there makes comparisons and lists meet often enough.
local MAKE = {
    get = function () end,
    get_stale = function () end,
    set = function () return a_value(), an_exptime(), some_flags() end,
    safe_set = function () return a_value(), an_exptime(), some_flags() end,
    add = function () return a_value(), an_exptime(), some_flags() end,
    safe_add = function () return a_value(), an_exptime(), some_flags() end,
    replace = function () return a_value(), an_exptime(), some_flags() end,
    delete = function () end,
    cas = function (entry)
        local old
        if random(4) > 1 and entry then
            old = entry.value
        elseif random(2) == 1 then
            old = a_value()
        end
        if random(6) == 1 then
            return old, nil
        end
        return old, a_value(), an_exptime(), some_flags()
    end,
    incr = function ()
        if random(3) == 1 then
            return random(-3, 3)
        end
        return random(-3, 3), random(0, 10), an_exptime()
    end,
    ttl = function () end,
    expire = function () return an_exptime() or 0 end,
    lpush = function () return random(2) == 1 and random(100) or a_string() end,
    rpush = function () return random(2) == 1 and random(100) or a_string() end,
    lpop = function () end,
    rpop = function () end,
    llen = function () end,
}

local METHODS = names_of(MAKE)


-- options: dict, exact, prefix (of its keys), keys (their number), seed, alone (no other uses the dictionary).
function Run.new(options)
    math.randomseed(options.seed)
    return setmetatable({
        dict = options.dict,
        exact = options.exact,
        alone = options.alone,
        prefix = options.prefix or "",
        keys = options.keys,
        seed = options.seed,
        entries = {},  -- by key; what has expired stays until something else takes its place
        gone = 0,      -- entries that were missing
        calls = 0,
    }, Run)
end


local function show(values)
    local words = {}
    for i = 1, values.n do
        local value = values[i]
        words[i] = type(value) == "string" and #value > 50 and #value .. " bytes" or ("%q"):format(tostring(value))
    end
    return table.concat(words, ", ")
end


function Run:fail(method, key, arguments, expected, results)
    error(("seed %d, call %d: %s(%s, %s): expected %s, got %s"):format(
        self.seed, self.calls, method, key, show(arguments), show(expected), show(results)), 0)
end


-- An exptime of ten seconds or more counts from the last tick of the system's clock, which may be a second old.
local TICK = 1

-- `forcible` is not the model's business.
local function same(method, expected, results, time, entry)
    if method == "ttl" and expected[1] == "some" then
        local left = results[1]
        return results.n == 1 and type(left) == "number" and left > 0
            and left <= entry.ends_before - time.before + 0.001
            and left >= entry.ends_after - time.after - (left > 5 and TICK or 0) - 0.001
    end
    if expected.n ~= results.n then
        return false
    end
    for i = 1, expected.n do
        if expected[i] ~= results[i] and not (i == 3 and expected[i] == false and results[i] == true
                                              and method ~= "get_stale") then
            return false
        end
    end
    return true
end


-- What has expired may be found by get_stale, or be gone.
local function is_stale_of(entry, results)
    if entry.list then
        return results.n == 2 and results[1] == nil and results[2] == "value is a list"
    end
    return results.n == 3 and results[1] == entry.value and results[2] == entry.flags and results[3] == true
end


local function has_been_over(entry, results, time)
    local left = results[1]
    return results.n == 1 and type(left) == "number" and left < 0
        and left <= entry.ends_before - time.before + 0.001 and left >= entry.ends_after - time.after - 0.001
end


-- Whether a sum does not tell if it comes from the entry or, as that was evicted, from the initial value.
local function is_ambiguous(method, entry, results, time, arguments)
    return method == "incr" and arguments[2]
        and same(method, ops.incr(nil, time, unpack(arguments, 1, arguments.n)), results, time, entry)
end


function Run:judge(method, key, arguments, results, time)
    local entry = self.entries[key]
    local live = entry and is_live(entry, time.before, time.after)
    if entry and live == nil  -- it ended about now
        or live and not self.exact and is_ambiguous(method, entry, results, time, arguments) then
        self.dict:delete(key)  -- to begin anew
        self.entries[key] = nil
        return
    end
    if entry and not live and (method == "get_stale" and is_stale_of(entry, results)
                               or method == "ttl" and has_been_over(entry, results, time)) then
        return
    end

    local expected, after = ops[method](live and entry or nil, time, unpack(arguments, 1, arguments.n))
    if not same(method, expected, results, time, entry) then
        if self.exact then
            self:fail(method, key, arguments, expected, results)
        end
        if SPARING[method] and results[2] == "no memory" then
            return
        end
        local with_it = expected
        expected, after = ops[method](nil, time, unpack(arguments, 1, arguments.n))
        if not live or not same(method, expected, results, time, entry) then
            self:fail(method, key, arguments, with_it, results)
        end
        self.gone = self.gone + 1
    end
    if after or live or method == "delete" or method:find("set$") then
        self.entries[key] = after
    end
end


-- A call says truly whether it evicted others.
function Run:check_forcible(before, results)
    local evicted = self.dict:stats().evictions - before
    if (results[3] == true) ~= (evicted > 0) then
        error(("seed %d, call %d: forcible is %s after %d evictions"):format(
            self.seed, self.calls, tostring(results[3]), evicted), 0)
    end
end

local FORCING = { set = true, add = true, replace = true, cas = true, safe_set = true, safe_add = true }


function Run:step()
    self.calls = self.calls + 1
    local key = self.prefix .. random(self.keys)
    local method = any(METHODS)
    local entry = self.entries[key]
    if entry and entry.list and #entry.list >= LIST_MAX and method:find("push") then
        method = "lpop"
    end
    local arguments = pack(MAKE[method](entry))
    local dict = self.dict
    local checked = self.alone and FORCING[method] and self.calls % 64 == 0 and dict:stats().evictions
    local before = C.holdfast_now()
    local results
    repeat  -- on a machine that stalls, another process may be inside for longer than a call waits
        results = pack(dict[method](dict, key, unpack(arguments, 1, arguments.n)))
    until results[2] ~= "timeout" or C.holdfast_now() - before > 30
    local after = C.holdfast_now()
    if checked then
        self:check_forcible(checked, results)
    end
    self:judge(method, key, arguments, results, { before = before, after = after })
end


-- What concerns all keys; for a run that is alone.
function Run:flush()
    self.dict:flush_all()
    for key, entry in pairs(self.entries) do
        self.entries[key] = model.flushed(entry)
    end
    if random(2) == 1 then
        self.dict:flush_expired()
    end
end


function Run:steps(count)
    for i = 1, count do
        self:step()
        if self.alone and i % 100000 == 50000 then
            self:flush()
        elseif i % 1000 == 0 then
            self.dict:flush_expired(random(0, 20))
        end
    end
end


local function sorted(keys)
    table.sort(keys)
    return keys
end


function Run:scanned(count)
    local seen, keys, cursor, steps = {}, {}, 0, 0
    repeat
        steps = steps + 1
        assert(steps < 1000000, "scan does not end")
        local some
        cursor, some = self.dict:scan(cursor, count, self.prefix)
        for _, key in ipairs(some) do
            assert(not seen[key], "scan gives a key twice")
            seen[key] = true
            keys[#keys + 1] = key
        end
    until cursor == 0
    return sorted(keys)
end


function Run:listed()
    local keys = {}
    for _, key in ipairs(self.dict:get_keys(0)) do
        if key:sub(1, #self.prefix) == self.prefix then
            keys[#keys + 1] = key
        end
    end
    return sorted(keys)
end


-- At rest: scan, get_keys and the model have the same keys, but for those that were evicted. `evicted` is how many.
function Run:compare_keys()
    sleep(0.15)  -- until those that were to live for a moment are over
    local listed = self:listed()
    for _, count in ipairs { 1, 10, 100000 } do
        local scanned = self:scanned(count)
        assert(table.concat(scanned, " ") == table.concat(listed, " "), "scan and get_keys differ")
    end
    local now = C.holdfast_now()
    local there = {}
    for _, key in ipairs(listed) do
        there[key] = true
        local entry = self.entries[key]
        assert(entry and is_live(entry, now, now), "a key that the model does not have: " .. key)
    end
    for key, entry in pairs(self.entries) do
        if is_live(entry, now, now) and not there[key] then
            self.gone = self.gone + 1
        end
    end
    assert(not self.exact or self.gone == 0, "keys of the model are missing")
    return #listed
end


return Run
