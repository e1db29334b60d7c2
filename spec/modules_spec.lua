-- Tests that each Lua module has a spec that can be found. Either the spec's file name contains the module's name, or
-- the spec's first line names the module's file, relative to lua/resty/holdfast/.

local files, shell = require "spec.support" ("files", "shell")

-- Returns whether the words of `name` occur in a spec's file name, as "lists" does in "shdict_lists".
local function has_words(stem, name)
    return ("_" .. stem .. "_"):find("_" .. name .. "_", 1, true) ~= nil
end


describe("modules", function ()
    local stems, first_lines = {}, {}
    for path in shell.output("find spec $(ls -d */spec) -name '*_spec.lua'"):gmatch("[^\n]+") do
        stems[#stems + 1] = path:match("([%w_]+)_spec%.lua$")
        first_lines[#first_lines + 1] = files.read(path):match("^%-%-([^\n]*)")
    end
    local named = table.concat(first_lines, "\n")

    local function is_found(path)
        for _, stem in ipairs(stems) do
            if has_words(stem, path:match("([%w_]+)%.lua$")) then
                return true
            end
        end
        local file = path:gsub("^.*lua/resty/", "resty/"):gsub("^resty/holdfast/", "")
        return named:find("%f[%w/]" .. file:gsub("%.", "%%.")) ~= nil
    end

    for path in shell.output("find * -path '*lua/resty/*.lua' -not -path 'build*'"):gmatch("[^\n]+") do
        it(path .. " has a spec that names it", function ()
            assert(is_found(path), "no spec has its name in the file name, or its file in the first line")
        end)
    end
end)
