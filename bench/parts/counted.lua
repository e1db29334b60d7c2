-- Runs a case alone, or a mix, for a counter of instructions. Calls getppid() before and after each block that is to be
-- counted, and emits a line with the case's name and the number of operations in the block. Some blocks contain more
-- than operations, because LuaJIT compiles rare paths late.

local mixed, program, sides = require "bench.parts.mixed", require "bench.support" ("program", "sides")
local cases = require "bench.cases"
local ffi = require "ffi"

local C = ffi.C

ffi.cdef "int getppid(void);"

-- LuaJIT compiles a path that is taken once in 1,024 locks only after ten times. In a process whose clock stands still,
-- the library stops checking for how long locks were held after 8,192 checks (kLooks in src/dict/statistics.h).
local WARM_UP, ROUNDS = 20, 30
-- The same for a mix, in which a block runs a case several times.
local MIX_WARM_UP, BLOCKS, TIMES = 40, 7, 4

-- Operations for which no other side exists. The fields are those of bench/cases.lua. get_bulk of a cache is missing,
-- because its garbage changes the count by 2 % when anything moves in memory.
local MORE = {
    { name = "cache_hit", what = "cache: get, a hit", dict = "bench_hot",
      before = 'local hits = assert(require("resty.holdfast.cache").new("bench", "bench_cache", { size = "1m" }))\n'
               .. "local function load() return 1 end",
      step = "assert(hits:get(KEY, nil, load))" },
    { name = "job", what = "queue: push + take + done", dict = "bench_hot",
      before = 'local queue = assert(require("resty.holdfast.queue").open("bench_queue", { size = "1m" }))',
      step = 'assert(queue:push("job"))\nassert(queue:take(0)):done()' },
}

local _M = {}


-- Returns the cases to count: the cases with few keys, one with a thousand keys, and MORE.
function _M.cases()
    local counted = {}
    for _, case in ipairs(cases) do
        if case.name == "get_keys" then
            counted[#counted + 1] = setmetatable({ what = "get_keys, 1,000 keys, per key", dict = case.mixed_dict,
                                                   per = { case.per[2] }, steps = 20 }, { __index = case })
        elseif case.mix == nil then
            counted[#counted + 1] = case
        end
    end
    for _, case in ipairs(MORE) do
        counted[#counted + 1] = case
    end
    return counted
end


local function find(name)
    for _, case in ipairs(_M.cases()) do
        if case.name == name then
            return case
        end
    end
end


local function count_alone(host, case, side)
    local calls = 0
    local function clock()
        calls = calls + 1
        if calls > 2 * WARM_UP then
            C.getppid()
        end
        return 0
    end
    local text, steps = program.alone(case, side.name, side.locks, sides.SIZES, ROUNDS)
    assert(loadstring("local print, os = ... " .. text, case.name))(function () end, { clock = clock })
    for _ = WARM_UP + 1, ROUNDS do
        host.emit("counted", case.name, steps * (case.per and case.per[1] or 1))
    end
end


local function count_mix(host, mix, side)
    for _, this in ipairs(mixed.warm(side, mix, MIX_WARM_UP)) do
        for _ = 1, BLOCKS do
            collectgarbage()
            C.getppid()
            for _ = 1, TIMES do
                this.run(this)
            end
            C.getppid()
            host.emit("counted", this.case.name, TIMES * this.each * #this.sites)
        end
    end
end


-- options.case is the name of a case to run alone; otherwise, options.mix is the name of a mix.
function _M.run(host, options)
    local side = host.sides[1]
    if options.case then
        count_alone(host, find(options.case), side)
    else
        count_mix(host, options.mix, side)
    end
end


return _M
