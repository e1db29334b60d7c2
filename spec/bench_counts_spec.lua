-- Checks the table "Shared memory, counted" in docs/benchmarks.md. No operation may have higher counts than the table
-- states.

local command, files, shell = require "spec.support" ("command", "files", "shell")
local figures = require "bench.support.figures"
local LIBRARY = require("resty.holdfast.core").path

-- Columns of the document's table, and of the program's output.
local ATOMICS, COMMON = "atomic read-modify-writes", "of them, by other keys as well"

-- Returns the cells of each row of a table, indexed by the name of the operation and the heading of the column.
local function rows_of(text)
    local rows, headings = {}, nil
    for _, cells in ipairs(figures.parse("## Counted\n" .. text).Counted.rows) do
        headings = headings or cells
        rows[cells[1]] = {}
        for i, cell in ipairs(cells) do
            rows[cells[1]][headings[i]] = cell
        end
    end
    return rows
end

-- One of 256 grants, chosen at random, is measured and costs more. The number of shared lines depends on the hash of
-- the key.
local TRIES = 20

describe("an operation on shared memory", function ()
    local documented, counts

    -- Returns the smallest count of several runs. Stops when a count is as small as documented.
    local function least(what, column)
        local found
        for i = 1, TRIES do
            counts[i] = counts[i] or counts.again()
            found = math.min(found or math.huge, tonumber(counts[i][what][column]))
            if found <= tonumber(documented[what][column]) then
                break
            end
        end
        return found
    end

    before_each(function ()
        command.set_up()
        local text = files.read("docs/benchmarks.md")
        documented = rows_of(text:match("Shared memory, counted %-%->\n(.-)<!%-%- end of figures"))
        local folder, program = LIBRARY:match("^(.*)/"), command.path("count")
        assert(shell.succeeds(("cc -O1 -Iinclude -o %s bench/count/operations.c -L%s -lholdfast"):format(
                                  program, folder)))
        counts = {
            again = function()
                local run = "LD_LIBRARY_PATH=%s HOLDFAST_DIR=%s timeout 60 %s 2>&1; echo status $?"
                local out = shell.output(run:format(folder, command.world(), program))
                if out:find("status 77$") then
                    pending("the instructions of this processor are not known")
                end
                assert.truthy(out:find("status 0$"), out)
                return rows_of(out)
            end,
        }
    end)

    after_each(command.tear_down)

    it("makes at most as many atomic read-modify-writes as docs/benchmarks.md counts", function ()
        for what, cells in pairs(documented) do
            local atomics = tonumber(cells[ATOMICS])
            if atomics then
                local found = least(what, ATOMICS)
                assert.is_true(found <= atomics, what .. ": " .. found)
            end
        end
    end)

    -- The position of the other operation's entry depends on the hash of the key, which differs in each dictionary.
    it("shares, for a private lock, at most the documented number of lines with others", function ()
        local lines = tonumber(documented["lock + unlock"][COMMON])
        assert.is_true(least("lock + unlock", COMMON) <= lines)
    end)
end)
