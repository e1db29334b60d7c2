-- SECURITY.md names the tests that show what it says.

local function read(path)
    local file = assert(io.open(path))
    local text = file:read("*a")
    file:close()
    return text
end


local function output(command)
    local pipe = assert(io.popen(command))
    local text = pipe:read("*a")
    pipe:close()
    return text
end


describe("SECURITY.md", function ()
    local text = read("SECURITY.md")
    local sources = output("cat tests/*/*_test.cc tests/*/CMakeLists.txt")

    it("names tests that there are", function ()
        local count = 0
        for suite, name in text:gmatch("`(%u%a+)%.(%u%w+)`") do
            count = count + 1
            assert(sources:find(("(%s, %s)"):format(suite, name), 1, true), suite .. "." .. name)
        end
        for name in text:gmatch("`(%l+_[%l_]+)`") do
            count = count + 1
            assert(sources:find("NAME " .. name, 1, true), name)
        end
        for path in text:gmatch("`(spec/[%w/_]+%.lua)`") do
            count = count + 1
            read(path)
        end
        assert(count > 15)
    end)
end)
