-- One process does both: the loops of bench/cases.lua, here and in nginx.

local report, runs, stats = require "bench.support" ("report", "runs", "stats")
local cases = require "bench.cases"

local NONE = report.NONE

local _M = {}


local function time_of(times)
    return times and report.digits(stats.median(times)) .. " ns" or NONE
end


local function row(case, times, why_not)
    local mine, other = times[case.name .. " holdfast"], times[case.name .. " ngx.shared"]
    local ratios = mine and other and stats.ratios(mine, other)
    local ratio, within, distance = report.ratio(ratios, case.target)
    return { case.what, time_of(mine), why_not or time_of(other), ratio, within, "<= " .. case.target .. "x", distance }
end


local function plain_row(case, times, why_not)
    local mine = times[case.name .. " holdfast"]
    if not mine then
        return { case.what, why_not or NONE, NONE }
    end
    local low, high = stats.middle_half(mine)
    return { case.what, time_of(mine), report.digits(low) .. "-" .. report.digits(high) .. " ns" }
end


-- Lists of times by case and side, here and in nginx; the peer's label; and why a place has none. A new process
-- now and then: where its memory happens to lie makes a difference.
local function measure(context, all)
    local here, there, label = {}, {}, nil
    local why_not, why_not_here = context.why_not, nil
    local processes = context.quick and 1 or (all and 4 or 5)
    for _ = 1, processes do
        local told = { rounds = 3, seconds = context.quick and 0.01 or 0.04, which = all and "dict" or "both" }
        local lines, err
        if not all or context.why_not then
            lines, err = runs.here(context, "side_by_side", told)
            runs.collect(here, lines, "loop")
            why_not_here = why_not_here or (not lines and runs.failed(err))
        end
        lines, err = runs.in_nginx(context, "side_by_side", told)
        runs.collect(there, lines, "loop")
        label = label or (lines and lines[1][2])
        why_not = why_not or (not lines and runs.failed(err))
    end
    return here, there, label, why_not, why_not_here
end


-- all: the cases of `make bench-peers`; otherwise those of `make bench`.
local function make(context, all)
    local here, there, label, why_not, why_not_here = measure(context, all)
    local rows, plain = {}, {}
    for _, case in ipairs(cases) do
        if case[all and "dict" or "both"] then
            rows[#rows + 1] = row(case, next(there) and there or here, why_not)
            plain[#plain + 1] = plain_row(case, here, why_not_here)
        end
    end
    local peer = label and (all and "" or label .. " and ")
        .. "lua-resty-core on ngx.shared, in turns in the same nginx worker"
    local beside = {
        title = "Side by side",
        headings = { "what", "holdfast", "ngx.shared", "ratio (middle half)", "least-most", "target", "distance" },
        rows = rows,
        note = "Against: " .. (peer or "nothing") .. ". Processor time per step, medians of all rounds.",
    }
    return beside, not all and {
        title = "The same loops in plain LuaJIT",
        headings = { "what", "holdfast", "middle half" },
        rows = plain,
    } or nil
end


function _M.some(context)
    return make(context, false)
end


function _M.all(context)
    return make(context, true)
end


return _M
