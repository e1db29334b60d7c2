-- Modules of spec/support by their names, in one line: local files, shell = require "spec.support" ("files", "shell").

return function (...)
    local modules = { ... }
    for i, name in ipairs(modules) do
        modules[i] = require("spec.support." .. name)
    end
    return unpack(modules)
end
