-- The scheduler's tasks that wait for a descriptor. While there are any, the process sleeps in poll(2), where it hears
-- of wake-ups by the parker's own descriptor.

local ffi = require "ffi"
local parker = require "resty.holdfast.parker"

require "resty.holdfast.core"  -- declares ppoll

local C = ffi.C
local ffi_new = ffi.new
local band = bit.band
local floor = math.floor
local max = math.max
local min = math.min

local EVENTS = { r = 0x001, w = 0x004 }  -- POLLIN, POLLOUT
local POLLNVAL = 0x020
local POLLIN = EVENTS.r

-- Without a descriptor of its own the parker is looked at this often. Longer sleeps than the other are made of several.
local LOOK_EVERY = 0.005
local LONGEST = 86400

local _M = { EVENTS = EVENTS }

-- Place 0 of the set is the parker's; then the waits, each at its place.
local waits, count = {}, 0
local room = 16
local set = ffi_new("struct holdfast_pollfd[?]", room)
local timeout = ffi_new("struct holdfast_timespec")


local function grow()
    local larger = ffi_new("struct holdfast_pollfd[?]", 2 * room)
    ffi.copy(larger, set, room * ffi.sizeof("struct holdfast_pollfd"))
    set, room = larger, 2 * room
end


function _M.is_empty()
    return count == 0
end


-- A wait for the descriptor: task:wake() is called when it is ready. Its field `events` says then what for.
function _M.add(task, fd, events)
    if count + 1 == room then
        grow()
    end
    count = count + 1
    local wait = { task = task, place = count, events = 0 }
    waits[count] = wait
    set[count].fd, set[count].events, set[count].revents = fd, events, 0
    return wait
end


function _M.remove(wait)
    local place = wait.place
    if place ~= count then
        local last = waits[count]
        waits[place], last.place = last, place
        set[place].fd, set[place].events = set[count].fd, set[count].events
        set[place].revents = set[count].revents
    end
    waits[count] = nil
    count = count - 1
end


local function poll(descriptors, number, seconds)
    seconds = max(min(seconds, LONGEST), 0)
    timeout.sec = floor(seconds)
    timeout.nsec = (seconds - floor(seconds)) * 1e9
    local ready = C.holdfast_ppoll(descriptors, number, timeout, nil)
    return ready
end


-- The same for one descriptor that nobody else waits for meanwhile: what it is ready for; 0 for nothing.
function _M.wait(fd, events, seconds)
    local one = ffi_new("struct holdfast_pollfd[1]")
    one[0].fd, one[0].events = fd, events
    local ready
    repeat
        ready = poll(one, 1, seconds)
        seconds = seconds - LONGEST
    until ready ~= 0 or seconds <= 0
    return ready > 0 and one[0].revents or 0
end


-- Sleeps until a descriptor is ready, a waiter of the parker is woken, `seconds` have passed, or a signal came.
function _M.park(seconds)
    local own = parker.fd()
    set[0].fd, set[0].events, set[0].revents = own or -1, POLLIN, 0
    local ready = poll(set, count + 1, own and seconds or min(seconds, LOOK_EVERY))
    if ready > 0 then
        for place = 1, count do
            local wait = waits[place]
            if set[place].revents ~= 0 then
                wait.events = set[place].revents
                wait.task:wake()
            end
        end
    end
    parker.sleep(0)
end


-- Whether what has come tells that there is no such descriptor.
function _M.is_closed(events)
    return band(events, POLLNVAL) ~= 0
end


return _M
