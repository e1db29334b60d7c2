-- The memory that an entry takes in a full dictionary.

local report, runs, stats = require "bench.support" ("report", "runs", "stats")

local _M = {}


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- Measures how many entries a dictionary accepts before it refuses or evicts one.

-- options.bytes is the length of the stored strings; with 0, the values are numbers.
function _M.run(host, options)
    local text = ("v"):rep(options.bytes)
    for _, side in ipairs(host.sides) do
        local dict = side.dict("bench_fill")
        local count = 0
        repeat
            local value = options.bytes > 0 and text or count
            local ok, _, forcible = dict:set(("k%08d"):format(count), value)
            local full = not ok or forcible
            if not full then
                count = count + 1
            end
        until full
        host.emit("memory", side.name, dict:capacity(), count)
    end
end


-- --- the table ----------------------------------------------------------------------------------------------

local NONE = report.NONE
local KEY_BYTES = 9
-- The targets in bytes: for a number; and for a string, in addition to 1.25 times the size of its key and value.
local NUMBER_TARGET = 72
local STRING_TARGET = 48


-- Returns the result, or nil if nothing was measured.
local function bytes_per_entry(rounds)
    local words = runs.find(rounds[1], "memory")
    return words and words[3] / words[4]
end


local function row(context, bytes)
    local here, there, err, why_not = runs.both(context, "bench/tables/memory", { bytes = bytes }, 1, 1)
    local mine, theirs = bytes_per_entry(here), bytes_per_entry(there)
    local target = bytes == 0 and NUMBER_TARGET or 1.25 * (KEY_BYTES + bytes) + STRING_TARGET
    return {
        "bytes per entry, 9-byte key, " .. (bytes == 0 and "number" or "string of " .. bytes),
        mine and ("%.1f"):format(mine) or err or runs.failed(),
        theirs and ("%.1f"):format(theirs) or why_not or runs.failed(),
        ("<= %.5g"):format(target),
        mine and report.distance(mine, target) or NONE,
    }
end


function _M.make(context)
    local lengths = context.quick and { 0, 1000 } or { 0, 100, 500, 1000, 2000 }
    return {
        title = "Memory, 64 MB full",
        headings = { "what", "holdfast", "ngx.shared", "target", "distance" },
        rows = stats.map(lengths, function (bytes) return row(context, bytes) end),
    }
end


return _M
