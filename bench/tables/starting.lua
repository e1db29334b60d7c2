-- The time that a program takes from its start to its end, with and without locks.

local clock, process, report, stats = require "bench.support" ("clock", "process", "report", "stats")
local ffi = require "ffi"

local C = ffi.C

ffi.cdef [[
extern char **environ;
int posix_spawnp(int *pid, const char *file, const void *actions, const void *attributes, const char *const arguments[],
                 char **environment);
int waitpid(int pid, int *status, int options);
]]

local ROUNDS, QUICK_ROUNDS = 101, 11
local DICTIONARY = "bench_sync"
local REQUIRE = 'local resty_lock = require "resty.lock"'

-- Returns the programs: each has a name, the words of its command, and its target in milliseconds.
local function programs(context)
    local command = context.build .. "/holdfast"
    local list = {
        { "luajit", { "luajit", "-e", "" } },
        { 'luajit, require "resty.lock"', { "luajit", "-e", REQUIRE }, 4 },
        { "luajit, one open dictionary",
          { "luajit", "-e", ('%s assert(resty_lock:new("%s"))'):format(REQUIRE, DICTIONARY) }, 5 },
        { "flock FILE true", { "flock", context.folder .. "/flock", "true" } },
    }
    if process.output("test -x " .. process.quote(command) .. " && echo there") ~= "" then
        list[#list + 1] = { "holdfast lock KEY true", { command, "lock", "bench", "true" }, 4 }
    end
    return list
end


-- Returns the milliseconds.
local function time(words)
    local arguments = ffi.new("const char *[?]", #words + 1, words)
    arguments[#words] = nil
    local pid, status = ffi.new("int[1]"), ffi.new("int[1]")
    local start = clock.now()
    assert(C.posix_spawnp(pid, words[1], nil, nil, arguments, C.environ) == 0, "cannot start " .. words[1])
    C.waitpid(pid[0], status, 0)
    local elapsed = clock.now() - start
    assert(status[0] == 0, words[1] .. " failed")
    return elapsed * 1000
end


local _M = {}


function _M.make(context)
    assert(require("resty.shdict").open(DICTIONARY, { size = "100k", persist = false }))
    local list = programs(context)
    local times = stats.map(list, function () return {} end)
    for round = 1, context.quick and QUICK_ROUNDS or ROUNDS do
        for i, program in ipairs(list) do
            times[i][round] = time(program[2])
        end
    end
    local rows = {}
    for i, program in ipairs(list) do
        local median, target = stats.median(times[i]), program[3]
        rows[i] = { program[1], report.digits(median) .. " ms",
                    report.digits(stats.percentile(times[i], 0)) .. " ms",
                    target and "<= " .. target .. " ms" or report.NONE,
                    target and report.distance(median, target) or report.NONE }
    end
    return {
        title = "Starting a program",
        headings = { "program", "median", "minimum", "target", "distance" },
        rows = rows,
        note = "The time from the start of the process to its end; the programs take turns.",
    }
end


return _M
