-- Commands of the shell.

local _M = {}


-- Whether the command went well. LuaJIT answers with its status; where it is built with Lua 5.2's ways, as OpenResty's
-- is, with true or nil.
function _M.succeeds(command)
    local status = os.execute(command)
    return status == 0 or status == true
end


-- What it prints, without blanks at the end.
function _M.output(command)
    local pipe = assert(io.popen(command))
    local text = pipe:read("*a")
    pipe:close()
    return (text:gsub("%s+$", ""))
end


return _M
