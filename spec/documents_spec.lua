-- README.md, docs/benchmarks.md, docs/guide.md, docs/hosts.md and docs/migration.md: what they show happens.

local command, snippets = require "spec.support" ("command", "snippets")

for _, path in ipairs({ "README.md", "docs/benchmarks.md", "docs/guide.md", "docs/hosts.md", "docs/migration.md" }) do
    describe("What " .. path .. " shows", function ()
        before_each(command.set_up)
        after_each(command.tear_down)

        snippets.claims(path, "happens: ")
    end)
end
