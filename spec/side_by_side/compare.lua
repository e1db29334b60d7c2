-- Runs in a worker of nginx. Makes each call in each state of the key, both to ngx.shared and to resty.shdict. Prints
-- lines of words that are separated by tabs. A line begins with "differs", followed by the state, the call, its
-- arguments, and the results and the content of the original and of ours; with "cases", followed by their number; or
-- with "rule", followed by the number of differences that the rule explains, and its reason.

local pack = require "spec.support.pack"
local shdict = require "resty.shdict"
local worker = require "spec.side_by_side.worker"

local ngx = ngx  -- luacheck: ignore 113
local say, show, show_all = worker.say, worker.show, worker.show_all

local PAIRS = 30 -- the number of pairs of dictionaries; entries expire in all pairs at the same time
local PAUSE = 0.012

-- The states before a call. The third field tells whether the key must expire first.
local STATES = {
    { "nothing", function () end },
    { "a number", function (dict) dict:set("key", 41) end },
    { "a string", function (dict) dict:set("key", "a string") end },
    { "true with flags", function (dict) dict:set("key", true, 0, 5) end },
    { "a string that will expire", function (dict) dict:set("key", "text", 50, 3) end },
    { "what was deleted", function (dict) dict:set("key", 1) dict:delete("key") end },
    { "what was flushed", function (dict) dict:set("key", 1) dict:flush_all() end },
    { "a list", function (dict) dict:rpush("key", "first") dict:rpush("key", 2) end },
    { "forty keys", function (dict) for i = 1, 40 do dict:set("key" .. i, i) end end },
    { "a number that has expired", function (dict) dict:set("key", 41, 0.001, 3) end, true },
    { "a string that has expired", function (dict) dict:set("key", "12345678", 0.001) end, true },
    { "a list that has expired", function (dict) dict:rpush("key", 1) dict:expire("key", 0.001) end, true },
}


-- Returns a time in seconds, rounded so that the clocks of both sides agree. Both clocks stand still while a call is
-- compared, but the original's milliseconds do not begin at the same moment as ours. No time that is set here is near a
-- point at which the rounded value changes.
local function round(seconds)
    if seconds and seconds < 0 then
        return "negative"
    end
    return seconds and math.floor((seconds + 0.15) / 0.4) * 0.4
end


local function results_of(dict, call)
    local receiver = dict
    if call.wrong_receiver then
        receiver = call.receiver
    end
    local results = pack(pcall(dict[call.method], receiver, unpack(call, 1, call.n)))
    results[1] = results[1] and "returned" or "raised"
    if results[1] == "raised" then
        results[2] = tostring(results[2]):gsub("^[^ :]*:%d+: ", "")
    elseif call.method == "ttl" then
        results[2] = round(results[2])
    elseif type(results[2]) == "table" then
        table.sort(results[2])
    end
    return results
end


local function elements(dict, key)
    local values = {}
    for i = 1, dict:llen(key) do
        values[i] = dict:lpop(key)
    end
    return values
end


-- Returns the content of the dictionary, and empties its lists.
local function content_of(dict)
    local words = {}
    local keys = dict:get_keys()
    table.sort(keys)
    for i, key in ipairs(keys) do
        local ttl = round(dict:ttl(key))
        local value, flags = dict:get(key)
        if flags == "value is a list" then
            value = elements(dict, key)
        end
        words[i] = ("%s=%s flags %s ttl %s"):format(show(key), show(value), show(flags), show(ttl))
    end
    return table.concat(words, "; ")
end


local function same(ours, theirs)
    if ours.content ~= theirs.content then
        return false
    end
    local mine, original = show_all(ours.results), show_all(theirs.results)
    -- Our message begins with the original's message, and may be longer.
    return mine == original or theirs.results[1] == "raised" and ours.results[1] == "raised"
        and ours.results[2]:sub(1, #theirs.results[2]) == theirs.results[2]
end


local function judge(case, rules)
    if same(case.ours, case.theirs) then
        return
    end
    for _, rule in ipairs(rules) do
        if rule.explains(case) then
            rule.count = rule.count + 1
            return
        end
    end
    local call = case.call
    say("differs", case.state, (call.wrong_receiver and show(call.receiver) .. "." or "dict:") .. call.method,
        show_all(call), show_all(case.theirs.results), case.theirs.content, show_all(case.ours.results),
        case.ours.content)
end


local function run(dict, call)
    return { results = results_of(dict, call), content = content_of(dict) }
end


local function prepare(dict, state)
    dict:flush_all()
    dict:flush_expired()
    state[2](dict)
end


-- Runs the calls `first` to `last` in a state, each in a new pair of dictionaries.
local function run_some(pairs_, state, calls, first, last, rules)
    for i = first, last do
        local pair = pairs_[i - first + 1]
        prepare(pair.ours, state)
        prepare(pair.theirs, state)
    end
    if state[3] then
        ngx.sleep(PAUSE)
    end
    ngx.update_time()
    for i = first, last do
        local pair, call = pairs_[i - first + 1], calls[i]
        judge({
            state = state[1], call = call, ours = run(pair.ours, call), theirs = run(pair.theirs, call),
        }, rules)
    end
end


local function compare()
    local calls = require "spec.side_by_side.calls" -- loaded here, where this module can create coroutines
    local rules = require "spec.side_by_side.differences"
    local pairs_ = {}
    for i = 1, PAIRS do
        local name = "side_by_side_" .. i
        pairs_[i] = { ours = assert(shdict.open(name, { size = "256k", persist = false })), theirs = ngx.shared[name] }
    end
    for _, state in ipairs(STATES) do
        for first = 1, #calls, PAIRS do
            run_some(pairs_, state, calls, first, math.min(first + PAIRS - 1, #calls), rules)
        end
    end
    say("cases", #STATES * #calls)
    for _, rule in ipairs(rules) do
        say("rule", rule.count, rule.reason)
    end
end


worker.run(compare)
