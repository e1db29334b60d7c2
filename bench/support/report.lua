-- Tables for people: at a terminal and, the same, as Markdown in a file.

local stats = require "bench.support.stats"

-- What stands where there is nothing to say.
local _M = { NONE = "-" }


-- Characters, not bytes.
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


-- A table with a heading for each column.
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


-- How far a value is from its target: "met" or "missed", and the value as a share of the target.
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


-- Three digits.
function _M.digits(value)
    if value >= 100 then
        return ("%.0f"):format(value)
    end
    return ("%.3g"):format(value)
end


-- Three cells for a list of ratios, or nil: the median with the quarters, the extremes, and the distance from the
-- target if there is one.
function _M.ratio(ratios, target)
    if not ratios then
        return _M.NONE, _M.NONE, _M.NONE
    end
    local ratio = stats.median(ratios)
    return ("%.2fx (%.2f-%.2f)"):format(ratio, stats.middle_half(ratios)),
        ("%.2f-%.2f"):format(stats.percentile(ratios, 0), stats.percentile(ratios, 1)),
        target and _M.distance(ratio, target) or _M.NONE
end


return _M
