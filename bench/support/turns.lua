-- Runs a part with several sides in turn, each in new processes.

local runs, sides, stats = require "bench.support" ("runs", "sides", "stats")

local _M = {}

-- The number of turns of each side.
_M.PROCESSES = 9

-- The sides, with the place where each runs and the options of its processes:
--
--   key      the key of the side's results
--   name     the side's name in the lines of results
--   place    "nginx" (in a worker) or "luajit" (in plain LuaJIT)
--   told     other options
--   missing  why the side cannot be measured
_M.SIDES = {
    { key = "ours", name = "holdfast", place = "nginx", only = "ours" },
    { key = "peer", name = "ngx.shared", place = "nginx", only = "peer" },
    { key = "plain", name = "holdfast", place = "luajit" },
    { key = "versions", name = "with versions", place = "luajit", side = "with_versions" },
    { key = "mutex", name = "robust mutex", place = "luajit", side = "robust_mutex" },
    { key = "flock", name = "flock", place = "luajit", side = "flock" },
}


-- Returns a side by its key, or the argument itself if it is a side.
local function side_of(key)
    for _, side in ipairs(_M.SIDES) do
        if side.key == key then
            return side
        end
    end
    return key
end


local function choose(context, wanted)
    local chosen, found, why_not = {}, {}, {}
    for i, key in ipairs(wanted) do
        local side = side_of(key)
        chosen[i] = side
        found[side.key] = {}
        why_not[side.key] = side.missing or side.place == "nginx" and context.why_not or nil
    end
    return chosen, found, why_not
end


local function run(context, side, part, options, processes)
    local told = { only = side.only, side = side.side, folder = context.folder }
    for _, more in ipairs { options, side.told or {} } do
        for name, value in pairs(more) do
            told[name] = value
        end
    end
    if side.place == "nginx" then
        return runs.in_nginx(context, part, told, processes)
    end
    return runs.here(context, part, told, processes)
end


-- Adds one value for each process to the lists: the median of its measurements.
local function collect(lists, lines, name)
    for _, words in ipairs(lines) do
        if words[1] == name then
            lists[words[2]] = lists[words[2]] or {}
            table.insert(lists[words[2]], stats.median({ unpack(words, 4) }))
        end
    end
end


-- Runs a part that emits lines "PART case side times...", in _M.PROCESSES processes of each side, in turn. With
-- `count`, each run has this number of processes. `wanted` is a list of sides or of their keys. Returns three results:
-- a table from keys of sides to lists of times by case; a table from keys of sides to the reason if there are no times;
-- and the label of the peer.
function _M.compare(context, part, options, wanted, count)
    local chosen, found, why_not = choose(context, wanted)
    local label
    for _, i in sides.turns(context.quick and 1 or _M.PROCESSES, #chosen) do
        local side = chosen[i]
        if not why_not[side.key] then
            local lines, err = run(context, side, part, options, count)
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


-- Runs a part in `count` processes of each side, in turn, three times. Returns two results: a table from keys of sides
-- to the lines of all runs, and a table from keys of sides to the reason if there are no lines.
function _M.lines(context, part, options, wanted, count)
    local chosen, lines, why_not = choose(context, wanted)
    for _, i in sides.turns(context.quick and 1 or 3, #chosen) do
        local key = chosen[i].key
        if not why_not[key] then
            local found, err = run(context, chosen[i], part, options, count)
            why_not[key] = not found and runs.failed(err) or nil
            lines[key] = stats.concat { lines[key], found or {} }
        end
    end
    return lines, why_not
end


-- Returns the lines that begin with a word.
function _M.named(lines, name)
    local found = {}
    for _, words in ipairs(lines) do
        found[#found + 1] = words[1] == name and words or nil
    end
    return found
end


-- Adds the rates of all processes of a run, round by round, to the lists by case.
local function add_up(lists, lines)
    local sums = {}
    for _, words in ipairs(lines) do
        if words[1] == "rate" then
            sums[words[2]] = sums[words[2]] or {}
            local sum = sums[words[2]]
            for i = 4, #words do
                sum[i - 3] = (sum[i - 3] or 0) + words[i]
            end
        end
    end
    for case, sum in pairs(sums) do
        lists[case] = stats.concat { lists[case] or {}, sum }
    end
end


-- Runs a part that emits lines "rate case side rates..." (bench/support/part.lua), in as many concurrent processes as
-- each number of the list `counts`. Each side has `turns` turns with each number. Returns two results: a table from
-- numbers and keys of sides to the rates of all processes together, as lists by case; and a table from keys of sides to
-- the reason if there are no rates.
function _M.together(context, part, options, wanted, counts, turns)
    local chosen, _, why_not = choose(context, wanted)
    local found = {}
    for _, count in ipairs(counts) do
        found[count] = {}
        for _, side in ipairs(chosen) do
            found[count][side.key] = {}
        end
    end
    for _, i in sides.turns(turns, #chosen * #counts) do
        local side, count = chosen[(i - 1) % #chosen + 1], counts[math.ceil(i / #chosen)]
        if not why_not[side.key] then
            local lines, err = run(context, side, part, options, count)
            if lines then
                add_up(found[count][side.key], lines)
            else
                why_not[side.key] = runs.failed(err)
            end
        end
    end
    return found, why_not
end


return _M
