-- The smallest loop that can host holdfast: coroutines that wait for a descriptor or a moment, and poll(2). One of a
-- program's own, as docs/hosts.md shows it.

local clock = require "bench.support.clock"
local ffi = require "ffi"

local C = ffi.C
local now = clock.now

ffi.cdef [[
struct holdfast_bench_pollfd { int fd; short events; short revents; };
int poll(struct holdfast_bench_pollfd *fds, unsigned long count, int timeout);
]]

local POLLIN = 1

local _M = {}

-- Coroutine to { fd =, deadline = }.
local suspended = {}
local inside


local function resume(co)
    suspended[co] = nil
    inside = co
    local ok, err = coroutine.resume(co)
    inside = nil
    if not ok then
        error(debug.traceback(co, err), 0)
    end
end


-- The calling coroutine goes on when the descriptor is readable or the time is over.
function _M.wait_fd(fd, seconds)
    suspended[coroutine.running()] = { fd = fd, deadline = now() + seconds }
    coroutine.yield()
end


function _M.sleep(seconds)
    _M.wait_fd(-1, seconds)
end


function _M.is_inside()
    return inside ~= nil and coroutine.running() == inside
end


function _M.spawn(fn, ...)
    local arguments = { ... }
    suspended[coroutine.create(function () fn(unpack(arguments)) end)] = { fd = -1, deadline = 0 }
end


-- Until nobody waits.
function _M.run()
    while next(suspended) do
        local waits, first = {}, math.huge
        for co, wait in pairs(suspended) do
            waits[#waits + 1] = { co = co, wait = wait }
            first = math.min(first, wait.deadline)
        end
        local fds = ffi.new("struct holdfast_bench_pollfd[?]", #waits)
        for i, entry in ipairs(waits) do
            fds[i - 1].fd, fds[i - 1].events = entry.wait.fd, POLLIN
        end
        C.poll(fds, #waits, math.ceil(math.max(first - now(), 0) * 1000))
        for i, entry in ipairs(waits) do
            if fds[i - 1].revents ~= 0 or entry.wait.deadline <= now() then
                resume(entry.co)
            end
        end
    end
end


return _M
