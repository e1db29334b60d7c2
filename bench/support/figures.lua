-- Figures in documents: the text between two comments comes from files of bench/results. The first comment names the
-- files.
--
--   <!-- figures: bench/results/RESULTS, TABLE -->    a table of the file, by its title
--   <!-- figures: bench/results/RESULTS, TABLE, mixed and missed -->
--                                                     its rows of mixed cases, and all rows that missed their target
--   <!-- figures: bench/results/RESULTS bench/results/RESULTS ..., summary -->
--                                                     the rows of SUMMARY from several runs, and their sources
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


-- Returns the number at the beginning of a cell.
local function number_of(cell)
    return tonumber(cell:match("^[%d.]+"))
end


-- Reads one row of SUMMARY in one run. Returns { figure, the other side's figure, ratio }, or nil and the reason.
local function read_row(row, run)
    local how, _, name = unpack(row)
    local cells = find_row(run.tables[how.title], name)
    if not cells then
        return nil, ("%s has no row %q in a table %q"):format(run.path, name, how.title)
    end
    return { how[4](cells[how[1]]), how[5](cells[how[2]]), how[6](cells[how[3]]) }
end


-- Returns the row of the run whose ratio, or figure if the row has no ratio, is the median of all runs. If the ratios
-- differ, their range follows in parentheses.
local function median_row(row, all)
    local found = {}
    for i, run in ipairs(all) do
        local cells, err = read_row(row, run)
        if not cells then
            return nil, err
        end
        found[i] = cells
    end
    local sorted_by = number_of(found[1][3]) and 3 or 1
    table.sort(found, function (a, b) return number_of(a[sorted_by]) < number_of(b[sorted_by]) end)
    local middle, least, most = found[math.ceil(#found / 2)], found[1][3], found[#found][3]
    local other, what = row[2], row[4]
    local range = least == most and "" or (" (%s-%s)"):format(least:match("[^x]+"), most:match("[^x]+"))
    return { what, middle[1], other .. (other ~= "" and ": " or "") .. middle[2], middle[3] .. range }
end


-- Returns the rows of SUMMARY, and a sentence about the runs, which are { path =, tables =, facts = }.
local function summary(all)
    local rows, sources = {}, {}
    for i, row in ipairs(SUMMARY) do
        local err
        rows[i], err = median_row(row, all)
        if not rows[i] then
            return nil, err
        end
    end
    for i, run in ipairs(all) do
        sources[i] = ("[%s](%s) (load %s)"):format(run.facts.date, run.path, run.facts["load before"])
    end
    local facts = all[1].facts
    return report.table({ "what", "holdfast", "compared with", "ratio (range)" }, rows)
        .. ("\nEach row is from the run with the median ratio, or with the median figure if the row has no ratio. Runs:"
            .. " %s; %s; %s%s.\n"):format(table.concat(sources, ", "), facts.CPU, facts.nginx,
                                         facts.peer and ", " .. facts.peer or "")
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


-- Returns the text between the comments, or nil and the reason. Only a summary reads all files, and a table comes from
-- the last one. read(path) returns the text of a file.
local function render(paths, name, read)
    local all = {}
    for path in paths:gmatch("%S+") do
        local text = read(path)
        if not text then
            return nil, path .. " is missing"
        end
        local tables, facts = _M.parse(text)
        all[#all + 1] = { path = path, tables = tables, facts = facts }
    end
    if name == "summary" then
        return summary(all)
    end
    local title = name:match("^(.*), mixed and missed$")
    local last = all[#all]
    local found = last.tables[title or name]
    if not found then
        return nil, ("%s has no table %q"):format(last.path, title or name)
    end
    return title and mixed_and_missed(found) or found.text
end


-- --- documents ------------------------------------------------------------------------------------------

local REGION = "(<!%-%- figures: )([%a/]*bench/results/[%w%-%./ ]+%.md), ([^\n]-)( %-%->\n)(.-)"
    .. "(<!%-%- end of figures %-%->)"


-- Returns the name of a file of results without its date, such as "locks-".
local function kind_of(path)
    return path:match("([^/]-)%d%d%d%d%-%d%d%-%d%d%-%d%d%d%d%.md$")
end


-- Returns the files of `newer` that are of the same kind as the paths and replace them: all for a summary, otherwise
-- the last one. Without such files, returns the paths.
local function replace(paths, name, newer)
    local same = {}
    for _, file in ipairs(newer or {}) do
        if kind_of(file) == kind_of(paths) then
            same[#same + 1] = file
        end
    end
    if not same[1] then
        return paths
    end
    return name == "summary" and table.concat(same, " ") or same[#same]
end


-- Returns the document with new figures, or nil and a message. `newer` is a list of files that replace files of the
-- same kind.
function _M.update(document, read, newer)
    local fault
    local function renew(before, paths, name, behind, _, ending)
        paths = replace(paths, name, newer)
        local text, err = render(paths, name, read)
        fault = fault or err
        return before .. paths .. ", " .. name .. behind .. "\n" .. (text or "") .. "\n" .. ending
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
    for _, named in document:gmatch(REGION) do
        for path in named:gmatch("%S+") do
            paths[#paths + 1] = path
        end
    end
    return paths
end


return _M
