-- How well a dictionary chooses what to evict.

local keys, report, runs = require "bench.support" ("keys", "report", "runs")

local _M = {}


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- Measures how often a cache that is too small for all keys contains the requested key. The caches are the dictionaries
-- of the sides and, for comparison, other policies with as many entries as the dictionary of the first side held.

local VALUES = {
    bench_ratio = ("v"):rep(100),
    bench_words = ("v"):rep(200),
}


-- Caches in plain Lua that hold a fixed number of keys, for comparison. Each cache is a function (key) that stores the
-- key and returns whether the key was already there.
local policies = {}


-- Evicts exactly the least recently used key. The keys form a linked ring that begins and ends at key 0.
function policies.lru(capacity)
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


-- Evicts the oldest key.
function policies.fifo(capacity)
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


local function key_names(count)
    local names = {}
    for i = 1, count do
        names[i] = ("k%08d"):format(i)
    end
    return names
end


-- Returns the share of hits, in percent.
local function replay(requests, ask)
    local hits = 0
    for i = 1, #requests do
        if ask(requests[i]) then
            hits = hits + 1
        end
    end
    return hits / #requests * 100
end


local function from_dictionary(dict, names, value)
    return function (number)
        local name = names[number]
        if dict:get(name) then
            return true
        end
        local ok, err = dict:set(name, value)
        if not ok and err ~= "no memory" then -- which only means that the key is not stored
            error("set: " .. tostring(err))
        end
        return false
    end
end


-- Returns a dictionary that looks as if it had never been used.
local function emptied(side, name)
    local dict = side.dict(name)
    dict:flush_all()
    dict:flush_expired()
    return dict
end


local function compare(host, trace, family, size)
    local names, value = key_names(trace.keys), VALUES[family]
    local name = family .. "_" .. size
    local held
    for i, side in ipairs(host.sides) do
        local dict = emptied(side, name)
        local ratio = replay(trace.requests, from_dictionary(dict, names, value))
        if i == 1 then
            held = #dict:get_keys(0)
        end
        host.emit("ratio", trace.what, size, side.name, ratio, dict:capacity(), #dict:get_keys(0))
    end
    for policy, cache in pairs(policies) do
        host.emit("ratio", trace.what, size, policy, replay(trace.requests, cache(held)), 0, held)
    end
end


local function compare_sizes(host, options, trace, family)
    for _, size in ipairs { 5, 10, 25 } do
        if size == 10 or not options.quick then
            compare(host, trace, family, size)
        end
    end
end


function _M.run(host, options)
    local length = options.requests
    compare_sizes(host, options, keys.zipf(0.99, length), "bench_ratio")
    compare_sizes(host, options, keys.zipf(0.8, length), "bench_ratio")
    compare_sizes(host, options, keys.scans(length), "bench_ratio")
    local words = keys.words()
    if words then
        compare_sizes(host, options, words, "bench_words")
    end
end


-- --- the table ----------------------------------------------------------------------------------------------

local NONE = report.NONE


-- Groups the lines, in order, by trace and size.
local function group(lines)
    local groups, by_name = {}, {}
    for _, words in ipairs(lines) do
        if words[1] == "ratio" then
            local name = words[2] .. " " .. words[3]
            if not by_name[name] then
                by_name[name] = { trace = words[2], share = words[3] }
                groups[#groups + 1] = by_name[name]
            end
            by_name[name][words[4]] = { ratio = words[5], held = words[7] }
        end
    end
    return groups
end


local function percent(measured, why_not)
    return measured and ("%.2f %%"):format(measured.ratio) or why_not or NONE
end


local function row(found, why_not)
    local mine, lru, peer = found.holdfast, found.lru, found["ngx.shared"]
    local more = mine.ratio - lru.ratio
    return {
        ("%s, %d %%"):format(found.trace, found.share), ("%d"):format(mine.held), percent(mine), percent(lru),
        percent(found.fifo), percent(peer, why_not), peer and ("%d"):format(peer.held) or NONE,
        ("%s: %+.2f"):format(more >= 0 and "met" or "missed", more),
    }
end


function _M.make(context)
    local told = { requests = context.quick and 100000 or 1000000, quick = context.quick and 1 or nil }
    local lines, err
    if context.nginx then
        lines, err = runs.in_nginx(context, "bench/tables/hit_ratio", told)
    else
        lines, err = runs.here(context, "bench/tables/hit_ratio", told)
    end
    local rows = {}
    for i, found in ipairs(group(lines or {})) do
        rows[i] = row(found, context.why_not)
    end
    if not lines then
        rows[1] = { runs.failed(err), NONE, NONE, NONE, NONE, NONE, NONE, NONE }
    end
    return {
        title = "Hits, with room for a share of all keys",
        headings = { "requests, room", "entries", "holdfast", "exact LRU", "FIFO", "ngx.shared", "entries",
                     "at least LRU" },
        rows = rows,
        note = "LRU and FIFO hold as many entries as holdfast did; ngx.shared has the same memory.",
    }
end


return _M
