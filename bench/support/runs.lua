-- Runs of parts, for those that make tables of them.

local nginx = require "bench.support.nginx"
local process = require "bench.support.process"

local _M = {}

-- How many parts did not work. That nginx is not there is no failure.
_M.failures = 0


-- What a table says in place of a number.
function _M.failed(err)
    _M.failures = _M.failures + 1
    return "failed: " .. (err or "no result")
end


-- Runs a part in `count` LuaJIT processes: the lines of its results; or nil and what went wrong.
function _M.here(context, part, options, count, hosts)
    options.root = context.root
    return process.run(part, options, count or 1, hosts)
end


-- The same in as many workers of nginx.
function _M.in_nginx(context, part, options, workers)
    if not context.nginx then
        return nil, context.why_not
    end
    return nginx.run(part, options, context.nginx, context.root, workers or 1)
end


-- The line that begins with these words.
function _M.find(lines, name, second)
    for _, words in ipairs(lines or {}) do
        if words[1] == name and (not second or words[2] == second) then
            return words
        end
    end
end


-- Lists of numbers by "first word, second word", from lines that begin with `name`: those of several runs in one.
function _M.collect(lists, lines, name)
    for _, words in ipairs(lines or {}) do
        if words[1] == name then
            local key = words[2] .. " " .. words[3]
            lists[key] = lists[key] or {}
            for i = 4, #words do
                table.insert(lists[key], words[i])
            end
        end
    end
end


return _M
