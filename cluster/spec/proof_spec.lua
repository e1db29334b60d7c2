-- Checks that the tests that docs/proof.md and the mutants name exist. Otherwise, a row in these files could pass
-- without running a test.

local files, shell = require "spec.support" ("files", "shell")

local FOLDERS = "tests $(ls -d tools/tests cluster/tests 2>/dev/null)"
local SOURCES = shell.output("find " .. FOLDERS .. " -name '*.cc' -exec cat {} +")

local tests = {}
for suite, name in SOURCES:gmatch("TEST[%u_]*%(%s*([%w_]+),%s*([%w_]+)%s*%)") do
    tests[#tests + 1] = suite .. "." .. name
end
for name in shell.output("find " .. FOLDERS .. " -name CMakeLists.txt -exec cat {} +"):gmatch("NAME%s+([%w_.]+)") do
    tests[#tests + 1] = name
end


-- Returns whether a test matches this regular expression. Except for the escape character, these expressions are also
-- Lua patterns.
local function is_there(expression)
    local pattern = expression:gsub("\\", "%%")
    for _, test in ipairs(tests) do
        if test:find(pattern) then
            return true
        end
    end
    return false
end


it("docs/proof.md runs only existing tests", function ()
    for expression in files.read("docs/proof.md"):gmatch("%-R '?([^`' ]+)") do
        assert.is_true(is_there(expression), expression)
    end
end)


it("each mutant names existing tests", function ()
    for name, expressions in shell.output("tests/mutants/apply --list"):gmatch("([%w_]+)\t[^\t]+\t([^\t]+)") do
        for expression in expressions:gmatch("[^|]+") do
            assert.is_true(is_there(expression), name .. ": " .. expression)
        end
    end
end)
