-- Tests the design documents and docs/format.md: the names in them exist in the tree, and their pictures match the
-- pictures' sources. Also tests that the links in all documents lead to a target, and that docs/design.md is short.

local files, shell = require "spec.support" ("files", "shell")

local read = files.read

local PAGE_MAX, PARAGRAPH_MAX = 7000, 110
local DESIGNS = shell.output("ls docs/design.md tools/docs/design.md cluster/docs/design.md 2>/dev/null")
local NAMING = DESIGNS .. "\ndocs/format.md"
local LINKING = shell.output("ls README.md docs/*.md docs/guide/*.md examples/*/README.md tools/README.md "
                             .. "tools/docs/*.md cluster/README.md cluster/docs/*.md 2>/dev/null")
local ENDINGS = { cc = true, h = true, lua = true, md = true, pml = true, svg = true, txt = true }


-- Returns a document without its code blocks.
local function prose(path)
    return (("\n" .. read(path)):gsub("\n```.-\n```", ""))
end


-- Returns the paragraphs and list items, without headings and tables.
local function paragraphs(text)
    local found, current = {}, {}
    for line in (text .. "\n\n"):gmatch("(.-)\n") do
        local is_item = line:find("^%s*[-*] ") or line:find("^%s*%d+%. ")
        if line == "" or line:find("^[#|]") or is_item then
            found[#found + 1] = #current > 0 and table.concat(current, " ") or nil
            current = {}
        end
        if line ~= "" and not line:find("^[#|]") then
            current[#current + 1] = line
        end
    end
    return found
end


local function set_of(words)
    local set = {}
    for word in words do
        set[word] = true
    end
    return set
end


-- Returns the names in backticks: identifiers and paths, but nothing with blanks or operators.
local function names(path)
    return set_of(prose(path):gmatch("`([%a_][%w_.:/%-]*%(?%)?)`"))
end


local function is_path(name)
    return name:find("/", 1, true) or ENDINGS[name:match("%.(%l+)$")]
end


local tree = {}
for path in shell.output("find . -path ./.git -prune -o -print"):gmatch("%./([^\n]+)") do
    tree[path:gsub("%.in$", "")] = true
end


local FOLDERS = { "", "src/", "tools/src/", "cluster/src/", "lua/resty/holdfast/", "include/", "docs/", "tests/" }

-- Returns whether a path leads into a folder that has been deleted, tools/ or cluster/.
local function is_of_missing_package(path)
    local package = path:match "^tools/" or path:match "^cluster/"
    return package ~= nil and not tree[package:sub(1, -2)]
end


-- Returns whether a path in a document exists. The path may begin at the top of the tree, in a source folder, or in the
-- document's folder.
local function exists(path)
    for _, folder in ipairs(FOLDERS) do
        if tree[folder .. path:gsub("/$", "")] then
            return true
        end
    end
    return false
end


-- Resolves "..". For example, "docs/guide/../img" becomes "docs/img".
local function resolved(path)
    local count
    repeat
        path, count = path:gsub("[^/.]+/%.%./", "", 1)
    until count == 0
    return path
end


local function anchors(path)
    local found = {}
    for heading in prose(path):gmatch("\n#+ ([^\n]+)") do
        found[heading:lower():gsub("[^%w%s_-]", ""):gsub(" ", "-")] = true
    end
    return found
end


describe("docs/design.md", function ()
    it("has at most " .. PAGE_MAX .. " words", function ()
        local _, words = read("docs/design.md"):gsub("%S+", "")
        assert.is_true(words <= PAGE_MAX, words .. " words")
    end)

    for path in DESIGNS:gmatch("%S+") do
        it("and similar documents have short paragraphs: " .. path, function ()
            for _, paragraph in ipairs(paragraphs(prose(path))) do
                local _, words = paragraph:gsub("%S+", "")
                assert.is_true(words <= PARAGRAPH_MAX, words .. " words: " .. paragraph:sub(1, 80))
            end
        end)
    end

    it("shows pictures that match their sources", function ()
        for source in shell.output("ls docs/img/*.txt"):gmatch("%S+") do
            local picture = source:gsub("%.txt$", ".svg")
            assert.is_true(read(picture) == shell.output("scripts/draw-diagram " .. source) .. "\n",
                           "scripts/draw-diagram " .. source .. " > " .. picture)
            assert.is_truthy(read("docs/design.md"):find("(" .. picture:gsub("^docs/", "") .. ")", 1, true), picture)
        end
    end)
end)


for path in NAMING:gmatch("%S+") do
    it(path .. " names only things that exist", function ()
        local sources = shell.output("cat $(find src include lua scripts tests examples tools cluster -type f "
                                     .. "-size -200k -not -path '*/corpus/*') Makefile")
        local words = set_of(sources:gmatch("[%a_][%w_]*"))
        local missing = {}
        for name in pairs(names(path)) do
            local is_there = not is_path(name) or exists(name) or is_of_missing_package(name)
            for word in (is_path(name) and "" or name):gmatch("[%a_][%w_]*") do
                is_there = is_there and words[word]
            end
            missing[#missing + 1] = not is_there and name or nil
        end
        table.sort(missing)
        assert.equal("", table.concat(missing, " "))
    end)
end


for path in LINKING:gmatch("%S+") do
    it("links of " .. path .. " lead to an existing file and heading", function ()
        for target in prose(path):gmatch("%]%(([^)%s]+)%)") do
            local file, anchor = target:match("^([^#]*)#?(.*)$")
            file = file == "" and path or resolved((path:match("^.*/") or "") .. file)
            if not target:find("^%a+:") and not is_of_missing_package(file) then
                assert.is_true(tree[file] or false, target)
                assert.is_true(anchor == "" or anchors(file)[anchor] or false, target)
            end
        end
    end)
end
