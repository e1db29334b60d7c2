-- The table "Shared memory, counted" of docs/benchmarks.md: no operation does more to shared memory than it says.

local command, files, shell = require "spec.support" ("command", "files", "shell")
local figures = require "bench.support.figures"
local LIBRARY = require("resty.holdfast.core").path

-- The columns of the document's table, and of what the program prints.
local ATOMICS, COMMON = 3, 5

-- Lists of cells by the name of the operation.
local function rows_of(text)
    local rows = {}
    for _, cells in ipairs(figures.parse("## Counted\n" .. text).Counted.rows) do
        rows[cells[1]] = cells
    end
    return rows
end

describe("What an operation does to shared memory", function ()
    local documented, counted

    before_each(function ()
        command.set_up()
        local text = files.read("docs/benchmarks.md")
        documented = rows_of(text:match("Shared memory, counted %-%->\n(.-)<!%-%- end of figures"))
        local folder, program = LIBRARY:match("^(.*)/"), command.path("count")
        local out = shell.output(("cc -O1 -Iinclude -o %s bench/count/operations.c -L%s -lholdfast && "
                                  .. "LD_LIBRARY_PATH=%s HOLDFAST_DIR=%s %s 2>&1; echo status $?"):format(
                                 program, folder, folder, command.world(), program))
        if out:find("status 77$") then
            pending("the instructions of this processor are not known")
        end
        assert.truthy(out:find("status 0$"), out)
        counted = rows_of(out)
    end)

    after_each(command.tear_down)

    it("is at most as many atomic read-modify-writes as docs/benchmarks.md counts", function ()
        for what, cells in pairs(documented) do
            local atomics = tonumber(cells[ATOMICS])
            if atomics then
                assert.is_true(tonumber(counted[what][ATOMICS]) <= atomics, what .. ": " .. counted[what][ATOMICS])
            end
        end
    end)

    -- Where other operations find their entry depends on the hash of the key, which is another one in each dictionary.
    it("is, for a lock of one's own, at most as many lines in common with others", function ()
        local lines = tonumber(documented["lock + unlock"][COMMON])
        assert.is_true(tonumber(counted["lock + unlock"][COMMON]) <= lines)
    end)
end)
