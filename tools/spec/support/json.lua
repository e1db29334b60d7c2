-- Decodes JSON as the holdfast command prints it.

local dkjson = require "dkjson"

local _M = { null = dkjson.null }

function _M.decode(text)
    local value, after, err = dkjson.decode(text, 1, dkjson.null)
    assert(value ~= nil and not err, err)
    assert(not text:find("%S", after), "more than one value: " .. text)
    return value
end

return _M
