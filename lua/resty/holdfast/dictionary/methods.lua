-- The metatable of all dictionaries, with their methods. It is its own __index, as for ngx.shared.DICT; clients patch
-- it. Manual: docs/resty.shdict.md.

local ipairs = ipairs
local pairs = pairs
local require = require

local methods = {}
methods.__index = methods

for _, part in ipairs { "values", "cas", "lists", "holders", "listing", "contention", "admin" } do
    for name, method in pairs(require("resty.holdfast.dictionary." .. part)) do
        methods[name] = method
    end
end

return methods
