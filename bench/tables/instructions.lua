-- Counts the instructions of each operation, through Lua, with callgrind. The counts depend on the compiler and on
-- LuaJIT, but neither on the processor's speed nor on its load, so they are the same in each run. `bench/run --count`
-- compares them with the recorded counts.

local counted = require "bench.parts.counted"
local figures, process, report, runs, stats = require "bench.support" ("figures", "process", "report", "runs", "stats")

local NONE = report.NONE
local RECORD = "bench/results/instructions.md"
-- The largest accepted difference from the recorded count.
local TOLERANCE = 0.03

local _M = {}


-- Returns why this machine or build cannot count, or nil.
local function find_obstacle(context)
    local cache = process.quote(context.build .. "/CMakeCache.txt")
    if jit.arch ~= "x64" then
        return "counted only on x86-64"
    elseif process.output("command -v valgrind") == "" then
        return "valgrind is missing"
    elseif process.output("sed -n 's/^HOLDFAST_SANITIZE:[A-Z]*=//p' " .. cache) ~= "" then
        return "the build has sanitizers"
    end
end


-- --- counting -------------------------------------------------------------------------------------------

local function read(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read("*a")
    file:close()
    return text
end


-- Returns the number of instructions in a file of callgrind.
local function total(path)
    return tonumber(read(path):match("\ntotals: (%d+)"))
end


-- Starts the part `counted` in a new world. Callgrind writes the files out.1, out.2, … to the folder.
local function start(context, folder, told)
    local constant = process.quote(folder .. "/constant.so")
    os.execute(("rm -rf %s; mkdir -m 700 %s %s"):format(folder, folder, folder .. "/world"))
    process.output("cc -shared -fPIC -O1 -o " .. constant .. " " .. process.quote(context.root)
                   .. "/bench/count/constant.c")
    told.root = context.root
    return process.start("env HOLDFAST_DIR=" .. process.quote(folder .. "/world") .. " LD_PRELOAD=" .. constant
                         .. " valgrind -q --tool=callgrind --dump-before=getppid --callgrind-out-file="
                         .. process.quote(folder .. "/out") .. " luajit "
                         .. process.quote(context.root .. "/bench/child.lua") .. " counted", "counted", told)
end


-- Returns the instructions per operation by the case's name, or nil if the process failed. Callgrind writes a file at
-- each call of getppid(), so every second file belongs to a block.
local function count(context, told)
    local folder = context.folder .. "/counted"
    local child, blocks, found, file = start(context, folder, told), {}, {}, 0
    for words in child.lines() do
        local _, name, operations = unpack(words)
        file = file + 2
        blocks[name] = blocks[name] or {}
        table.insert(blocks[name], total(folder .. "/out." .. file) / operations)
    end
    child.close()
    for name, values in pairs(blocks) do
        found[name] = stats.median(values)
    end
    return next(found) and found
end


-- Returns lists of a case's title, its count alone, and its count in a mix (or nil). With an obstacle, or after a
-- failure, returns nil and a cell with the reason.
local function count_all(context, obstacle)
    if obstacle then
        return nil, "not counted: " .. obstacle
    end
    local cases, counts = counted.cases(), {}
    local mixed = context.quick and {} or count(context, { mix = "hot" })
    for i = 1, context.quick and 1 or #cases do
        local case = cases[i]
        local alone = count(context, { case = case.name })
        if not alone or not mixed then
            return nil, runs.failed("a process failed")
        end
        counts[i] = { case.what, alone[case.name], mixed[case.name] }
    end
    return counts
end


-- --- the tables -----------------------------------------------------------------------------------------

local function cell(value)
    return value and ("%.0f"):format(value) or NONE
end


local function table_of(headings, rows)
    return {
        title = "Instructions",
        headings = headings,
        rows = rows,
        note = "Executed by LuaJIT and the library for one operation, counted by callgrind in plain LuaJIT. The clock "
               .. "stands still, and the mix contains no collection of garbage.",
    }
end


function _M.make(context)
    local counts, reason = count_all(context, find_obstacle(context))
    local rows = stats.map(counts or {}, function (case)
        return { case[1], cell(case[2]), cell(case[3]) }
    end)
    rows[1] = rows[1] or { reason, NONE, NONE }
    return table_of({ "what", "alone", "mixed" }, rows)
end


-- The same, for the record. Fails if nothing can be counted.
function _M.record(context)
    assert(not find_obstacle(context), find_obstacle(context))
    return _M.make(context)
end


-- Removes the name of the program and the packager's version, as in "g++ (Debian 12.2.0-14) 12.2.0".
local function version_of(fact)
    return (fact:gsub("^%S+ ", ""):gsub("%b() ", ""))
end


-- Returns why the counts must differ from the recorded ones, or nil.
local function find_difference(context, facts)
    for _, entry in ipairs(report.describe(context.build)) do
        local name, here = unpack(entry)
        if name == "compiler" or name == "LuaJIT" then
            if version_of(here) ~= version_of(facts[name]) then
                return ("the recorded counts are for %s, not for %s"):format(facts[name], here)
            end
        end
    end
end


-- Returns a row that compares a count with the recorded count.
local function compare(what, now, recorded)
    local change, verdict = now / (tonumber(recorded) or math.huge) - 1, "as recorded"
    if change > TOLERANCE then
        verdict = runs.failed("more than recorded; if this is intended, bench/run --record records it")
    elseif change < -TOLERANCE then
        verdict = runs.failed("less than recorded, or not recorded; bench/run --record records it")
    end
    return { what, recorded or NONE, cell(now), ("%+.1f %%"):format(change * 100), verdict }
end


-- Compares each count with the recorded one.
function _M.check(context)
    local tables, facts = figures.parse(read(context.root .. "/" .. RECORD))
    local recorded, rows = {}, {}
    for _, cells in ipairs(tables.Instructions.rows) do
        recorded[cells[1]] = cells
    end
    local counts, reason = count_all(context, find_obstacle(context) or find_difference(context, facts))
    for _, case in ipairs(counts or {}) do
        local before = recorded[case[1]] or {}
        rows[#rows + 1] = compare(case[1] .. ", alone", case[2], before[2])
        rows[#rows + 1] = case[3] and compare(case[1] .. ", mixed", case[3], before[3])
    end
    rows[1] = rows[1] or { reason, NONE, NONE, NONE, NONE }
    return table_of({ "what", "recorded", "counted", "change", "verdict" }, rows)
end


return _M
