-- Runs of a part by several sides, each in fresh processes of its own, in turns.

local runs, sides, stats = require "bench.support" ("runs", "sides", "stats")

local _M = {}

-- How often each side has its turn.
_M.PROCESSES = 9

-- Where a side runs, and what its processes are told.
--
--   key      what its results are found by
--   name     it has in the lines of results
--   place    "nginx": in a worker; "luajit": in plain LuaJIT
_M.SIDES = {
    { key = "ours", name = "holdfast", place = "nginx", only = "ours" },
    { key = "peer", name = "ngx.shared", place = "nginx", only = "peer" },
    { key = "plain", name = "holdfast", place = "luajit" },
    { key = "mutex", name = "robust mutex", place = "luajit", side = "robust_mutex" },
    { key = "flock", name = "flock", place = "luajit", side = "flock" },
}


local function run(context, side, part, options)
    local told = { only = side.only, side = side.side, folder = context.folder }
    for name, value in pairs(options) do
        told[name] = value
    end
    if side.place == "nginx" then
        return runs.in_nginx(context, part, told)
    end
    return runs.here(context, part, told)
end


-- One value for each process: the median of what it has measured.
local function collect(lists, lines, name)
    for _, words in ipairs(lines) do
        if words[1] == name then
            lists[words[2]] = lists[words[2]] or {}
            table.insert(lists[words[2]], stats.median({ unpack(words, 4) }))
        end
    end
end


-- Runs a part that emits lines "PART case side times...", in context.processes processes of each side, in turns.
-- wanted: a list of the keys of sides. The result: by key, lists of times by case; why a key has none, by key; and the
-- label of the peer.
function _M.compare(context, part, options, wanted)
    local chosen, found, why_not, label = {}, {}, {}, nil
    for _, side in ipairs(_M.SIDES) do
        for _, key in ipairs(wanted) do
            if side.key == key then
                chosen[#chosen + 1] = side
                found[key] = {}
                why_not[key] = side.place == "nginx" and context.why_not or nil
            end
        end
    end
    for _, i in sides.turns(context.quick and 1 or _M.PROCESSES, #chosen) do
        local side = chosen[i]
        if not why_not[side.key] then
            local lines, err = run(context, side, part, options)
            if lines then
                collect(found[side.key], lines, part)
                label = label or (runs.find(lines, "peer") or {})[2]
            else
                why_not[side.key] = runs.failed(err)
            end
        end
    end
    return found, why_not, label
end


return _M
