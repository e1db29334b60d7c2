-- Shell commands.

local _M = {}


-- Whether the command succeeded. LuaJIT returns its status; if it is built like Lua 5.2, as OpenResty's is, true or
-- nil.
function _M.succeeds(command)
    local status = os.execute(command)
    return status == 0 or status == true
end


-- Returns its output, without blanks at the end.
function _M.output(command)
    local pipe = assert(io.popen(command))
    local text = pipe:read("*a")
    pipe:close()
    return (text:gsub("%s+$", ""))
end


return _M
