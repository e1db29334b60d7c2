-- Tests docs/errors.md, which quotes the messages of the command and of clusters. Each quoted message must be in the
-- sources, and each message in the sources must be quoted, with or without its advice.

local command, files, literals, shell = require "spec.support" ("command", "files", "cluster/literals", "shell")

-- The sources whose messages must be quoted.
local EXPLAINED = shell.output("ls cluster/src/*/*.cc tools/src/*/*.cc cluster/src/capi/question.cc "
                               .. "cluster/src/gate/cluster_state.cc lua/resty/holdfast/dictionary/gate.lua "
                               .. "cluster/lua/resty/holdfast/cluster/state.lua")
-- All sources that may contain messages.
local ALL = shell.output("find src tools/src cluster/src lua cluster/lua -name '*.cc' -o -name '*.h' -o -name '*.lua'")

-- Sentences that are not our messages, but texts from etcd, or results.
local PASSED_OVER = {
    ["authentication is not enabled"] = true,
    ["messages of the agent"] = true,
    ["etcdserver: no leader"] = true,
    ["the command line"] = true,
}
-- Files that print only results.
local RESULTS = {
    ["tools/src/look/top_rows.cc"] = true,
    ["tools/src/serve/families.cc"] = true,
    ["tools/src/serve/metrics.cc"] = true,
}
-- The beginnings of results, process titles and HTTP fields in files that also contain messages.
local SHOWN = {
    ["tools/src/cluster/cluster_command.cc"] = { ", pid ", ", since ", ", why: " },
    ["tools/src/cluster/status_command.cc"] = { "more than 1 s", "no dictionary: ", "; half within ",
                                                "session {} with " },
    ["tools/src/lock/descriptor_lock.cc"] = { "holdfast: keeper of " },
    ["tools/src/lock/lock_guard.cc"] = { "holdfast: guard of " },
    ["tools/src/lock/lock_taker.cc"] = { "waits for the flock(2) of " },
    ["tools/src/queue/job_runner.cc"] = { "holdfast: guard of queue " },
    ["tools/src/lock/wait_notice.cc"] = { "waiting for " },
    ["tools/src/look/locks_command.cc"] = { " has been held by ", " is not held ", " (", ", child", ": --json ",
                                            "{} {} for {}", "{}{} {}, ", "a command waits ", "{} commands wait ",
                                            "{} processes wait " },
    ["tools/src/look/ls_command.cc"] = { "lock reserved ms", "cache hits, ", "cache load " },
    ["tools/src/look/top_screen.cc"] = { "CONT: ", "JOBS: ", "LOADS: ", "LOCKS: ", "~LOCKS: ",
                                         "P50, P99: ", "no locks are held",
                                         "F1 Help ",
                                   " (and {} more: ", "Arrows scroll" },
    ["tools/src/look/top_view.cc"] = { "it is no longer held or waited for", "{}? [y/N, k" },
    ["tools/src/run/run_command.cc"] = { "holdfast: master " },
    ["tools/src/run/worker.cc"] = { "holdfast: worker " },
    ["tools/src/inspect/processes.cc"] = { "a dead process", "an unknown process" },
    ["tools/src/serve/reply.cc"] = { "text/plain; ", "application/openmetrics", "Method Not ", "Request Header ",
                               "Content-Security-Policy: " },
    ["cluster/src/service/main.cc"] = { ": waiting until the other agent" },
}
-- Mistakes on a command line share one entry, because their messages need no explanation.
local USAGE = {
    "^bad ", "expected one of ", "^expected either ", "^: expected seconds from ", "^unknown ", "^no .*given",
    "^ after %-c ", "^: the command follows", "^%-%-agent.* needs? ", "^given twice", "^; unlike flock",
    " cannot be combined", "takes no value$", "^expected status, ", "^expected ls, ", "--batch$", "not supported",
    "^there is nothing to unlock", "Try \"",
}
local HAS_USAGE = { "^tools/src/", "^cluster/src/service/main" }
-- Mistakes in the agent's configuration also share one entry.
local CONFIGURED = { "expected ", "^unknown field " }
local HAS_CONFIGURATION = { "^cluster/src/service/config", "^cluster/src/service/main" }
-- `holdfast doctor` prints advice for each finding, so the page explains only findings that need more advice.
local DOCTORS = { "^tools/src/inspect/health", "^tools/src/look/doctor_command" }

local WORDS_MIN = 3


local function trim(text)
    return (text:gsub("^[%s\":;,.()]+", ""):gsub("[%s\":;,.()]+$", ""))
end


-- Returns a message without the advice after its first semicolon, which the page omits.
local function without_advice(text)
    return (text:gsub(";.*", ""))
end


