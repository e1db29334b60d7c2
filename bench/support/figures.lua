-- The data of plots: points of curves, in a text file of lines "figure,curve,x,y". Lines that begin with # say where
-- the data is from.

local _M = {}
_M.__index = _M


function _M.new()
    return setmetatable({ lines = {} }, _M)
end


function _M:add(figure, curve, x, y)
    table.insert(self.lines, ("%s,%s,%.6g,%.6g"):format(figure, curve, x, y))
end


function _M:is_empty()
    return #self.lines == 0
end


-- comments: a list of texts.
function _M:write(path, comments)
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


return _M
