-- How well what is evicted is chosen.

local report, runs = require "bench.support" ("report", "runs")

local NONE = report.NONE

local _M = {}


-- The lines in their order, those of a trace and size together.
local function group(lines)
    local groups, by_name = {}, {}
    for _, words in ipairs(lines) do
        if words[1] == "ratio" then
            local name = words[2] .. " " .. words[3]
            if not by_name[name] then
                by_name[name] = { trace = words[2], share = words[3] }
                groups[#groups + 1] = by_name[name]
            end
            by_name[name][words[4]] = { ratio = words[5], held = words[7] }
        end
    end
    return groups
end


local function percent(measured, why_not)
    return measured and ("%.2f %%"):format(measured.ratio) or why_not or NONE
end


local function row(found, why_not)
    local mine, lru, peer = found.holdfast, found.lru, found["ngx.shared"]
    local more = mine.ratio - lru.ratio
    return {
        ("%s, %d %%"):format(found.trace, found.share), ("%d"):format(mine.held), percent(mine), percent(lru),
        percent(found.fifo), percent(peer, why_not), peer and ("%d"):format(peer.held) or NONE,
        ("%s: %+.2f"):format(more >= 0 and "met" or "missed", more),
    }
end


function _M.make(context)
    local told = { requests = context.quick and 100000 or 1000000, quick = context.quick and 1 or nil }
    local lines, err
    if context.nginx then
        lines, err = runs.in_nginx(context, "hit_ratio", told)
    else
        lines, err = runs.here(context, "hit_ratio", told)
    end
    local rows = {}
    for i, found in ipairs(group(lines or {})) do
        rows[i] = row(found, context.why_not)
    end
    if not lines then
        rows[1] = { runs.failed(err), NONE, NONE, NONE, NONE, NONE, NONE, NONE }
    end
    return {
        title = "Hits, with room for a share of all keys",
        headings = { "requests, room", "entries", "holdfast", "exact LRU", "FIFO", "ngx.shared", "entries",
                     "at least LRU" },
        rows = rows,
        note = "LRU and FIFO hold as many entries as holdfast did; ngx.shared has the same memory.",
    }
end


return _M