-- Returns the constant parts of a message that have at least WORDS_MIN words.
local function parts(text)
    local found = {}
    local marked = text:gsub("%b{}", "\0"):gsub("%%s", "\0"):gsub("…", "\0")
    for part in (marked .. "\0"):gmatch("([^%z]*)%z") do
        part = trim(part:gsub("%s+", " "))
        if select(2, part:gsub("%S+", "")) >= WORDS_MIN then
            found[#found + 1] = part
        end
    end
    return found
end


-- The text of the page after the part about a single machine.
local PAGE = assert(files.read("docs/errors.md"):match "\n## All commands\n.*")


-- Returns the page's messages, which are text in backticks, in bold or in the first column of a table, and lines of
-- blocks.
local function messages()
    local found = {}
    local prose = PAGE:gsub("\n```text\n(.-)```", function (block)
        for line in block:gmatch "[^\n]+" do
            found[#found + 1] = line
        end
        return ""
    end)
    local text = prose:gsub("\n([^\n|])", " %1")
    for bold in text:gmatch("%*%*(.-)%*%*") do
        for message in bold:gmatch("`([^`]+)`") do
            found[#found + 1] = message
        end
    end
    for cell in text:gmatch("\n| (`[^|]+) |") do
        for message in cell:gmatch("`([^`]+)`") do
            found[#found + 1] = message
        end
    end
    return found
end


local MESSAGES = messages()


-- Messages from the system, from TLS, from the JSON parser and from etcd.
local FROM_OUTSIDE = { "^SSL", "^OpenSSL ", "^alert ", "^Connection refused", "^etcdserver: ", "^mvcc: ",
                       "^parse error at ", "^could not load PEM client certificate", "^unable to set private key file",
                       "^error setting certificate file" }

local function finds_one(text, patterns)
    for _, pattern in ipairs(patterns) do
        if text:find(pattern) then
            return true
        end
    end
    return false
end


-- Returns all literals in the sources as one text and as a set.
local function sources()
    local texts, words = {}, {}
    for path in ALL:gmatch("%S+") do
        for _, literal in ipairs(literals.of(path)) do
            local text = literal:gsub("%b{}", "…")
            texts[#texts + 1] = text
            words[trim(text)] = true
        end
    end
    return table.concat(texts, "\n"), words
end


-- Returns whether the sources contain the part, in one literal or in several joined literals.
local function is_said(part, text, words)
    if text:find(part, 1, true) or words[part] then
        return true
    end
    for at = #part, 1, -1 do
        if part:sub(at, at) == " " then
            local first = trim(part:sub(1, at - 1))
            local found = first:find(" ", 1, true) and text:find(first, 1, true) or words[first]
            if found and is_said(trim(part:sub(at + 1)), text, words) then
                return true
            end
        end
    end
    return false
end


it("docs/errors.md quotes only messages that exist", function ()
    assert.is_true(#MESSAGES > 180, #MESSAGES)
    local text, words = sources()
    local missing = {}
    for _, message in ipairs(MESSAGES) do
        for _, part in ipairs(parts(message)) do
            local said = part:gsub("^etcd at ", ""):gsub("^says: ", "")
            local found = finds_one(said, FROM_OUTSIDE) or is_said(said, text, words)
            missing[#missing + 1] = not found and said or nil
        end
    end
    assert.equal("", table.concat(missing, "\n"))
end)


local function begins_with_one(text, beginnings)
    for _, beginning in ipairs(beginnings) do
        if text:sub(1, #beginning) == beginning then
            return true
        end
    end
    return false
end


-- Returns whether a literal is part of a result that a command prints, such as a line, a column or JSON.
local function is_result(path, literal)
    return RESULTS[path] or literal:find "\n$" or literal:find "\t" or literal:find "%S   +%S" or literal:find "^  "
           or literal:find "^{{" or begins_with_one(literal, SHOWN[path] or {})
end

local function is_usage(path, literal)
    return finds_one(path, HAS_USAGE) and finds_one(literal, USAGE)
           or finds_one(path, HAS_CONFIGURATION) and finds_one(literal, CONFIGURED)
end


-- Returns the `--help` of all commands.
local function helps()
    local _, text = command.run("--help")
    local all = { text }
    for name in text:match("\nCommands:\n(.*)"):gmatch "\n?  (%l+) [^\n]+" do
        local help = select(2, command.run(name, "--help"))
        all[#all + 1] = help
        for subcommand in (help:match "\nSubcommands:\n(.-)\n\n" or ""):gmatch "  ([%l-]+) +%u" do
            all[#all + 1] = select(2, command.run(name, subcommand, "--help"))
        end
    end
    return (table.concat(all, "\n"):gsub("%s+", " "))
end


describe("docs/errors.md", function ()
    setup(command.set_up)
    teardown(command.tear_down)

    it("quotes each message of the command and the agent, and each message about clusters", function ()
        local help = helps()
        local page = table.concat(MESSAGES, "\n"):gsub("%s+", " ")
        local missing = {}
        for path in EXPLAINED:gmatch("%S+") do
            for _, literal in ipairs(finds_one(path, DOCTORS) and {} or literals.of(path)) do
                local passes = is_result(path, literal) or is_usage(path, literal)
                for _, part in ipairs(passes and {} or parts(without_advice(literal))) do
                    local explained = PASSED_OVER[part] or page:find(part, 1, true) or help:find(part, 1, true)
                    missing[#missing + 1] = not explained and path .. ": " .. part or nil
                end
            end
        end
        assert.equal("", table.concat(missing, "\n"))
    end)
end)


it("docs/errors.md lists each system call whose name begins a message", function ()
    local found = 0
    for path in EXPLAINED:gmatch("%S+") do
        for call in (files.read(path)):gmatch '[( ]"([%w_]+)"%);\n' do
            local before = files.read(path):match('([^\n]*)"' .. call .. '"%);\n')
            if before:find "system_error" or before:find "fail%($" then
                found = found + 1
                assert(PAGE:gsub("%s+", " "):find("**`" .. call .. ": …`**", 1, true), path .. ": " .. call)
            end
        end
    end
    assert.is_true(found > 6, found)
end)
