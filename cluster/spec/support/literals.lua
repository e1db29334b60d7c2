-- Returns the string literals of C++ and Lua sources, joined as the compiler joins them, for specs that compare texts.

local files = require "spec.support.files"

local _M = {}

local ESCAPES = { n = "\n", t = "\t", r = "\r", ["0"] = "\0", ["\\"] = "\\", ['"'] = '"', ["'"] = "'" }


-- Returns the position after a literal that begins at `at`, and its content.
local function read_quoted(text, at, quote)
    local parts = {}
    local from = at + 1
    while true do
        local stop = assert(text:find('[\\' .. quote .. ']', from), "a literal without an end")
        parts[#parts + 1] = text:sub(from, stop - 1)
        if text:sub(stop, stop) == quote then
            return stop + 1, table.concat(parts)
        end
        local escaped = text:sub(stop + 1, stop + 1)
        parts[#parts + 1] = ESCAPES[escaped] or ""
        from = stop + 2
    end
end


-- For each language: the characters that begin anything other than plain code, the beginning of a comment that ends
-- with the line, and the text that may be between joined literals.
local CPP = { marks = '[/"\']', comment = "//", joint = "^%s*$" }
local LUA = { marks = '["\'-]', comment = "--", joint = "^%s*%.%.%s*$" }


-- Returns the position after the comment or the C++ character literal that begins at `from`, or nil if a string literal
-- begins there.
local function passed_over(text, from, language)
    local two, mark = text:sub(from, from + 1), text:sub(from, from)
    if two == language.comment then
        return text:find("\n", from, true) or #text + 1
    elseif language == CPP and two == "/*" then
        return select(2, text:find("*/", from, true)) + 1
    elseif language == CPP and mark == "'" then
        local is_in_number = text:find("^%w'%w", from - 1)
        return is_in_number and from + 1 or (read_quoted(text, from, "'"))
    end
    return mark ~= '"' and mark ~= "'" and from + 1 or nil
end


local function scan(text, found, language)
    local at, open = 1, false
    while true do
        local from = text:find(language.marks, at)
        if not from then
            return
        end
        local joins = open and text:sub(at, from - 1):match(language.joint)
        local after = passed_over(text, from, language)
        if after then
            at = after
            open = open and text:sub(from, from + 1) == language.comment
        elseif language == CPP and text:sub(from - 1, from) == 'R"' then
            local delimiter = text:match('^"([^(]*)%(', from)
            local stop = text:find(")" .. delimiter .. '"', from, true)
            found[#found + 1] = text:sub(from + #delimiter + 2, stop - 1)
            at, open = stop + #delimiter + 2, false
        else
            local content
            at, content = read_quoted(text, from, text:sub(from, from))
            found[joins and #found or #found + 1] = (joins and found[#found] or "") .. content
            open = true
        end
    end
end


-- Returns the literals of a file, in order.
function _M.of(path)
    local found = {}
    scan(files.read(path), found, path:find("%.lua$") and LUA or CPP)
    return found
end


return _M
