-- docs/errors.md, about clusters: each message that it explains is one of the sources, and each sentence of theirs is
-- explained there.

local files, literals, shell = require "spec.support" ("files", "literals", "shell")

-- What has to be explained.
local EXPLAINED = shell.output("ls src/agent/*.cc src/etcd/*.cc src/service/*.cc src/cluster/*.cc src/capi/question.cc "
                               .. "src/dict/cluster_state.cc src/cli/agent_command.cc src/cli/run_agents.cc "
                               .. "src/cli/lock_agent.cc src/cli/question.cc lua/resty/holdfast/lock/cluster.lua")
-- Where messages may also come from.
local ALL = shell.output("find src lua -name '*.cc' -o -name '*.h' -o -name '*.lua'")

-- Sentences that are no messages: what etcd says, by which it is understood, and the command's help.
local PASSED_OVER = {
    ["authentication is not enabled"] = true,
    ["messages of the agent"] = true,
    ["etcdserver: no leader"] = true,
    ["the command line"] = true,
}
local HELP = { ["src/service/main.cc"] = "Print the version and exit" }

local WORDS_MIN = 3


local function trim(text)
    return (text:gsub("^[%s\":;,.()]+", ""):gsub("[%s\":;,.()]+$", ""))
end


-- The parts of a message between what differs, of WORDS_MIN words at least.
local function parts(text)
    local found = {}
    for part in (text:gsub("%b{}", "\0"):gsub("…", "\0") .. "\0"):gmatch("([^%z]*)%z") do
        part = trim(part:gsub("%s+", " "))
        if select(2, part:gsub("%S+", "")) >= WORDS_MIN then
            found[#found + 1] = part
        end
    end
    return found
end


-- The messages of the page, behind those of one machine: in backticks, in bold or in the first column of a table.
local function messages()
    local found = {}
    local text = assert(files.read("docs/errors.md"):match "\n## Locks of a cluster\n.*"):gsub("\n([^\n|])", " %1")
    for bold in text:gmatch("%*%*(.-)%*%*") do
        for message in bold:gmatch("`([^`]+)`") do
            found[#found + 1] = message
        end
    end
    for cell in text:gmatch("\n| (`[^|]+`) |") do
        for message in cell:gmatch("`([^`]+)`") do
            found[#found + 1] = message
        end
    end
    return found
end


local MESSAGES = messages()


-- What the system, TLS, the parser of JSON or etcd says comes from outside.
local FROM_OUTSIDE = { "^SSL", "^alert ", "^Connection refused", "^etcdserver: ", "^mvcc: ", "^parse error at " }

local function is_from_outside(part)
    for _, pattern in ipairs(FROM_OUTSIDE) do
        if part:find(pattern) then
            return true
        end
    end
    return false
end


-- All literals of the sources: their text, and the set of those of one word.
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


-- Whether the sources say it, in one literal or in several that they put together.
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


it("docs/errors.md has messages that there are", function ()
    assert.is_true(#MESSAGES > 60, #MESSAGES)
    local text, words = sources()
    local missing = {}
    for _, message in ipairs(MESSAGES) do
        for _, part in ipairs(parts(message)) do
            local said = part:gsub("^etcd at ", ""):gsub("^says: ", "")
            local found = is_from_outside(said) or is_said(said, text, words)
            missing[#missing + 1] = not found and said or nil
        end
    end
    assert.equal("", table.concat(missing, "\n"))
end)


it("docs/errors.md explains each sentence of the sources about clusters", function ()
    local page = table.concat(MESSAGES, "\n"):gsub("%s+", " ")
    local missing = {}
    for path in EXPLAINED:gmatch("%S+") do
        local helps = false
        for _, literal in ipairs(literals.of(path)) do
            helps = helps or literal == HELP[path]
            local footer = literal:find("\nExit status: ", 1, true)
            for _, part in ipairs(parts(literal)) do
                local explained = helps or footer or PASSED_OVER[part] or page:find(part, 1, true)
                missing[#missing + 1] = not explained and path .. ": " .. part or nil
            end
        end
    end
    assert.equal("", table.concat(missing, "\n"))
end)
