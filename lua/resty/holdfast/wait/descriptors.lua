-- Tasks that wait for a descriptor. While there are any, the process sleeps in poll(2), and the parker's own descriptor
-- reports wake-ups.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local parker = require "resty.holdfast.wait.parker"

local C, errno, ffi_new = ffi.C, ffi.errno, ffi.new
local band, floor, max, min = bit.band, math.floor, math.max, math.min
local has_listeners = parker.has_listeners

local EINVAL = 22
local EVENTS = { r = 0x001, w = 0x004 }  -- POLLIN, POLLOUT
local INT_MAX = 2 ^ 31 - 1
local POLLNVAL = 0x020
local POLLIN = EVENTS.r

-- The longest single sleep.
local LONGEST = 86400
local POLL_EVERY = parker.POLL_EVERY

local _M = { EVENTS = EVENTS }

-- Place 0 of the set is the parker's; each wait has its own. The hook of a time limit may raise an error between any
-- two steps: a counted wait is in its place, and a wait may stay that nothing removes.
local waits, count = {}, 0
local room = 16
local set = ffi_new("struct holdfast_pollfd[?]", room)
local timeout = ffi_new("struct holdfast_timespec")

-- The kernel polls at most as many places at once as the process may have descriptors. There may be more waits: several
-- for one descriptor, and some for closed ones.
local most = INT_MAX


local function grow()
    local larger = ffi_new("struct holdfast_pollfd[?]", 2 * room)
    ffi.copy(larger, set, room * ffi.sizeof("struct holdfast_pollfd"))
    set = larger
    room = 2 * room
end


function _M.is_empty()
    return count == 0
end


-- Adds a wait for the descriptor. It must be the cause of the task's wait: task:wake() is called when the descriptor is
-- ready, and the field `events` says for what.
function _M.add(task, fd, events)
    if count + 1 == room then
        grow()
    end
    local place = count + 1
    local wait = { task = task, place = place, events = 0 }
    waits[place] = wait
    set[place].fd, set[place].events, set[place].revents = min(fd, INT_MAX), events, 0
    count = place
    return wait
end


function _M.remove(wait)
    local place, last = wait.place, count
    if place ~= last then
        set[place].fd, set[place].events, set[place].revents = set[last].fd, set[last].events, set[last].revents
        waits[place] = waits[last]
        waits[place].place = place
    end
    count = last - 1
    waits[last] = nil
end


local function poll(descriptors, number, seconds)
    seconds = max(min(seconds, LONGEST), 0)
    timeout.sec = floor(seconds)
    timeout.nsec = (seconds - floor(seconds)) * 1e9
    local ready = C.holdfast_ppoll(descriptors, number, timeout, nil)
    return ready
end


-- Waits for one descriptor that no task waits for: what it is ready for; 0 for nothing. A signal does not end the wait.
function _M.wait(fd, events, seconds)
    local one = ffi_new("struct holdfast_pollfd[1]")
    one[0].fd, one[0].events = min(fd, INT_MAX), events
    local now = core.C.holdfast_now
    local deadline = now() + seconds
    local left = seconds
    local ready
    repeat
        ready = poll(one, 1, left)
        left = deadline - now()
    until ready > 0 or left <= 0
    return ready > 0 and one[0].revents or 0
end


-- Polls in parts. The last one polled has the parker in it, and is the one to sleep in.
local function poll_all(number, seconds)
    local ready = 0
    for first = floor((number - 1) / most) * most, 0, -most do
        local part = min(number - first, most)
        local found = poll(set + first, part, first == 0 and ready == 0 and seconds or 0)
        if found < 0 and part > 1 and errno() == EINVAL then
            most = floor(part / 2)
            return ready  -- the rest is looked at in the next turn
        end
        ready = ready + max(found, 0)
    end
    return ready
end


-- Backwards, because removing one puts the last one in its place.
local function wake_ready()
    for place = count, 1, -1 do
        local wait = waits[place]
        local events = set[place].revents
        if events ~= 0 then
            if wait.task.cause ~= wait then
                _M.remove(wait)
            else
                wait.events = events
                wait.task:wake()
            end
        end
    end
end


-- Sleeps until a descriptor is ready, a waiter of the parker is woken, `seconds` have passed, or a signal came.
function _M.park(seconds)
    local listeners = has_listeners()
    local own = listeners and parker.fd() or nil
    set[0].fd, set[0].events, set[0].revents = own or -1, POLLIN, 0
    if listeners and not own or count >= most then
        seconds = min(seconds, POLL_EVERY)
    end
    if poll_all(count + 1, seconds) > 0 then
        wake_ready()
    end
    if listeners then
        parker.sleep(0)
    end
end


-- Whether the events say that there is no such descriptor.
function _M.is_closed(events)
    return band(events, POLLNVAL) ~= 0
end


return _M
