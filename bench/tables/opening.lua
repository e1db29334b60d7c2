-- Making a dictionary, beside the kernel's part of the work.

local process, report, runs, stats = require "bench.support" ("process", "report", "runs", "stats")

local NONE = report.NONE
local MEGABYTE = 1024 * 1024
local TARGET = 1.1

-- Name, bytes, rounds, and the target, where there is one: below, a fixed number of system calls is most of the time.
local SIZES = {
    { "12k", 12 * 1024, 20 },
    { "1m", MEGABYTE, 20 },
    { "64m", 64 * MEGABYTE, 10 },
    { "1g", 1024 * MEGABYTE, 6, TARGET },
    { "8g", 8192 * MEGABYTE, 2, TARGET },
}

local _M = {}


-- Both in the file system and in the machine's memory, with some to spare.
local function has_room(context, bytes)
    local free = process.output("df --output=avail -B1 " .. process.quote(context.folder) .. " | tail -n 1")
    local available = process.output("sed -n 's/^MemAvailable: *\\([0-9]*\\) kB$/\\1/p' /proc/meminfo")
    return (tonumber(free) or 0) > bytes * 1.5 and (tonumber(available) or 0) * 1024 > bytes * 1.5
end


local function row(context, name, bytes, rounds, target)
    local wanted = target and "<= " .. target .. "x" or NONE
    if not has_room(context, bytes) then
        return { name, "no room", NONE, NONE, NONE, wanted, NONE }
    end
    local mine, bare = {}, {}
    for round = 1, context.quick and 2 or rounds do
        local lines, err = runs.here(context, "opening", { bytes = bytes, round = round })
        local words = runs.find(lines, "opening")
        if not words then
            return { name, runs.failed(err), NONE, NONE, NONE, wanted, NONE }
        end
        mine[round], bare[round] = words[2], words[3]
    end
    local ratio, within, distance = report.ratio(stats.ratios(mine, bare), target)
    local ours, theirs = report.digits(stats.median(mine)), report.digits(stats.median(bare))
    return { name, ours .. " ms", theirs .. " ms", ratio, within, wanted, distance }
end


function _M.make(context)
    local rows = {}
    for i, size in ipairs(SIZES) do
        if not context.quick or size[2] < 1024 * MEGABYTE then
            rows[i] = row(context, unpack(size))
        end
    end
    return {
        title = "Opening a new dictionary",
        headings = { "size", "holdfast", "empty file", "ratio (middle half)", "least-most", "target", "distance" },
        rows = rows,
    }
end


return _M
