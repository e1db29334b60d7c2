-- A file that accepts writes only from the latest holder of a lock. Each write carries the token of the holder's grant,
-- and is refused if the token is lower than the last one. A database can do the same: UPDATE ... WHERE token <= ?

local ffi = require "ffi"

ffi.cdef [[
int fileno(void *file);
int flock(int fd, int operation);
]]

local LOCK_EX = 2

local _M = {}


-- Adds a line to the file, whose last line is its content. Returns true, or nil and "stale".
function _M.write(path, token, text)
    local file = assert(io.open(path, "a+"))
    assert(ffi.C.flock(ffi.C.fileno(file), LOCK_EX) == 0, "flock")
    local last = 0
    for line in file:lines() do
        last = tonumber(line:match("^%d+"))
    end
    local fresh = token >= last
    if fresh then
        file:write(("%.0f %s\n"):format(token, text))
    end
    file:close()
    if not fresh then
        return nil, "stale"
    end
    return true
end


return _M
