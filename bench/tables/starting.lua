-- The time that a program takes from its start to its end, with and without locks.

local clock, report, stats = require "bench.support" ("clock", "report", "stats")
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

-- The name, the source, and the target in milliseconds.
local PROGRAMS = {
    { "luajit", "" },
    { 'luajit, require "resty.lock"', REQUIRE, 4 },
    { "luajit, one open dictionary", ('%s assert(resty_lock:new("%s"))'):format(REQUIRE, DICTIONARY), 5 },
}

local _M = {}


-- Returns the milliseconds.
local function time(source)
    local arguments = ffi.new("const char *[4]", { "luajit", "-e", source })
    local pid, status = ffi.new("int[1]"), ffi.new("int[1]")
    local start = clock.now()
    assert(C.posix_spawnp(pid, "luajit", nil, nil, arguments, C.environ) == 0, "cannot start luajit")
    C.waitpid(pid[0], status, 0)
    local elapsed = clock.now() - start
    assert(status[0] == 0, "luajit failed")
    return elapsed * 1000
end


function _M.make(context)
    assert(require("resty.shdict").open(DICTIONARY, { size = "100k", persist = false }))
    local times = stats.map(PROGRAMS, function () return {} end)
    for round = 1, context.quick and QUICK_ROUNDS or ROUNDS do
        for i, program in ipairs(PROGRAMS) do
            times[i][round] = time(program[2])
        end
    end
    local rows = {}
    for i, program in ipairs(PROGRAMS) do
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
