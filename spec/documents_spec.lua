-- README.md, docs/guide.md, docs/hosts.md and docs/migration.md: what they show happens.

local command, snippets = require "spec.support" ("command", "snippets")

for _, path in ipairs({ "README.md", "docs/guide.md", "docs/hosts.md", "docs/migration.md" }) do
    describe("What " .. path .. " shows", function ()
        before_each(command.set_up)
        after_each(command.tear_down)

        for _, section in ipairs(snippets.sections(path)) do
            it("happens: " .. section.heading, function ()
                snippets.run(section, path)
            end)
        end
    end)
end
