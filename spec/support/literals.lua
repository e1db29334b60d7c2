-- The string literals of C++ and Lua sources, as the compiler joins them: for specs that compare texts.

local files = require "spec.support.files"

local _M = {}

local ESCAPES = { n = "\n", t = "\t", r = "\r", ["0"] = "\0", ["\\"] = "\\", ['"'] = '"', ["'"] = "'" }


-- The place after a literal that begins at `at`, and what is in it.
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


-- C++: joins literals that follow each other. Character literals, comments and raw strings are passed over or taken as
-- they are.
local function scan_cpp(text, found)
    local at, open = 1, false
    while true do
        local from = text:find('[/"\']', at)
        if not from then
            return
        end
        local between = text:sub(at, from - 1)
        local two = text:sub(from, from + 1)
        if two == "//" then
            at = text:find("\n", from, true) or #text + 1
        elseif two == "/*" then
            at = select(2, text:find("*/", from, true)) + 1
        elseif text:sub(from - 1, from) == 'R"' then
            local delimiter = text:match('^"([^(]*)%(', from)
            local stop = text:find(")" .. delimiter .. '"', from, true)
            found[#found + 1] = text:sub(from + #delimiter + 2, stop - 1)
            at, open = stop + #delimiter + 2, false
        elseif text:sub(from, from) == "'" then
            if text:find("^%w'%w", from - 1) then  -- of a number
                at = from + 1
            else
                at = read_quoted(text, from, "'")
            end
            open = false
        elseif text:sub(from, from) == '"' then
            local content
            local joins = open and between:match("^%s*$")
            at, content = read_quoted(text, from, '"')
            if joins then
                found[#found] = found[#found] .. content
            else
                found[#found + 1] = content
            end
            open = true
        else
            at, open = from + 1, false
        end
    end
end


-- Lua: joins literals that .. puts together.
local function scan_lua(text, found)
    local at, open = 1, false
    while true do
        local from = text:find('["\'-]', at)
        if not from then
            return
        end
        local between = text:sub(at, from - 1)
        local quote = text:sub(from, from)
        if quote == "-" then
            at = text:sub(from, from + 1) == "--" and (text:find("\n", from, true) or #text + 1) or from + 1
        else
            local content
            local joins = open and between:match("^%s*%.%.%s*$")
            at, content = read_quoted(text, from, quote)
            if joins then
                found[#found] = found[#found] .. content
            else
                found[#found + 1] = content
            end
            open = true
        end
    end
end


-- Those of a file, in its order.
function _M.of(path)
    local found = {}
    local scan = path:find("%.lua$") and scan_lua or scan_cpp
    scan(files.read(path), found)
    return found
end


return _M
