-- Returns modules of spec/support by name, as in: local files, shell = require "spec.support" ("files", "shell").
-- "cluster/etcd" names a module of cluster/spec/support.

return function (...)
    local modules = { ... }
    for i, name in ipairs(modules) do
        local package, module = name:match "^(%l+)/(.+)$"
        modules[i] = require((package and package .. "." or "") .. "spec.support." .. (module or name))
    end
    return unpack(modules)
end
