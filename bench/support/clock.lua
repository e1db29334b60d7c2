-- Clocks and sleep. All times are in seconds.

local ffi = require "ffi"

local C = ffi.C
local tonumber = tonumber

ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } holdfast_bench_time;
int holdfast_bench_clock(int clock, holdfast_bench_time *time) __asm__("clock_gettime");
int holdfast_bench_sleep(const holdfast_bench_time *time, holdfast_bench_time *left) __asm__("nanosleep");
]]

local MONOTONIC = 1
local PROCESS_CPU = 2
local THREAD_CPU = 3

local time = ffi.new("holdfast_bench_time")


local function read(clock)
    C.holdfast_bench_clock(clock, time)
    return tonumber(time.seconds) + tonumber(time.nanoseconds) * 1e-9
end


local _M = {}


-- Returns the time of a clock that is the same in all processes.
function _M.now()
    return read(MONOTONIC)
end


-- Returns the processor time of this thread, which excludes other work on the same processor.
function _M.cpu()
    return read(THREAD_CPU)
end


-- Returns the processor time of all threads of the process.
function _M.process_cpu()
    return read(PROCESS_CPU)
end


-- Sleeps, which stops the whole process; returns immediately if `seconds` is 0 or less.
function _M.sleep(seconds)
    if seconds > 0 then
        time.seconds = math.floor(seconds)
        time.nanoseconds = (seconds % 1) * 1e9
        repeat until C.holdfast_bench_sleep(time, time) == 0
    end
end


return _M
