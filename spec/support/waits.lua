-- The time, and bounded waits for other processes.

local ffi = require "ffi"
local files = require "spec.support.files"

ffi.cdef [[
int clock_gettime(int clock, void *time);
int usleep(unsigned int microseconds);
]]

local C = ffi.C

local CLOCK_MONOTONIC = 1
local POLL_US = 5000

local _M = {}

_M.PATIENCE = 60 -- seconds; only limits how long a test can hang

local time = ffi.new("int64_t[2]")


function _M.now()
    C.clock_gettime(CLOCK_MONOTONIC, time)
    return tonumber(time[0]) + tonumber(time[1]) / 1e9
end


function _M.sleep(seconds)
    C.usleep(seconds * 1e6)
end


-- Returns the first true value of condition(), or nil on a timeout.
function _M.await(condition, seconds)
    local deadline = _M.now() + (seconds or _M.PATIENCE)
    repeat
        local value = condition()
        if value then
            return value
        end
        C.usleep(POLL_US)
    until _M.now() > deadline
    return nil
end


-- Returns whether a process is alive and not a zombie.
function _M.alive(pid)
    local stat = files.find("/proc/" .. pid .. "/stat")
    return stat ~= nil and not stat:match("^%d+ %(.*%) [ZX]")
end


return _M
