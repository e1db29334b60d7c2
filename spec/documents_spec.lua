-- README.md and the documents that show programs: what they show happens. The manuals have a spec of their own.

local command, shell, snippets = require "spec.support" ("command", "shell", "snippets")

local PAGES = shell.output("ls README.md docs/benchmarks.md docs/errors.md docs/hosts.md docs/migration.md docs/guide/*.md")

for path in PAGES:gmatch("%S+") do
    describe("What " .. path .. " shows", function ()
        before_each(command.set_up)
        after_each(command.tear_down)

        snippets.claims(path, "happens: ")
    end)
end
