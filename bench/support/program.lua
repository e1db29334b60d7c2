-- Turns the cases of bench/cases.lua into programs. Alone, a case is a whole program of about ten lines, like a user's
-- program; in a mix, each call site is a separate function. `bench/program` prints the whole program of a case.

local _M = {}

-- The number of rounds that the program of a case alone measures, and the number of steps in a round.
local ROUNDS = 9
local STEPS = 100000
local HOT_KEY = '"key000001"'

local OPEN = 'assert(require("resty.shdict").open("%s", { size = "%s", persist = false }))'
local OPEN_WITH_VERSIONS = OPEN:gsub("false", "false, versions = true")

-- The lines that define the lock module and the dictionary, by the side's name.
local OURS = {
    lock = 'local resty_lock = require "resty.lock"\n' .. OPEN,
    dict = "local dict = " .. OPEN,
}
local NGINX = {
    lock = 'local resty_lock = require "resty.lock"',
    dict = "local dict = ngx.shared.%s",
}
local function of_the_system(lock)
    return { lock = 'local resty_lock = require("bench.support.system_locks").' .. lock }
end
local BEGINNINGS = {
    holdfast = OURS,
    ["with versions"] = { dict = "local dict = " .. OPEN_WITH_VERSIONS },
    ["ngx.shared"] = NGINX,
    ["robust mutex"] = of_the_system("robust_mutex"),
    flock = of_the_system("flock"),
}


-- Replaces the words of a text that are keys of `words`.
local function replace(text, words)
    return (text:gsub("%f[%w_][%w_]+%f[^%w_]", words))
end


local function indent(text)
    return "        " .. text:gsub("\n", "\n        ")
end


local function loop_of(case, steps, keys, words)
    words.KEY = keys and "keys[i % " .. keys .. " + 1]" or HOT_KEY
    local step = replace(case.step, words)
    local counted = steps .. (case.per and " / " .. case.per[1] or "")
    return "for _ = 1, " .. words.ROUNDS .. " do\n"
        .. "    local start = os.clock()\n"
        .. "    for " .. (step:find("%f[%w]i%f[%W]") and "i" or "_") .. " = 1, " .. steps .. " do\n"
        .. indent(step) .. "\n"
        .. "    end\n"
        .. '    print(("%.1f ns"):format((os.clock() - start) / ' .. counted .. " * 1e9))\n"
        .. "end\n"
end


-- Returns the lines that prepare all keys. They store the entries in an order that differs from the loop's order, so
-- that entries used one after another are not adjacent in memory. 7919 is prime and divides no number of keys here, so
-- no key is left out.
local function prepare(case, keys, words)
    if not keys then
        return { replace(case.prepare, { KEY = HOT_KEY, LOCKS = words.LOCKS, i = "1" }) }
    end
    words.KEY = ("keys[i * 7919 %% %d + 1]"):format(keys)
    return { "for i = 1, " .. keys .. " do", "    " .. replace(case.prepare, words), "end" }
end


-- Returns the program of a case alone. `side` is a name of bench/support/sides.lua, `locks` the name of the side's
-- dictionary of locks, and `sizes` the sizes of the dictionaries. The program prints a line for each round, with the
-- nanoseconds per step. With `rounds`, it makes this number of rounds, with at most a thousand steps and keys. Also
-- returns the number of steps in a round.
function _M.alone(case, side, locks, sizes, rounds)
    local steps = math.min(case.steps or STEPS, rounds and 1000 or math.huge)
    local keys = case.keys and (rounds and 1000 or case.keys)
    local words = { LOCKS = ("%q"):format(locks), PER = case.per and tostring(case.per[1]),
                    ROUNDS = tostring(rounds or case.rounds or ROUNDS) }
    local beginning = BEGINNINGS[side]
    local name = case.lock and locks or case.dict
    local lines = { beginning[case.lock and "lock" or "dict"]:format(name, sizes[name]) }
    local function add(line)
        lines[#lines + 1] = line
    end
    if keys then
        add('local keys = require("bench.support.keys").shuffled(' .. keys .. ")")
    end
    if case.before then
        add(replace(case.before, words))
    end
    if case.prepare then
        for _, line in ipairs(prepare(case, keys, words)) do
            add(line)
        end
    end
    if case.object then
        add(replace(case.object, words))
    end
    add(loop_of(case, steps, keys, words))
    return table.concat(lines, "\n"), steps
end


-- --- in a mix -------------------------------------------------------------------------------------------

local function compile(case, side, words, ...)
    local text = "local resty_lock, dict = ...\n" .. replace(table.concat({ ... }, "\n"), words)
    return assert(loadstring(text, case.name))(side.lock, case.dict and side.dict(case.mixed_dict or case.dict))
end


local function words_of(case, side)
    return { KEY = "key", LOCKS = ("%q"):format(side.locks), PER = case.per and tostring(case.per[2]) }
end


-- Returns the function to call once with each key and its number.
function _M.preparation(case, side)
    return compile(case, side, words_of(case, side), case.before or "", "return function (key, i)",
                   case.prepare or "", "end")
end


-- Returns a new call site of the case: a function of a key and a number, with its own object.
function _M.call_site(case, side)
    return compile(case, side, words_of(case, side), case.object or "", "return function (key, i)", case.step, "end")
end


-- Calls a case's call sites in turn, each of them `each` times, and each time with the next key. The argument is {
-- sites =, keys =, each =, at = }.
local CALLER = [[
return function (this)
    local keys, each, at = this.keys, this.each, this.at
    local count = #keys
    for _, site in ipairs(this.sites) do
        for i = at + 1, at + each do
            site(keys[i % count + 1], i)
        end
        at = at + each
    end
    this.at = at
end
]]


-- Returns a separate caller for the case: if one loop called the sites of all cases, its compiled code would suit none
-- of them.
function _M.caller(case)
    return assert(loadstring(CALLER, "calls of " .. case.name))()
end


return _M
