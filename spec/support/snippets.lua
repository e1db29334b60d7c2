-- Runs the code blocks of a Markdown file. Documents are tests: the code that they show must do what they say.
--
-- An HTML comment on the line before a block says how to treat the block:
--
--   <!-- file: NAME -->        write the block to this file, for the following blocks
--   <!-- workers: N -->        run the block with `holdfast run --workers N` (otherwise luajit); skip the section if
--                              the command is not built
--   <!-- nvim -->              run the block in a Neovim without windows
--   <!-- output -->            the output of the previous block
--   <!-- output like -->       the same, but numbers, even long hexadecimal ones, stand for any numbers
--   <!-- output unordered -->  the same lines, in any order
--   <!-- output first -->      the output in the first run of the section only, if the section runs twice
--   <!-- output again -->      the output in the second run
--   <!-- output once -->       the output in the first run; nothing in the second run; two concurrent runs
--                              print it once
--   <!-- answers: PATHS -->    the answers of the previous nginx to these requests, in order;
--                              "answers first" is like "output first"
--   <!-- not run: REASON -->   do not run it
--   <!-- needs: COMMAND -->    skip the block and the rest of its section if the command fails
--
-- Blocks of Lua and sh without a comment run and must succeed. A block of nginx with a server becomes part of http { }
-- of a real nginx. That nginx has a socket instead of port 8080, uses the modules of the checkout instead of the
-- block's lua_package_path, and runs until the end of the section. Blocks of other languages are ignored.

local command, fixture, http, shell, site =
    require "spec.support" ("command", "fixture", "http", "shell", "site")
local assert = require "luassert"

local _M = {}

local root = shell.output("pwd")


