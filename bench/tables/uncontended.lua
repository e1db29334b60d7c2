-- A lock that nobody else wants, beside those of nginx and of the operating system.

local report, runs, stats = require "bench.support" ("report", "runs", "stats")

local NONE = report.NONE
-- At most this share of lua-resty-lock's time.
local TARGET = 0.5
local SIDES = { "holdfast", "ngx.shared", "robust mutex", "flock" }
local NAMES = { ["ngx.shared"] = "lua-resty-lock" }

local _M = {}


local function row(name, times, mine, why_not)
    local what = NAMES[name] or name
    if not times then
        return { what, why_not or NONE, NONE, NONE, NONE }
    end
    local low, high = stats.middle_half(times)
    local ratios = name ~= "holdfast" and stats.ratios(mine, times) or nil
    local ratio, _, distance = report.ratio(ratios, name == "ngx.shared" and TARGET)
    return { what, report.digits(stats.median(times)) .. " ns",
             report.digits(low) .. "-" .. report.digits(high) .. " ns", ratio, distance }
end


function _M.make(context)
    local lists, err, label = {}, nil, nil
    for _ = 1, context.quick and 1 or 5 do
        local told = { rounds = 3, seconds = context.quick and 0.01 or 0.04, which = "locks" }
        local lines
        if context.nginx then
            lines, err = runs.in_nginx(context, "side_by_side", told)
            label = label or (lines and lines[1][2])
        else
            lines, err = runs.here(context, "side_by_side", told)
        end
        runs.collect(lists, lines, "loop")
    end
    local rows = {}
    local mine = lists["lock_unlock holdfast"]
    local why_not = context.why_not or (not mine and runs.failed(err)) or nil
    for i, name in ipairs(SIDES) do
        rows[i] = row(name, lists["lock_unlock " .. name], mine, why_not)
    end
    return {
        title = "Lock and unlock, nobody else",
        headings = { "lock", "time", "middle half", "holdfast's share of it (middle half)",
                     "<= " .. TARGET .. "x of lua-resty-lock" },
        rows = rows,
        note = "Processor time, in turns in the same process" .. (label and ", a worker of nginx. lua-resty-lock is "
               .. label or "") .. ".",
    }
end


return _M
