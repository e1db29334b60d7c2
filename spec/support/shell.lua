-- Runs shell commands.

local _M = {}


-- Returns whether the command succeeded. In LuaJIT, os.execute returns the status. In a LuaJIT with Lua 5.2's
-- behaviour, such as OpenResty's, it returns true or nil.
function _M.succeeds(command)
    local status = os.execute(command)
    return status == 0 or status == true
end


-- Returns the command's output without trailing blanks.
function _M.output(command)
    local pipe = assert(io.popen(command))
    local text = pipe:read("*a")
    pipe:close()
    return (text:gsub("%s+$", ""))
end


return _M
