-- Shell commands.

local _M = {}


-- Whether the command succeeded. LuaJIT returns the status. A LuaJIT with Lua 5.2's behaviour, as in OpenResty, returns
-- true or nil.
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