-- Returns the blocks of a file. Each is { heading =, language =, mark =, text =, line = }.
function _M.read(path)
    local blocks, heading, mark, block = {}, path, nil, nil
    local number = 0
    for line in assert(io.open(path)):lines() do
        number = number + 1
        if block then
            if line:match("^```%s*$") then
                block.text = table.concat(block, "\n") .. "\n"
                blocks[#blocks + 1] = block
                block, mark = nil, nil
            else
                block[#block + 1] = line
            end
        elseif line:match("^```") then
            block = { heading = heading, language = line:match("^```(%w*)"), mark = mark, line = number }
        else
            heading = line:match("^##? (.+)") or heading
            mark = line:match("^<!%-%- (.+) %-%->%s*$")
        end
    end
    assert(not block, path .. ": a code block has no end")
    return blocks
end


-- Returns the blocks under each heading as { heading =, blocks... }, in the order of the file.
function _M.sections(path)
    local sections = {}
    for _, block in ipairs(_M.read(path)) do
        local last = sections[#sections]
        if not last or last.heading ~= block.heading then
            last = { heading = block.heading }
            sections[#sections + 1] = last
        end
        last[#last + 1] = block
    end
    return sections
end


local function mark_argument(block, name)
    return block.mark and block.mark:match("^" .. name .. ":%s*(.+)$")
end


local function environment()
    return {
        PROGRAM = "/bin/sh",
        HOLDFAST_LIB = os.getenv("HOLDFAST_LIB") or root .. "/build/libholdfast.so",
        LUA_PATH = root .. "/lua/?.lua;;",
        PATH = command.program:match("^(.*)/") .. ":" .. os.getenv("PATH"),
        PROJECT = root,
    }
end


-- Returns the sh command that runs a block in the test's folder, or nil if the block does not run.
local function command_of(block)
    if mark_argument(block, "not run") or mark_argument(block, "file") then
        return nil
    end
    local file = ("block%d.%s"):format(block.line, block.language)
    local workers = mark_argument(block, "workers")
    if workers then
        return ("exec holdfast run --workers %s %s"):format(workers, file), file
    elseif block.mark == "nvim" then
        return ("exec nvim --headless -u NONE -i NONE -n -c 'luafile %s' -c 'qall!'"):format(file), file
    elseif block.language == "lua" then
        return "exec luajit " .. file, file
    elseif block.language == "sh" then
        return ". ./" .. file, file
    end
    return nil
end


local function sorted_lines(text)
    local lines = {}
    for line in text:gmatch("[^\n]+") do
        lines[#lines + 1] = line
    end
    table.sort(lines)
    return table.concat(lines, "\n")
end


-- Expands tabs as a terminal does.
local function expand_tabs(text)
    return (text:gsub("[^\n]+", function (line)
        local count
        repeat
            line, count = line:gsub("^([^\t]*)\t", function (before)
                return before .. (" "):rep(8 - #before % 8)
            end)
        until count == 0
        return line
    end))
end


local function normal_form(text, mark)
    text = expand_tabs(text)
    if mark:find("like", 1, true) then
        text = text:gsub("%f[%w]%x%x%x%x%x%x%x%x%x%x%x%x+%f[%W]", "N"):gsub("%d+%.%d+", "N"):gsub("%d+", "N")
    end
    return mark:find("unordered", 1, true) and sorted_lines(text) or text
end


local function is_site(block)
    return block.language == "nginx" and block.text:find("server {", 1, true) and not mark_argument(block, "not run")
end


local function start_site(block, where)
    local missing = site.missing()
    if missing then
        error(where .. missing, 0)
    end
    local text, ports = block.text:gsub("listen 8080;", "listen unix:" .. command.path("shown.sock") .. ";")
    assert.equal(1, ports, where .. "a server listens to port 8080")
    text = text:gsub("[^\n]*lua_package_path[^\n]*\n", "")
    -- Debian has no package of lua-resty-lock. This module behaves like it.
    text = text:gsub("/usr/local/openresty/lualib/resty/lock.lua", root .. "/bench/support/peer_lock.lua")
    return site.start { http = text, env = { HOLDFAST_DIR = command.world(), HOLDFAST_DICTS = false } }
end


local function ask(paths)
    local bodies = {}
    for path in paths:gmatch("%S+") do
        local connection = http.connect(command.path("shown.sock"))
        bodies[#bodies + 1] = connection:get(path)
        connection:close()
    end
    return table.concat(bodies)
end


local function compare(block, shown, where)
    assert.equal(normal_form(block.text, block.mark), normal_form(shown, block.mark), where .. "the output differs")
end


-- Runs a line of sh in the test's folder, and returns its output.
local function run_line(line, env, forgives, where)
    local ended, out, err = command.run("-ec", "cd '" .. command.path("") .. "'; " .. line, env)
    assert.same({ code = 0 }, ended, where .. err)
    assert.equal("", forgives and err:gsub(forgives, "") or err, where .. "something on standard error")
    return out
end


-- Runs two processes of the same program in an empty runtime directory.
local AT_THE_SAME_TIME = [[
run() { (%s); }
run & first=$!
run & second=$!
wait $first
wait $second
]]

local function compare_once(block, printed, run, round, where)
    if round == 1 then
        compare(block, printed, where)
        return
    end
    assert.equal("", printed, where .. "a second run prints something")
    assert(shell.succeeds("find " .. command.world() .. " -mindepth 1 -delete"))
    compare(block, run_line(AT_THE_SAME_TIME:format(run.line), run.env, nil, where), where)
end


-- Returns whether an output with this mark belongs to this round.
local function is_of_round(mark, round)
    local wanted = mark:find("first", 1, true) and 1 or mark:find("again", 1, true) and 2
    return not wanted or wanted == round
end


local function run_blocks(section, path, round)
    local printed, run = "", nil
    local env = environment()
    for name, value in pairs(section.env or {}) do
        env[name] = value
    end
    for _, block in ipairs(section) do
        local where = path .. ":" .. block.line .. ": " .. (round > 1 and "run once more: " or "")
        local file, paths = mark_argument(block, "file"), mark_argument(block, "answers")
        local first_paths = mark_argument(block, "answers first")
        local needed = mark_argument(block, "needs")
        if needed and not shell.succeeds(("PATH='%s'; { %s; } >/dev/null 2>&1"):format(env.PATH, needed)) then
            return
        elseif file then
            command.write(file, block.text)
        elseif paths then
            compare(block, ask(paths), where)
        elseif first_paths then
            if round == 1 then
                compare(block, ask(first_paths), where)
            end
        elseif is_site(block) then
            start_site(block, where)
        elseif block.mark and block.mark:find("^output once") then
            compare_once(block, printed, run, round, where)
        elseif block.mark and block.mark:find("^output") then
            if is_of_round(block.mark, round) then
                compare(block, printed, where)
            end
        else
            local line, script = command_of(block)
            if line then
                command.write(script, block.text)
                run = { line = line, env = env }
                printed = run_line(line, env, section.forgives, where)
            end
        end
    end
end


-- Runs the blocks of a section in order, in one folder and one runtime directory, which an earlier round may have used.
-- An error names the line.
function _M.run(section, path, round)
    local ok, err = pcall(run_blocks, section, path, round or 1)
    site.clean_up()
    if not ok then
        error(err, 0)
    end
end


local has_command = shell.succeeds("[ -x '" .. command.program .. "' ]")

local function missing(section)
    for _, block in ipairs(section) do
        if not has_command and mark_argument(block, "workers") then
            return "the holdfast command is not built"
        end
    end
    return nil
end


-- Defines a test for each section of a file, which checks that the section is true. The test's name begins with `text`.
-- prepare(section) may change the blocks, set variables of their environment in section.env, and set section.forgives
-- to a pattern for output that is allowed on standard error. `rounds` is the number of times that the section runs in
-- the same runtime directory, as readers might repeat it.
function _M.claims(path, text, prepare, rounds)
    for _, section in ipairs(_M.sections(path)) do
        fixture.it_unless(missing(section))(text .. section.heading, function ()
            if prepare then
                prepare(section)
            end
            for round = 1, rounds or 1 do
                _M.run(section, path, round)
            end
        end)
    end
end


return _M
