-- On what was measured: everything that numbers depend on, and nothing that names the machine.

local process = require "bench.support.process"

local output = process.output

local _M = {}


local function compiler(build)
    local path = output("sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' " .. process.quote(build .. "/CMakeCache.txt"))
    if path == "" then
        return "unknown"
    end
    local kind = output("sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' " .. process.quote(build .. "/CMakeCache.txt"))
    return output(process.quote(path) .. " --version | head -n 1") .. ", " .. kind
end


local function commit()
    local id = output("git rev-parse --short HEAD")
    if id == "" then
        return "unknown"
    end
    return id .. (output("git status --porcelain src lua include") ~= "" and " with changes" or "")
end


-- Runnable processes, averaged over the last minute.
function _M.load()
    return output("cut -d ' ' -f 1 /proc/loadavg")
end


-- On a machine that does other work, too, a benchmark may be given priority; then that has to be told.
local function priority()
    local niceness = output("nice")
    local policy = output("chrt -p $$ | sed -n 's/.*policy: //p'")
    return (niceness ~= "" and niceness ~= "0" and ", at niceness " .. niceness or "")
        .. (policy ~= "" and policy ~= "SCHED_OTHER" and ", at the priority of " .. policy or "")
end


-- Pairs of a name and a text, in order.
function _M.describe(build)
    return {
        { "date", os.date("!%Y-%m-%d %H:%M UTC") },
        { "holdfast", commit() },
        { "CPU", output("LC_ALL=C lscpu | sed -n 's/^Model name: *//p' | head -n 1") .. ", " .. output("nproc")
                 .. " cores" },
        { "kernel", output("uname -srm") .. priority() },
        { "compiler", compiler(build) },
        { "LuaJIT", output("luajit -v | sed 's/ -- .*//'") },
    }
end


return _M
