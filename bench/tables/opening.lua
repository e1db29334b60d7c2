-- Making a dictionary, beside the kernel's part of the work.

local process, report, runs, stats = require "bench.support" ("process", "report", "runs", "stats")

local NONE = report.NONE
local MEGABYTE = 1024 * 1024
local TARGET = 5

-- Name, bytes, rounds, and the target of 1 GB and more: milliseconds of the call.
local SIZES = {
    { "12k", 12 * 1024, 20 },
    { "1m", MEGABYTE, 20 },
    { "64m", 64 * MEGABYTE, 10 },
    { "1g", 1024 * MEGABYTE, 9, TARGET },
    { "8g", 8192 * MEGABYTE, 2, TARGET },
}
-- Where the values of a round stand in its line.
local WALL, CPU, FIRST, MEMORY, BARE_WALL = 2, 3, 4, 5, 6

local _M = {}


-- Both in the file system and in the machine's memory, with some to spare.
local function has_room(context, bytes)
    local free = process.output("df --output=avail -B1 " .. process.quote(context.folder) .. " | tail -n 1")
    local available = process.output("sed -n 's/^MemAvailable: *\\([0-9]*\\) kB$/\\1/p' /proc/meminfo")
    return (tonumber(free) or 0) > bytes * 1.5 and (tonumber(available) or 0) * 1024 > bytes * 1.5
end


-- "1.2 ms (1.1)": the median, and the least.
local function milliseconds(times)
    return ("%s ms (%s)"):format(report.digits(stats.median(times)), report.digits(stats.percentile(times, 0)))
end


local function row(context, name, bytes, rounds, target)
    local wanted = target and "<= " .. target .. " ms" or NONE
    if not has_room(context, bytes) then
        return { name, "no room", NONE, NONE, NONE, NONE, wanted, NONE }
    end
    local lists = {}
    for round = 1, context.quick and 2 or rounds do
        local lines, err = runs.here(context, "opening", { bytes = bytes, round = round })
        local words = runs.find(lines, "opening")
        if not words then
            return { name, runs.failed(err), NONE, NONE, NONE, NONE, wanted, NONE }
        end
        for place = WALL, #words do
            lists[place] = lists[place] or {}
            table.insert(lists[place], words[place])
        end
    end
    return { name, milliseconds(lists[WALL]), report.digits(stats.median(lists[CPU])) .. " ms",
             report.digits(stats.median(lists[FIRST]) * 1000) .. " µs",
             ("%.0f %%"):format(stats.median(lists[MEMORY]) / bytes * 100), milliseconds(lists[BARE_WALL]), wanted,
             target and report.distance(stats.median(lists[WALL]), target) or NONE }
end


function _M.make(context)
    local rows = {}
    for _, size in ipairs(SIZES) do
        if not context.quick or size[2] < 1024 * MEGABYTE then
            rows[#rows + 1] = row(context, unpack(size))
        end
    end
    return {
        title = "Opening a new dictionary",
        headings = { "size", "open, in the caller", "of it on a processor", "first set", "memory taken then",
                     "an empty file, reserved", "target", "distance" },
        rows = rows,
        note = "The median (and the least) of the rounds, each in a process of its own.",
    }
end


return _M
