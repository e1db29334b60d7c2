-- The results of build/bench/micro_benchmarks, which measures single calls in C++.

local process, report, runs = require "bench.support" ("process", "report", "runs")

local NONE = report.NONE
local UNITS = { ns = "ns", us = "µs", ms = "ms" }

local _M = {}


-- Parses the CSV of Google Benchmark: name,iterations,real_time,cpu_time,time_unit,...
local function rows_of(context)
    local program = context.build .. "/bench/micro_benchmarks"
    local options = context.quick and " --benchmark_min_time=0.01 --benchmark_repetitions=3"
        or " --benchmark_min_time=0.1 --benchmark_repetitions=7"
    if process.output("test -x " .. process.quote(program) .. " && echo there") == "" then
        return { { "not built: " .. program, NONE, NONE } }
    end
    local csv = process.output(process.quote(program) .. options
                               .. " --benchmark_report_aggregates_only=true --benchmark_format=csv; echo status $?")
    local rows, deviations = {}, {}
    for name, time in csv:gmatch('"([^"\n]+)_stddev",[^,\n]*,[^,\n]*,([^,\n]+),') do
        deviations[name] = report.digits(tonumber(time))
    end
    for name, time, unit in csv:gmatch('"([^"\n]+)_median",[^,\n]*,[^,\n]*,([^,\n]+),(%w+)') do
        unit = " " .. UNITS[unit]
        rows[#rows + 1] = { name, report.digits(tonumber(time)) .. unit, deviations[name] .. unit }
    end
    local status = csv:match("status (%d+)$")
    if status ~= "0" then
        rows[#rows + 1] = { program, runs.failed("it ended with status " .. (status or "unknown")), NONE }
    end
    return rows
end


function _M.make(context)
    return {
        title = "One call in C++",
        headings = { "what", "processor time", "standard deviation" },
        rows = rows_of(context),
    }
end


return _M
