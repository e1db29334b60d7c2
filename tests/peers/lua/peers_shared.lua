-- Puts holdfast's dictionaries into ngx.shared, where the peers' tests look for the data that the modules have stored.

local shdict = require "resty.shdict"

local sizes = {}
for name, zone in pairs(ngx.shared) do
    sizes[name] = zone:capacity()
end

ngx.shared = setmetatable({}, { __index = function (_, name)
    return sizes[name] and assert(shdict.open(name, { size = sizes[name], versions = true, tables = true }))
end })
