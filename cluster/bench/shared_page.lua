-- A page of memory that all contenders of a run share, whatever kind of lock they take. They use it to start together,
-- and the holder of the lock uses it to detect whether it is alone. cluster/bench/clients/shared_page.h does the same
-- for C++.

local clock, system_locks = require "bench.support" ("clock", "system_locks")
local ffi = require "ffi"

local now = clock.now

ffi.cdef [[
typedef struct {
  double start;       // CLOCK_MONOTONIC; 0: not known yet; below 0: there is none
  double owner;       // that is in the section: its number from 1; 0: nobody
  double counter;     // of sections: less than all were, if two overlapped
  int32_t ready[64];  // by the number of the contender, from 0; below 0: it will not be
} holdfast_bench_page;
]]

-- Seconds within which all contenders must arrive, and seconds from the last arrival to the start.
local PATIENCE = 60
local RUN_UP = 0.02
local LOOK = 0.001

local _M = { CONTENDERS_MAX = 64 }
local Page = {}
Page.__index = Page


-- self: the contender's number, from 0; the driver has none.
function _M.open(path, self)
    return setmetatable({ page = system_locks.map(path, "holdfast_bench_page"), self = self, overlaps = 0 }, Page)
end


-- --- the driver -----------------------------------------------------------------------------------------

-- Waits for contenders 0 to count - 1. Returns false if one of them does not arrive: then nobody starts.
function Page:await(count)
    assert(count <= _M.CONTENDERS_MAX, "more contenders than places")
    local patience = now() + PATIENCE
    for i = 0, count - 1 do
        while self.page.ready[i] <= 0 do
            if now() > patience or self.page.ready[i] < 0 then
                self.page.start = -1
                return false
            end
            clock.sleep(LOOK)
        end
    end
    return true
end


function Page:start()
    self.page.start = now() + RUN_UP
end


-- Returns the number of sections if none overlapped.
function Page:sections()
    return self.page.counter
end


-- --- a contender ----------------------------------------------------------------------------------------

-- Reports that this contender is ready, waits for the start, and returns the start time.
function Page:await_start()
    self.page.ready[self.self] = 1
    local patience = now() + PATIENCE
    while self.page.start == 0 and now() < patience do
        clock.sleep(LOOK)
    end
    local start = self.page.start
    assert(start > 0, "the other contenders did not arrive")
    clock.sleep(start - now())
    return start
end


-- Reports that this contender will not be ready.
function Page:give_up()
    self.page.ready[self.self] = -1
end


-- Runs the section under the lock: keeps the processor busy for this time. `overlaps` counts how often this contender
-- is not alone.
function Page:section(seconds)
    local page, number = self.page, self.self + 1
    if page.owner ~= 0 then
        self.overlaps = self.overlaps + 1
    end
    page.owner = number
    local count = page.counter
    local ending = now() + seconds
    repeat until now() >= ending
    if page.owner ~= number then
        self.overlaps = self.overlaps + 1
    end
    page.counter = count + 1
    page.owner = 0
end


return _M
