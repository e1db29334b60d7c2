-- Returns the named modules of bench/support: local clock, keys = require "bench.support" ("clock", "keys").

return function (...)
    local modules = { ... }
    for i, name in ipairs(modules) do
        modules[i] = require("bench.support." .. name)
    end
    return unpack(modules)
end
