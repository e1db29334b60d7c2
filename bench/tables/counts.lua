-- Counts what one operation does to shared memory, and derives a limit for many cores.

local process, report, runs = require "bench.support" ("process", "report", "runs")

local NONE = report.NONE
-- How long the transfer of a cache line that another core has changed takes, in seconds, within one socket of a large
-- machine or between two sockets.
local TRANSFER = 100e-9
-- The exit status of bench/count/operations.c if it does not support this processor.
local UNKNOWN = "77"

local _M = {}


-- Returns the output of bench/count/operations.c and its exit status.
local function count(context)
    local program = process.quote(context.folder .. "/count")
    local build = process.quote(context.build)
    local root = process.quote(context.root)
    local compile = "cc -O1 -I" .. root .. "/include -o " .. program .. " " .. root .. "/bench/count/operations.c -L"
                    .. build .. " -lholdfast"
    local out = process.output(compile .. " && LD_LIBRARY_PATH=" .. build .. " " .. program .. "; echo status $?")
    return out:match("^(.*)status (%d+)$")
end


-- Returns the limit for all cores together, which follows from the transfer of each line that other processes also
-- change.
local function bound(lines)
    return lines > 0 and report.digits(1e-6 / (lines * TRANSFER)) .. " M/s" or "none"
end


function _M.make(context)
    local rows = {}
    local text, status = count(context)
    for what, cells in text:gmatch("| (%l[^|]-) *|([^\n]+)|") do
        local numbers = {}
        for number in cells:gmatch("%d+") do
            numbers[#numbers + 1] = number
        end
        -- The headings contain no numbers.
        if numbers[3] then
            rows[#rows + 1] = { what, numbers[1], numbers[2], numbers[3], bound(tonumber(numbers[3])) }
        end
    end
    if status ~= "0" then
        rows[1] = { status == UNKNOWN and "not counted on this processor" or runs.failed("counting"), NONE, NONE, NONE,
                    NONE }
    end
    return {
        title = "Shared memory, counted",
        headings = { "operation", "atomic read-modify-writes", "lines changed", "of them, by other keys as well",
                     "bound for all cores, 100 ns a line" },
        rows = rows,
        note = "One dictionary of 1 MB, and two processes, each with its own keys.",
    }
end


return _M
