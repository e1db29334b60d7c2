-- Data of plots, in a text file of lines "figure,curve,x,y" (lines that begin with # say where it is from); and the
-- plots: curves over a logarithmic axis, as an SVG that can be read on light and on dark pages, in colour and without.

local ceil = math.ceil
local floor = math.floor
local log10 = math.log10
local max = math.max
local min = math.min

local WIDTH, HEIGHT = 760, 400
-- The edges of the area where the curves are.
local LEFT, TOP, RIGHT, BOTTOM = 74, 78, WIDTH - 24, HEIGHT - 60
local LEGEND_STEP = 170
local FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
-- What tells curves apart without colour.
local DASHES = { "none", "7 4", "2 3", "10 3 2 3" }

local STYLE = [[
.page { fill: #ffffff; stroke: #d1d9e0; }
.text { fill: #1f2328; }
.soft { fill: #59636e; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.axis { stroke: #59636e; stroke-width: 1; }
.curve { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
.c1 { stroke: #0969da; } .c2 { stroke: #bc4c00; } .c3 { stroke: #57606a; } .c4 { stroke: #8250df; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; stroke: #3d444d; }
  .text { fill: #f0f6fc; }
  .soft { fill: #9198a1; }
  .grid { stroke: #3d444d; }
  .axis { stroke: #9198a1; }
  .c1 { stroke: #4493f8; } .c2 { stroke: #f0883e; } .c3 { stroke: #b1bac4; } .c4 { stroke: #ab7df8; }
}
]]

local _M = {}


-- --- data -----------------------------------------------------------------------------------------------

local Points = {}
Points.__index = Points


-- What plots are made of: points of curves.
function _M.points()
    return setmetatable({ lines = {} }, Points)
end


-- A name with a comma could not be read again.
function Points:add(figure, curve, x, y)
    assert(not curve:find(",", 1, true), "a curve's name has no comma")
    table.insert(self.lines, ("%s,%s,%.6g,%.6g"):format(figure, curve, x, y))
end


function Points:is_empty()
    return #self.lines == 0
end


-- comments: a list of texts.
function Points:write(path, comments)
    local file = assert(io.open(path, "w"))
    for _, comment in ipairs(comments) do
        file:write("# ", comment, "\n")
    end
    file:write("figure,curve,x,y\n", table.concat(self.lines, "\n"), "\n")
    file:close()
end


-- By the name of the figure, lists of curves { name =, points = { { x, y }, ... } } in the order of the file. Nil and a
-- sentence if it is not such a file.
function _M.read(path)
    local file, err = io.open(path)
    if not file then
        return nil, err
    end
    local figures, number = {}, 0
    for line in file:lines() do
        number = number + 1
        local name, curve, x, y = line:match("^([%w_]+),([^,]+),([^,]+),([^,]+)$")
        x, y = tonumber(x), tonumber(y)
        if x and y then
            local curves = figures[name] or {}
            figures[name] = curves
            if not curves[curve] then
                curves[curve] = { name = curve, points = {} }
                table.insert(curves, curves[curve])
            end
            table.insert(curves[curve].points, { x, y })
        elseif line:sub(1, 1) ~= "#" and line ~= "figure,curve,x,y" then
            file:close()
            return nil, ("%s:%d: expected figure,curve,x,y with two numbers, got %q"):format(path, number, line)
        end
    end
    file:close()
    return figures
end


-- --- drawing --------------------------------------------------------------------------------------------

local function escape(text)
    return (text:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end


local function is_finite(value)
    return type(value) == "number" and value == value and math.abs(value) < math.huge
end


-- What is wrong with the curves, or nil. log: so y is.
local function find_fault(curves, log)
    if #curves == 0 then
        return "there are no curves"
    end
    if #curves > #DASHES then
        return ("there are %d curves; %d can be told apart"):format(#curves, #DASHES)
    end
    for _, curve in ipairs(curves) do
        if #curve.points == 0 then
            return ("curve %q has no points"):format(curve.name)
        end
        for i, point in ipairs(curve.points) do
            local x, y = point[1], point[2]
            if not is_finite(x) or not is_finite(y) or x <= 0 or y < 0 or log and y == 0 then
                return ("curve %q, point %d: x must be a number greater than 0 and y one %s 0, got %s and %s"):format(
                    curve.name, i, log and "greater than" or "of at least", tostring(x), tostring(y))
            end
        end
    end
end


-- 1, 2 or 5 times a power of ten: steps of which about five make up the range.
local function step_of(range)
    local power = 10 ^ floor(log10(range / 5))
    for _, factor in ipairs { 1, 2, 5 } do
        if range / (factor * power) <= 6 then
            return factor * power
        end
    end
    return 10 * power
end


-- Where the marks of the logarithmic axis are: at powers of two if the figure wants it; else at powers of ten, and at 2
-- and 5 times them if there are few.
local function log_ticks(first, last, doubling)
    local factors = log10(last / first) > 3 and { 1 } or { 1, 2, 5 }
    local ticks = {}
    if doubling then
        for power = ceil(log10(first) / log10(2) - 1e-9), floor(log10(last) / log10(2) + 1e-9) do
            ticks[#ticks + 1] = 2 ^ power
        end
        return ticks
    end
    for power = floor(log10(first)), ceil(log10(last)) do
        for _, factor in ipairs(factors) do
            local tick = factor * 10 ^ power
            if tick >= first * 0.999 and tick <= last * 1.001 then
                ticks[#ticks + 1] = tick
            end
        end
    end
    return ticks
end


-- The ranges of x and y of all curves.
local function extent(curves)
    local first, last, low, top = math.huge, 0, math.huge, 0
    for _, curve in ipairs(curves) do
        for _, point in ipairs(curve.points) do
            first, last = min(first, point[1]), max(last, point[1])
            low, top = min(low, point[2]), max(top, point[2])
        end
    end
    if first == last then
        first, last = first / 2, last * 2
    end
    return first, last, low, top > 0 and top or 1
end


local function text(class, x, y, anchor, size, words, more)
    return ('<text class="%s" x="%.1f" y="%.1f" text-anchor="%s" font-size="%d"%s>%s</text>\n'):format(class, x, y,
           anchor, size, more or "", escape(words))
end


local function line(class, x1, y1, x2, y2, more)
    return ('<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"%s/>\n'):format(class, x1, y1, x2, y2, more or "")
end


local function dash(number)
    return (' stroke-dasharray="%s"'):format(DASHES[number])
end


-- Where the marks of y are, and where values lie between the first and the last, as a share: from 0, or between powers
-- of ten.
local function linear_rows(top)
    local step, marks = step_of(top), {}
    for row = 0, ceil(top / step - 1e-9) do
        marks[row + 1] = row * step
    end
    return marks, function (y) return y / marks[#marks] end
end


local function log_rows(low, top)
    local first, last = floor(log10(low) + 1e-9), ceil(log10(top) - 1e-9)
    last = max(last, first + 1)
    local marks = {}
    for power = first, last do
        marks[#marks + 1] = 10 ^ power
    end
    return marks, function (y) return (log10(y) - first) / (last - first) end
end


-- Where values lie on the page.
local function scale_of(figure)
    local first, last, low, top = extent(figure.curves)
    local rows, share
    if figure.y.log then
        rows, share = log_rows(low, top)
    else
        rows, share = linear_rows(top)
    end
    return {
        first = first,
        last = last,
        rows = rows,
        x = function (x) return LEFT + log10(x / first) / log10(last / first) * (RIGHT - LEFT) end,
        y = function (y) return BOTTOM - share(y) * (BOTTOM - TOP) end,
    }
end


local function head(figure)
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">\n'):format(
           WIDTH, HEIGHT, WIDTH, HEIGHT)
        .. "<title>" .. escape(figure.title) .. "</title>\n<style>\n" .. STYLE .. "</style>\n"
        .. ('<rect class="page" x="0.5" y="0.5" width="%d" height="%d" rx="6"/>\n'):format(WIDTH - 1, HEIGHT - 1)
        .. ('<g font-family="%s">\n'):format(FONT)
        .. text("text", LEFT, 26, "start", 16, figure.title, ' font-weight="600"')
        .. text("soft", LEFT, 45, "start", 12, figure.subtitle)
        .. text("text", (LEFT + RIGHT) / 2, HEIGHT - 16, "middle", 13, figure.x.title)
        .. text("text", 0, 0, "middle", 13, figure.y.title,
                (' transform="translate(18 %.1f) rotate(-90)"'):format((TOP + BOTTOM) / 2))
end


local function grid(figure, scale)
    local out = {}
    for row, value in ipairs(scale.rows) do
        local y = scale.y(value)
        out[#out + 1] = line(row == 1 and "axis" or "grid", LEFT, y, RIGHT, y)
        out[#out + 1] = text("soft", LEFT - 8, y + 4, "end", 12, ("%.10g"):format(value) .. (figure.y.unit or ""))
    end
    for _, tick in ipairs(log_ticks(scale.first, scale.last, figure.x.doubling)) do
        local x = scale.x(tick)
        out[#out + 1] = line("grid", x, TOP, x, BOTTOM)
        out[#out + 1] = text("soft", x, BOTTOM + 18, "middle", 12, figure.x.label(tick))
    end
    return table.concat(out)
end


-- Corners of the line: the points themselves; with steps, those of stairs.
local function corners(points, steps, scale)
    local out, y = {}, BOTTOM
    local function go_to(x, new_y)
        y = new_y
        out[#out + 1] = ("%.1f,%.1f"):format(x, y)
    end
    if steps then
        go_to(LEFT, y)
    end
    for _, point in ipairs(points) do
        if steps then
            go_to(scale.x(point[1]), y)
        end
        go_to(scale.x(point[1]), scale.y(point[2]))
    end
    if steps then
        go_to(RIGHT, y)
    end
    return table.concat(out, " ")
end


-- A curve and its name in the legend.
local function curve_of(figure, scale, number)
    local curve = figure.curves[number]
    local x = LEFT + (number - 1) * LEGEND_STEP
    return ('<polyline class="curve c%d"%s points="%s"/>\n'):format(number, dash(number),
                                                                   corners(curve.points, figure.steps, scale))
        .. line("curve c" .. number, x, 61, x + 30, 61, dash(number))
        .. text("text", x + 38, 65, "start", 12, curve.name)
end


-- The SVG, or nil and what is wrong, for a figure:
--
--   title, subtitle   texts
--   x                 { title =, label = function (value) that gives what stands at a mark, doubling = true for marks
--                     at powers of two }
--   y                 { title =, unit =, log = true for a logarithmic axis, which has no 0 }
--   curves            { { name =, points = { { x, y }, ... } }, ... }
--   steps             true for distributions: each curve rises from 0 at its points, and keeps its height to the right
function _M.draw(figure)
    local fault = find_fault(figure.curves, figure.y.log)
    if fault then
        return nil, fault
    end
    local scale = scale_of(figure)
    local out = { head(figure), grid(figure, scale) }
    for number = 1, #figure.curves do
        out[#out + 1] = curve_of(figure, scale, number)
    end
    out[#out + 1] = "</g>\n</svg>\n"
    return table.concat(out)
end


return _M
