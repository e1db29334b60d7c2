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


-- Runs the part `counted` in a new world. Returns the instructions per operation by the case's name, or nil and the
-- error. Callgrind writes a file at each call of getppid(), so every second file belongs to a block.
local function count(context, told)
    local folder = context.folder .. "/counted"
    local constant, out = process.quote(folder .. "/constant.so"), process.quote(folder .. "/out")
    os.execute(("rm -rf %s; mkdir -m 700 %s %s"):format(folder, folder, folder .. "/world"))
    process.output("cc -shared -fPIC -O1 -o " .. constant .. " " .. process.quote(context.root)
                   .. "/bench/count/constant.c")
    told.root = context.root
    local child = process.start("env HOLDFAST_DIR=" .. process.quote(folder .. "/world") .. " LD_PRELOAD=" .. constant
                                .. " valgrind -q --tool=callgrind --dump-before=getppid --callgrind-out-file=" .. out
                                .. " luajit " .. process.quote(context.root .. "/bench/child.lua") .. " counted",
                                "counted", told)
    local blocks, found, file = {}, {}, 0
    for words in child.lines() do
        file = file + 2
        blocks[words[2]] = blocks[words[2]] or {}
        table.insert(blocks[words[2]],
                     tonumber(read(folder .. "/out." .. file):match("\ntotals: (%d+)")) / words[3])
    end
    child.close()
    for name, values in pairs(blocks) do
        found[name] = stats.median(values)
    end
    return next(found) and found, "a process failed"
end


-- Returns rows of a case's title, its count alone, and its count in a mix (or nil).
local function count_all(context)
    local cases, rows = counted.cases(), {}
    local mixed, err = {}, nil
    if not context.quick then
        mixed, err = count(context, { mix = "hot" })
    end
    for i = 1, context.quick and 1 or #cases do
        local case = cases[i]
        local alone = count(context, { case = case.name })
        if not alone or not mixed then
            return nil, err or "a process failed"
        end
        rows[i] = { case.what, alone[case.name], mixed[case.name] }
    end
    return rows
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
    local obstacle = find_obstacle(context)
    local counts, err
    if not obstacle then
        counts, err = count_all(context)
    end
    local rows = {}
    for i, row in ipairs(counts or {}) do
        rows[i] = { row[1], cell(row[2]), cell(row[3]) }
    end
    rows[1] = rows[1] or { obstacle or runs.failed(err), NONE, NONE }
    return table_of({ "what", "alone", "mixed" }, rows)
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
    return { what, recorded, cell(now), ("%+.1f %%"):format(change * 100), verdict }
end


-- Compares each count with the recorded one.
function _M.check(context)
    local tables, facts = figures.parse(read(context.root .. "/" .. RECORD))
    local obstacle = find_obstacle(context) or find_difference(context, facts)
    local recorded, rows = {}, {}
    for _, cells in ipairs(tables.Instructions.rows) do
        recorded[cells[1]] = cells
    end
    local counts, err
    if not obstacle then
        counts, err = count_all(context)
    end
    for _, row in ipairs(counts or {}) do
        for i, way in ipairs { "alone", "mixed" } do
            local before = recorded[row[1]] and recorded[row[1]][i + 1] or NONE
            if row[i + 1] then
                rows[#rows + 1] = compare(row[1] .. ", " .. way, row[i + 1], before)
            end
        end
    end
    rows[1] = rows[1] or { obstacle and "not counted: " .. obstacle or runs.failed(err), NONE, NONE, NONE, NONE }
    return table_of({ "what", "recorded", "counted", "change", "verdict" }, rows)
end


return _M
