-- Tests bench/support/figures.lua, which copies figures into documents from the result files that the documents name.

local figures = require "bench.support.figures"
local files = require "spec.support.files"

local RESULTS = [[
# Benchmarks

- date: 2026-01-02 03:04 UTC

## One

| what  | holdfast |
| ----- | -------- |
| a row | 1 ns     |

## Two

| what | holdfast        |
| ---- | --------------- |
| b    | 2; 3 (2.5-3.5)  |
]]

local DOCUMENT = [[
Before.

<!-- figures: bench/results/locks-2026-11-26-0549.md, One -->
old
<!-- end of figures -->

<!-- figures: bench/results/2026-11-29-1451.md, Two -->
<!-- end of figures -->
After.
]]

describe("Figures in documents", function ()
    local function read(path)
        return not path:find("0319", 1, true) and RESULTS or (RESULTS:gsub("1 ns", "9 ns"))
    end

    it("are replaced by the tables in the files that the comments name, and nothing else changes", function ()
        local text = assert(figures.update(DOCUMENT, read))
        assert.equal("Before.\n\n<!-- figures: bench/results/locks-2026-11-26-0549.md, One -->\n\n"
                     .. "| what  | holdfast |\n| ----- | -------- |\n| a row | 1 ns     |\n\n"
                     .. "<!-- end of figures -->\n\n"
                     .. "<!-- figures: bench/results/2026-11-29-1451.md, Two -->\n\n"
                     .. "| what | holdfast        |\n| ---- | --------------- |\n| b    | 2; 3 (2.5-3.5)  |\n\n"
                     .. "<!-- end of figures -->\nAfter.\n", text)
        assert.equal(text, figures.update(text, read))
    end)

    it("change only to a newer file of the same kind", function ()
        local newer = { "bench/results/locks-2026-11-27-0319.md" }
        local text = assert(figures.update(DOCUMENT, read, newer))
        assert.same({ "bench/results/locks-2026-11-27-0319.md", "bench/results/2026-11-29-1451.md" },
                    figures.sources(text))
        assert.truthy(text:find("| a row | 9 ns     |", 1, true))
    end)

    it("can be limited to the mixed cases and the cases that miss their target", function ()
        local results = "## Two\n\n| what     | distance |\n| -------- | -------- |\n| a, alone | met: 1   |\n"
            .. "| b, mixed | met: 2   |\n| c, alone | missed: 3 |\n"
        local text = assert(figures.update((DOCUMENT:gsub("Two", "Two, mixed and missed"):gsub(", One", ", Two")),
                                           function () return results end))
        local all, some = text:match("(.-)\n<!%-%- end of figures(.*)")
        local kept = "| b, mixed | met: 2   |\n| c, alone | missed: 3 |\n"
        assert.truthy(all:find("| a, alone | met: 1   |\n" .. kept, 1, true))
        assert.truthy(some:find("| -------- | -------- |\n" .. kept, 1, true))
    end)

    it("of a summary come from the run with the median ratio, with the range of all runs", function ()
        local document = "<!-- figures: bench/results/2026-01-01-0000.md, summary -->\n<!-- end of figures -->\n"
        local first = files.read(figures.sources(files.read("README.md"))[1])
        local function read_run(path)
            local ratio = path:match("(%d)%.md$")
            return (first:gsub("(| lock %+ unlock, same object, alone [^\n]-| )[%d.]+x", "%10.1" .. ratio .. "x", 1))
        end
        local newer = {}
        for i, ratio in ipairs { 5, 2, 9 } do
            newer[i] = "bench/results/2026-01-02-000" .. ratio .. ".md"
        end
        local text = assert(figures.update(document, read_run, newer))
        assert.truthy(text:find("| lock and unlock a free key  [^\n]+| 0.15x %(0.12%-0.19%) +|\n"), text)
        assert.same(newer, figures.sources(text))
        assert.equal(text, figures.update(text, read_run))
    end)

    it("are refused with a reason if the file or the table is missing", function ()
        local text, err = figures.update(DOCUMENT, function () end)
        assert.is_nil(text)
        assert.truthy(err:find("^bench/results/[%w-]+0549%.md is missing$"), err)
        text, err = figures.update((DOCUMENT:gsub(", Two", ", Three")), read)
        assert.is_nil(text)
        assert.equal('bench/results/2026-11-29-1451.md has no table "Three"', err)
    end)

    it("of a summary are refused if a row is missing", function ()
        local text, err = figures.update((DOCUMENT:gsub(", Two", ", summary")), read)
        assert.is_nil(text)
        assert.truthy(err:find('has no row "lock + unlock, same object, alone"', 1, true), err)
    end)
end)

for _, path in ipairs { "README.md", "docs/benchmarks.md" } do
    describe("The figures of " .. path, function ()
        it("match the result files, as bench/publish writes them", function ()
            local text = files.read(path)
            assert.is_true(#figures.sources(text) > 0)
            assert.equal(assert(figures.update(text, files.find)), text)
        end)
    end)
end
