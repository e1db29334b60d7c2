-- What the specs of a dictionary share: results with their number, naps, waits that end.

local _M = {}


-- Lua 5.1 has no table.pack; nils count.
function _M.pack(...)
    return { n = select("#", ...), ... }
end


function _M.sleep(seconds)
    require("resty.holdfast.host.none").sleep(seconds)
end


return _M
