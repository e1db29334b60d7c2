-- Runs all cases as parts of one program, for one side. Each case has several call sites, each with its own objects and
-- many keys. The cases alternate in a random order, and all of them are compiled in one Lua state.

local clock, keys, program, sides = require "bench.support" ("clock", "keys", "program", "sides")
local cases = require "bench.cases"

local CALL_SITES = 8
local KEYS = 500
-- The number of steps of each call site between two checks of the clock.
local EACH = 25
local BLOCKS, WARM_UP, QUICK_BLOCKS = 200, 100, 3

local _M = {}


-- Shuffles a list differently on each call.
local function shuffle(list)
    for i = #list, 2, -1 do
        local j = math.random(i)
        list[i], list[j] = list[j], list[i]
    end
end


local function keys_of(case, number)
    if case.keys then
        return keys.shuffled(case.keys)
    end
    local list = {}
    for i = 1, KEYS do
        list[i] = ("%s%08d"):format(string.char(96 + number), i)
    end
    return list
end


local function make(case, number, side)
    local found = { case = case, keys = keys_of(case, number), each = case.each or EACH, at = 0, steps = 0, time = 0,
                    sites = {} }
    local prepare = program.preparation(case, side)
    if case.prepare then
        for i = 1, #found.keys do
            prepare(found.keys[i * 7919 % #found.keys + 1], i)
        end
    end
    found.prepared = prepare -- keeps the objects of the function
    found.run = program.caller(case)
    for i = 1, CALL_SITES do
        found.sites[i] = program.call_site(case, side)
    end
    return found
end


local function measure(all, blocks)
    for _ = 1, blocks do
        shuffle(all)
        for _, this in ipairs(all) do
            local start = clock.cpu()
            this.run(this)
            this.time = this.time + clock.cpu() - start
            this.steps = this.steps + this.each * CALL_SITES
        end
    end
end


-- The locks of the operating system have no objects and no keys, so they take part only in the case lock_unlock. Their
-- mix uses holdfast's dictionary.
local function takes_part(case, side, mix)
    local own_mix = case.mix == nil and "hot" or case.mix
    return own_mix == mix and (not case.lock or not side.system or case.name == "lock_unlock")
end


-- Returns the cases of a mix, after a number of blocks. Each is a table with the fields case, run, each and sites.
function _M.warm(side, mix, blocks)
    local all = {}
    for number, case in ipairs(cases) do
        if takes_part(case, side, mix) then
            all[#all + 1] = make(case, number, side)
        end
    end
    measure(all, blocks)
    return all
end


-- options.mix is "hot" or "many", as in bench/cases.lua.
function _M.run(host, options)
    local side = sides.chosen(host, options)
    math.randomseed(os.time())
    local all = _M.warm(side, options.mix, options.quick and 1 or WARM_UP)
    for _, this in ipairs(all) do
        this.time, this.steps = 0, 0
    end
    measure(all, options.quick and QUICK_BLOCKS or BLOCKS)
    for _, this in ipairs(all) do
        host.emit("mixed", this.case.name, side.name,
                  this.time * 1e9 / (this.steps * (this.case.per and this.case.per[2] or 1)))
    end
end


return _M
