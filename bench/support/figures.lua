-- Figures in documents: the text between two comments comes from a file of bench/results. The first comment names the
-- file.
--
--   <!-- figures: bench/results/RESULTS, TABLE -->    a table of the file, by its title
--   <!-- figures: bench/results/RESULTS, TABLE, mixed and missed -->
--                                                     its rows of mixed cases, and all rows that missed their target
--   <!-- figures: bench/results/RESULTS, summary -->  the rows of SUMMARY, and their source
--   <!-- end of figures -->

local report = require "bench.support.report"

local _M = {}

-- These functions read the cells of a summary.
local function median(cell)
    local value = cell:match("; (%S+)")
    return value and value .. " ns" or cell
end
local function whole(cell)
    return cell
end
local function ratio(cell)
    return cell:match("^[%d.]+x") or "-"
end
local function without_colon(cell)
    return (cell:gsub(":", ""))
end
local function none()
    return "-"
end

-- Each has the title of a table; the columns of holdfast, of the other side and of the ratio; and the functions that
-- read these columns.
local BESIDE_NGINX = { title = "Side by side", 2, 3, 4, median, median, ratio }
local BESIDE_MUTEX = { title = "Lock and unlock, beside the system's locks", 2, 3, 4, median, median, ratio }
local OWN_KEYS = { title = "Each process with its own key: lock and unlock", 2, 3, 3, whole, whole, none }
local PROCESSES = { title = "Between processes", 2, 3, 5, whole, without_colon, ratio }

-- The eight rows for README.md, from the results of `make bench`. Each line has a table, the other side, the beginning
-- of the row's name, and the name in the document.
local SUMMARY = {
    { BESIDE_NGINX, "lua-resty-lock", "lock + unlock, same object, alone", "lock and unlock a free key" },
    { BESIDE_NGINX, "lua-resty-lock", "new + lock + unlock, mixed", "the same with a new lock object, in a program" },
    { BESIDE_MUTEX, "a robust mutex", "robust mutex, alone", "lock and unlock a free key, in plain LuaJIT" },
    { OWN_KEYS, "lua-resty-lock", "lock + unlock, 2 processes", "two processes, each with its own key" },
    { PROCESSES, "", "release to resume, p50", "from the release to the waiter in another process" },
    { PROCESSES, "lua-resty-lock", "  longest wait", "100 coroutines, one key, held for 1 ms: longest wait" },
    { PROCESSES, "lua-resty-lock", "takeover, 1 waiting, 150 x kill -9, p50", "from kill -9 to the next holder" },
    { BESIDE_NGINX, "ngx.shared", "get, one number, alone", "get a number" },
}


-- --- files of results -------------------------------------------------------------------------------------

local function cells_of(line)
    local cells = {}
    for cell in line:gmatch("| ([^|]*)") do
        cells[#cells + 1] = (cell:gsub("%s+$", ""))
    end
    return cells
end


-- Parses the text of a file. Returns two results: the tables by title, each { text =, rows = lists of cells }, and the
-- entries of the list above the tables by name, with the peer of the locks.
function _M.parse(text)
    local tables, facts, current = {}, {}, nil
    for line in text:gmatch("[^\n]*") do
        local title = line:match("^## (.+)")
        local name, fact = line:match("^%- ([^:]+): (.+)")
        if title then
            current = { lines = {}, rows = {} }
            tables[title] = current
        elseif current and line:find("^|") then
            table.insert(current.lines, line)
            table.insert(current.rows, cells_of(line))
        elseif name then
            facts[name] = fact
        end
        facts.peer = facts.peer or line:match("Locks: beside (.-) on ngx%.shared")
    end
    for _, found in pairs(tables) do
        found.text = table.concat(found.lines, "\n") .. "\n"
    end
    return tables, facts
end


-- Returns the first row whose name begins with `name`. If there are several such rows, the first is the most important.
local function find_row(found, name)
    for _, cells in ipairs(found and found.rows or {}) do
        if (" " .. cells[1]):find(" " .. name, 1, true) == 1 or cells[1]:find(name, 1, true) == 1 then
            return cells
        end
    end
end


local function summary(tables, facts, path)
    local rows = {}
    for _, row in ipairs(SUMMARY) do
        local how, other, name, what = unpack(row)
        local cells = find_row(tables[how.title], name)
        if not cells then
            return nil, ("%s has no row %q in a table %q"):format(path, name, how.title)
        end
        local theirs = how[5](cells[how[2]])
        rows[#rows + 1] = { what, how[4](cells[how[1]]), other .. (other ~= "" and ": " or "") .. theirs,
                            how[6](cells[how[3]]) }
    end
    return report.table({ "what", "holdfast", "compared with", "ratio" }, rows)
        .. ("\nAll figures are from one run, [%s](%s): %s; %s, load %s; %s%s.\n"):format(path:match("[^/]+$"), path,
            facts.date, facts.CPU, facts["load before"], facts.nginx, facts.peer and ", " .. facts.peer or "")
end


-- Returns the table reduced to its heading, the mixed cases and the cases that missed their target.
local function mixed_and_missed(found)
    local lines = {}
    for i, line in ipairs(found.lines) do
        if i <= 2 or line:find(", mixed", 1, true) or line:find("| missed:", 1, true) then
            lines[#lines + 1] = line
        end
    end
    return table.concat(lines, "\n") .. "\n"
end


-- Returns the text between the comments, or nil and the reason. read(path) returns the text of a file.
local function render(path, name, read)
    local text = read(path)
    if not text then
        return nil, path .. " is missing"
    end
    local tables, facts = _M.parse(text)
    if name == "summary" then
        return summary(tables, facts, path)
    end
    local title = name:match("^(.*), mixed and missed$")
    local found = tables[title or name]
    if not found then
        return nil, ("%s has no table %q"):format(path, title or name)
    end
    return title and mixed_and_missed(found) or found.text
end


-- --- documents ------------------------------------------------------------------------------------------

local REGION = "(<!%-%- figures: )([%a/]*bench/results/[%w%-]+%.md), ([^\n]-)( %-%->\n)(.-)"
    .. "(<!%-%- end of figures %-%->)"


-- Returns the name of a file of results without its date, such as "locks-".
local function kind_of(path)
    return path:match("([^/]-)%d%d%d%d%-%d%d%-%d%d%-%d%d%d%d%.md$")
end


-- Returns the document with new figures, or nil and a message. `newer` is a list of files that replace files of the
-- same kind.
function _M.update(document, read, newer)
    local fault
    local function renew(before, path, name, behind, _, ending)
        for _, file in ipairs(newer or {}) do
            if kind_of(file) == kind_of(path) then
                path = file
            end
        end
        local text, err = render(path, name, read)
        fault = fault or err
        return before .. path .. ", " .. name .. behind .. "\n" .. (text or "") .. "\n" .. ending
    end
    local result = document:gsub(REGION, renew)
    if fault then
        return nil, fault
    end
    return result
end


-- Returns the paths of the results that a document shows.
function _M.sources(document)
    local paths = {}
    for _, path in document:gmatch(REGION) do
        paths[#paths + 1] = path
    end
    return paths
end


return _M
