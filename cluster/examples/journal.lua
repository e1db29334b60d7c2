-- The journal that report.lua checks: each worker writes down when it had a lock. Real programs do not need this
-- module.

local ffi = require "ffi"

ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } journal_time;
int journal_clock(int clock, journal_time *time) __asm__("clock_gettime");
int getpid(void);
]]

local CLOCK_BOOTTIME = 7

local _M = {}
local file, who
-- Indexed by key: the fencing token of the grant, and the time until which the machine was sure of the lock when it got
-- the lock.
local holding = {}


local function now()
    local time = ffi.new("journal_time")
    ffi.C.journal_clock(CLOCK_BOOTTIME, time)
    return tonumber(time.seconds) + tonumber(time.nanoseconds) * 1e-9
end


-- Writes each line with one call, so that lines of several processes do not mix.
local function write(what, key, time)
    file:write(("%s %s %s %.6f %.0f\n"):format(what, key, who, time, holding[key].token))
    file:flush()
end


function _M.open(path, machine, number)
    file = assert(io.open(path, "a"))
    who = ("%s %d %d"):format(machine, number, ffi.C.getpid())
end


-- Records that the worker has got the lock.
function _M.begin(key, lock)
    local time = now()
    holding[key] = { token = lock:token(), sure_until = time + (lock:remaining() or 0) }
    write("begin", key, time)
end


-- Records that the worker is about to release the lock. A worker that has lost the lock had the lock only while the
-- machine was sure of it.
function _M.finish(key, lock)
    local time = now()
    write("end", key, lock:valid() and time or math.min(time, holding[key].sure_until))
end


function _M.note(key, what)
    write(what, key, now())
end


return _M
