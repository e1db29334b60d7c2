-- The points of curves, in a text file of lines "figure,curve,x,y", which bench/plot draws.

local Points = {}
Points.__index = Points

local _M = {}


function _M.new()
    return setmetatable({ lines = {} }, Points)
end


-- Adds a point. The curve's name must not contain a comma, because bench/plot could not read it.
function Points:add(figure, curve, x, y)
    assert(not curve:find(",", 1, true), "a curve's name must not contain a comma")
    table.insert(self.lines, ("%s,%s,%.6g,%.6g"):format(figure, curve, x, y))
end


function Points:is_empty()
    return #self.lines == 0
end


-- Writes the points to a file. `comments` is a list of texts.
function Points:write(path, comments)
    local file = assert(io.open(path, "w"))
    for _, comment in ipairs(comments) do
        file:write("# ", comment, "\n")
    end
    file:write("figure,curve,x,y\n", table.concat(self.lines, "\n"), "\n")
    file:close()
end


return _M
