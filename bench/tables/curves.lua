-- The throughput of one lock, and the waits for it, as the number of contenders grows. bench/plot draws the curves.

local contention, report, stats = require "bench.support" ("contention", "report", "stats")

local NONE = report.NONE
local HELD, PAUSE = 0.001, 0.02
-- The number of contenders for which the durations of the waits are kept, too.
local CROWD = 100
local LABELS = { holdfast = "holdfast", nginx = "lua-resty-lock", flock = "flock" }
local NAMES = { "holdfast", "nginx", "flock" }

local _M = {}


local function sides_of(contenders, seconds)
    local workers = math.min(contenders, 2)
    local coroutines = contenders / workers
    return {
        { name = "holdfast", workers = workers, coroutines = coroutines, seconds = seconds },
        { name = "nginx", workers = workers, coroutines = coroutines, seconds = seconds },
        { name = "flock", side = "flock", workers = contenders, coroutines = 0, seconds = seconds },
    }
end


local function keep_distribution(figures, figure, label, durations)
    for _, point in ipairs(stats.distribution(durations)) do
        figures:add(figure, label, point[1], point[2] * 100)
    end
end


local function keep(figures, contenders, found)
    for _, name in ipairs(NAMES) do
        local result = found[name]
        if result.rate then
            figures:add("throughput", LABELS[name], contenders, result.rate)
        end
        if result.rate and contenders == CROWD then
            keep_distribution(figures, "waits", LABELS[name], result.waits)
            keep_distribution(figures, "longest", LABELS[name], result.longest_waits)
        end
    end
end


local function row(contenders, found)
    local mine, theirs, flock = found.holdfast, found.nginx, found.flock
    return {
        tostring(contenders), mine.rate_text, theirs.rate_text, flock.rate_text,
        mine.rate and theirs.rate and ("%.2fx"):format(mine.rate / theirs.rate) or NONE,
        mine.longest_text, theirs.longest_text, flock.longest_text,
    }
end


function _M.make(context)
    local rows = {}
    for i, contenders in ipairs(context.quick and { 1, 10 } or { 1, 4, 10, 20, 50, CROWD, 200 }) do
        local seconds = context.quick and 0.3 or contenders == CROWD and 3 or 1
        local found = contention.compare(context, sides_of(contenders, seconds), { held = HELD, pause = PAUSE },
                                         context.quick and 1 or 2)
        keep(context.figures, contenders, found)
        rows[i] = row(contenders, found)
    end
    return {
        title = "One key, held for 1 ms, requested again after 20 ms",
        headings = { "contenders", "holdfast", "lua-resty-lock", "flock", "holdfast / lua-resty-lock",
                     "longest wait: holdfast", "lua-resty-lock", "flock" },
        rows = rows,
        note = "Contenders are coroutines of two processes; with flock, they are processes.",
    }
end


return _M
