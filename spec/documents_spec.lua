-- Tests README.md and the documents that show programs. The programs must do what the documents say, even when a reader
-- runs them a second time. The manuals have their own spec.

local command, shell, snippets = require "spec.support" ("command", "shell", "snippets")

local PAGES = shell.output("cd docs; ls ../README.md benchmarks.md hosts.md migration.md operations.md guide/*")

for page in PAGES:gmatch("%S+") do
    local path = ("docs/" .. page):gsub("^docs/%.%./", "")
    describe("the examples of " .. path, function ()
        before_each(command.set_up)
        after_each(command.tear_down)

        snippets.claims(path, "happens, twice: ", nil, 2)
    end)
end
