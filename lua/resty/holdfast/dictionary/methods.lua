-- The metatable of all dictionaries, with their methods. It is its own __index, as for ngx.shared.DICT; clients patch
-- it. Manual: docs/resty.shdict.md.

local later = require "resty.holdfast.later"

local ipairs, pairs, rawget, require, setmetatable = ipairs, pairs, rawget, require, setmetatable

local PARTS = { "values", "cas", "lists", "holders", "listing", "contention", "admin" }

local methods = {}
methods.__index = methods

local is_filled = false


-- Adds the methods; those that a client has patched stay.
local function fill()
    if is_filled then
        return
    end
    for _, part in ipairs(PARTS) do
        for name, method in pairs(require("resty.holdfast.dictionary." .. part)) do
            if rawget(methods, name) == nil then
                methods[name] = method
            end
        end
    end
    is_filled = true
    setmetatable(methods, nil)
end


-- A lock in a state that lasts for one request calls none of them.
if not later.call(fill) then
    setmetatable(methods, { __index = function (_, name)
        fill()
        return methods[name]
    end })
end

return { fill = fill, metatable = methods }
