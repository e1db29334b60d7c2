-- Reads and writes whole files.

local _M = {}


-- Returns the file's content, or nil if the file cannot be opened.
function _M.find(path)
    local file = io.open(path)
    if not file then
        return nil
    end
    local text = file:read("*a")
    file:close()
    return text
end


function _M.read(path)
    return assert(_M.find(path), path)
end


-- Writes the file, and returns its path.
function _M.write(path, text)
    local file = assert(io.open(path, "w"))
    assert(file:write(text))
    file:close()
    return path
end


return _M
