-- Formats output for people, for a terminal and as Markdown for a file: tables, and a description of the machine.

local process, stats = require "bench.support" ("process", "stats")

local output = process.output

-- An empty cell.
local _M = { NONE = "-" }


-- Returns the number of characters, not of bytes.
local function width(text)
    return select(2, text:gsub("[^\128-\191]", ""))
end


local function line(cells, widths)
    local words = {}
    for i, cell in ipairs(cells) do
        words[i] = cell .. (" "):rep(widths[i] - width(cell))
    end
    return "| " .. table.concat(words, " | ") .. " |\n"
end


-- Formats a table with a heading for each column.
function _M.table(headings, rows)
    local widths, rule = {}, {}
    for i, heading in ipairs(headings) do
        widths[i] = width(heading)
        for _, row in ipairs(rows) do
            widths[i] = math.max(widths[i], width(row[i]))
        end
        rule[i] = ("-"):rep(widths[i])
    end
    local lines = { line(headings, widths), line(rule, widths) }
    for _, row in ipairs(rows) do
        lines[#lines + 1] = line(row, widths)
    end
    return table.concat(lines)
end


-- Compares a value with its target. Returns a text with "met" or "missed" and the value as a share of the target.
function _M.distance(value, target, more_is_better)
    if value ~= value then
        return "not measured"
    end
    local met = value <= target
    if more_is_better then
        met = value >= target
    end
    return ("%s: %.0f %% of it"):format(met and "met" or "missed", value / target * 100)
end


-- Formats a number with three digits.
function _M.digits(value)
    if value >= 100 then
        return ("%.0f"):format(value)
    end
    return ("%.3g"):format(value)
end


-- Formats a time as "250 µs" or "1.2 ms", or NaN as an empty cell.
function _M.time(seconds)
    if seconds ~= seconds then
        return _M.NONE
    elseif seconds < 0.9995e-3 then
        return _M.digits(seconds * 1e6) .. " µs"
    end
    return _M.digits(seconds * 1e3) .. " ms"
end


-- Formats a list of times as "40.1; 41.2 (40.8-43)": the minimum, the median, and the middle half. Returns nil if there
-- is no list.
function _M.spread(times)
    if times then
        local low, high = stats.middle_half(times)
        return ("%s; %s (%s-%s)"):format(_M.digits(stats.percentile(times, 0)), _M.digits(stats.median(times)),
                                         _M.digits(low), _M.digits(high))
    end
end


-- Returns three cells for a list of ratios, or for nil: the median with the quartiles, the extremes and, if there is a
-- target, the distance from it.
function _M.ratio(ratios, target)
    if not ratios then
        return _M.NONE, _M.NONE, _M.NONE
    end
    local ratio = stats.median(ratios)
    return ("%.2fx (%.2f-%.2f)"):format(ratio, stats.middle_half(ratios)),
        ("%.2f-%.2f"):format(stats.percentile(ratios, 0), stats.percentile(ratios, 1)),
        target and _M.distance(ratio, target) or _M.NONE
end


-- --- the machine: everything that affects numbers, and nothing that identifies it ----------------------

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


-- Returns the number of runnable processes, averaged over the last minute.
function _M.load()
    return output("cut -d ' ' -f 1 /proc/loadavg")
end


-- On a machine that also does other work, the user may give a benchmark a higher priority. The report must then mention
-- the priority.
local function priority()
    local niceness = output("nice")
    local policy = output("chrt -p $$ | sed -n 's/.*policy: //p'")
    return (niceness ~= "" and niceness ~= "0" and ", at niceness " .. niceness or "")
        .. (policy ~= "" and policy ~= "SCHED_OTHER" and ", at the priority of " .. policy or "")
end


-- Returns pairs of a name and a text, in order.
function _M.describe(build)
    return {
        { "date", os.date("!%Y-%m-%d %H:%M UTC") },
        { "holdfast", commit() },
        { "CPU", output("LC_ALL=C lscpu | sed -n 's/^Model name: *//p' | head -n 1") .. ", " .. output("nproc")
                 .. " cores" },
        { "kernel", output("uname -srm") .. priority() },
        { "compiler", compiler(build) },
        { "LuaJIT", output("luajit -v | sed 's/ -- .*//'")
                    .. (output("luajit -l table.nkeys -e 'print(1)'") == "1" and ", OpenResty's branch" or "") },
    }
end


return _M
