-- Checks that the tests that SECURITY.md names exist.

local files, shell = require "spec.support" ("files", "shell")

describe("SECURITY.md", function ()
    local text = files.read("SECURITY.md")
    local sources = shell.output("cat tests/*/*_test.cc tests/*/CMakeLists.txt "
                                 .. "tools/tests/CMakeLists.txt cluster/tests/*/*_test.cc")

    it("names only existing tests", function ()
        local count = 0
        for suite, name in text:gmatch("`(%u%a+)%.(%l[%l%d_]+)`") do
            count = count + 1
            assert(sources:find(("(%s, %s)"):format(suite, name), 1, true), suite .. "." .. name)
        end
        for name in text:gmatch("`(%l+_[%l_]+)`") do
            count = count + 1
            assert(sources:find("NAME " .. name, 1, true), name)
        end
        for path in text:gmatch("`(spec/[%w/_]+%.lua)`") do
            count = count + 1
            files.read(path)
        end
        assert(count > 15)
    end)
end)
