-- Runs child processes that print lines of words separated by tabs.

local hosts = require "bench.support.hosts"

-- How long a child may run, in seconds. No part takes this long; a child that hangs is ended.
local LIMIT = 180

local _M = {}


function _M.quote(word)
    return "'" .. word:gsub("'", "'\\''") .. "'"
end
local quote = _M.quote


-- Returns the output of a command, without the last newline.
function _M.output(command)
    local pipe = assert(io.popen("{ " .. command .. "; } 2>/dev/null", "r"))
    local text = pipe:read("*a")
    pipe:close()
    return (text:gsub("%s+$", ""))
end


local cores, can_pin


function _M.cores()
    cores = cores or tonumber(_M.output("nproc")) or 1
    return cores
end


-- Returns the command, pinned to one processor if there are several.
function _M.pinned(command, number)
    if can_pin == nil then
        can_pin = _M.cores() > 1 and _M.output("command -v taskset") ~= ""
    end
    return can_pin and "taskset -c " .. number % _M.cores() .. " " .. command or command
end


-- Formats options as bench/support/part.lua reads them.
local function write(options)
    local words = {}
    for name, value in pairs(options) do
        words[#words + 1] = name .. "=" .. tostring(value)
    end
    table.sort(words)
    return table.concat(words, ",")
end


-- Starts a child, with its options in its environment.
function _M.start(command, part, told)
    local pipe = assert(io.popen("HOLDFAST_BENCH_PART=" .. part .. " HOLDFAST_BENCH_OPTIONS="
                                 .. quote(write(told)) .. " exec timeout " .. LIMIT .. " " .. command, "r"))
    local function lines()
        return function ()
            local line = pipe:read("*l")
            if not line then
                return nil
            end
            local words = {}
            for word in (line .. "\t"):gmatch("([^\t]*)\t") do
                words[#words + 1] = tonumber(word) or word
            end
            return words
        end
    end
    return { lines = lines, close = function () pipe:close() end }
end


-- Returns the lines, or nil and the reason if a line reports a failure.
function _M.check(lines)
    for _, words in ipairs(lines) do
        if words[1] == "failed" then
            return nil, words[2]
        end
    end
    return lines
end


-- Runs a part in `count` concurrent LuaJIT processes, and returns all their lines. `names` is a list of hosts of
-- bench/support/hosts.lua, one for each process (default: the scheduler).
function _M.run(part, told, count, names)
    local children, lines = {}, {}
    for i = 1, count do
        told.process, told.workers, told.host = i - 1, count, names and names[i]
        local command = told.host and hosts[told.host].command
                        or "luajit " .. quote(told.root .. "/bench/child.lua") .. " " .. part
        children[i] = _M.start(count > 1 and _M.pinned(command, i - 1) or command, part, told)
    end
    for _, child in ipairs(children) do
        for words in child.lines() do
            lines[#lines + 1] = words
        end
        child.close()
    end
    if #lines < count then
        return nil, "a process failed"
    end
    return _M.check(lines)
end


return _M
