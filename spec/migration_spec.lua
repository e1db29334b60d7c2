-- Tests docs/migration.md: each row of its table is true, and the table has all known differences.

local fixture, site = require "spec.support" ("fixture", "site")

local PAGE = "docs/migration.md"
local HEADINGS = "| what | before | now |"

local it = fixture.it_unless(site.missing())


-- Returns the text of the first cell of each row.
local function names_in_table()
    local names, is_in_table = {}, false
    for line in io.lines(PAGE) do
        if line == HEADINGS then
            is_in_table = true
        elseif is_in_table and not line:find("^|") then
            break
        elseif is_in_table and not line:find("^|%-") then
            names[#names + 1] = line:match("^| ([^|]*[^| ]) +|")
        end
    end
    return names
end


describe("the table of differences", function ()
    after_each(site.clean_up)

    it("has only true rows, and no other differences are known", function ()
        local dictionaries = { rows_locks = "1m", rows_small = "100k", rows_values = "256k", rows_large = "8m",
                               rows_later = "1m", rows_sized = "100k", [("n"):rep(251)] = "100k" }
        local child = site.start_file("spec/side_by_side/rows.lua", dictionaries)
        local shown, told = {}, {}
        for _, name in ipairs(names_in_table()) do
            shown[name] = true
        end
        for line in function () return child:hear(60) end do
            if line == "end" then
                break
            end
            local name, outcome = line:match("^row\t([^\t]+)\t(.*)$")
            assert(name, line)
            told[name] = true
            assert.equal("true", outcome, name)
        end
        assert.same(told, shown)
    end)
end)
