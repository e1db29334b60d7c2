-- The parker in which this Lua state sleeps, the listeners of its waiters, and the descriptors that tasks wait for. The
-- parker is created when it is first needed. Each sleep in this module, of the scheduler or of a blocked process,
-- delivers the wake-ups of all waiters.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C, answer, sentence = core.C, core.answer, core.sentence
local band, errno, floor, max = bit.band, ffi.errno, math.floor, math.max
local error, min, next = error, math.min, next
local ffi_gc, ffi_new, ffi_string, getpid = ffi.gc, ffi.new, ffi.string, ffi.C.getpid

local OK, PATH_MAX, SYSTEM = core.OK, core.PATH_MAX, core.SYSTEM

local EINVAL = 22
local EVENTS = { r = 0x001, w = 0x004 }  -- POLLIN, POLLOUT
local INT_MAX = 2 ^ 31 - 1
local POLLNVAL = 0x020
local POLLIN = EVENTS.r

local _M = {
    EVENTS = EVENTS,
    -- How often a host without a descriptor for wake-ups polls for them, in seconds. No benchmark covers this constant,
    -- because all hosts in benchmarks have a descriptor.
    POLL_EVERY = 0.005,
}

-- The maximum duration of a single sleep, in seconds.
local LONGEST = 86400

-- The maximum number of waiters that one call returns. The benchmark "100 waiters for one value" depends on it.
local MAX_WOKEN = 64
local woken = ffi_new("uint32_t[?]", MAX_WOKEN)

local parker
local parker_pid

-- The listeners, indexed by waiter number. A listener is an object with a method wake.
local listeners = {}


-- The function that before_free() has set.
local before_free


-- Frees the parker. This is its finaliser. When the Lua state is closed, it may run before or after the finalisers of
-- objects that have waiters here.
local function free(old)
    if old == parker then
        if before_free then
            before_free()
        end
        parker = nil
        parker_pid = nil
    end
    C.holdfast_parker_free(old)
end


-- Returns the parker, or nil and the reason. A forked child creates its own parker, and gets no wake-ups for its
-- parent's waiters.
local function get()
    local pid = getpid()
    if parker_pid ~= pid then
        local new = C.holdfast_parker_new()
        if new == nil then
            return nil, sentence(SYSTEM)
        end
        parker = ffi_gc(new, free)
        parker_pid = pid
        listeners = {}
    end
    return parker
end
_M.get = get


-- Sets a function that is called when the Lua state is closed, before the parker is freed. This call is the last chance
-- to leave queues.
function _M.before_free(fn)
    before_free = fn
end


-- Returns whether a parker from get() is still usable, because it was not freed and does not belong to a parent
-- process.
function _M.is_mine(other)
    return other == parker and parker_pid == getpid()
end


-- Makes each wake-up of the waiter call listener:wake() from now on.
function _M.listen(waiter, listener)
    listeners[waiter] = listener
end


function _M.forget(waiter)
    listeners[waiter] = nil
end


-- Makes a function that creates the parker if necessary, and calls fn(parker, argument). On failure, the function
-- returns nil and the reason.
local function of_parker(fn)
    return function (argument)
        local here, err = _M.get()
        if not here then
            return nil, err
        end
        return fn(here, argument)
    end
end


-- Returns the descriptor that is readable while sleep(0) has wake-ups to deliver, or nil and the reason.
_M.fd = of_parker(function (here)
    local fd = C.holdfast_parker_fd(here)
    if fd < 0 then
        return nil, sentence(SYSTEM)
    end
    return fd
end)


-- Makes the descriptor readable after `seconds`; nil cancels this. Returns true, or nil and the reason.
_M.timer = of_parker(function (here, seconds)
    return answer(C.holdfast_parker_timer(here, seconds and min(seconds, LONGEST) or -1), true)
end)


-- Listens at a path, for loops that can wait only for their own connections. Replaces an earlier path and its
-- connection. Returns the path, or nil and the reason. The caller must connect to the path and call accept(). The
-- connection then receives a byte whenever sleep(0) has wake-ups to deliver, and when timer() expires. After reading
-- the byte, call sleep(0).
_M.listen_at = of_parker(function (here)
    local path = ffi_new("char[?]", PATH_MAX)
    local code = C.holdfast_parker_listen(here, path, PATH_MAX)
    return answer(code, code == OK and ffi_string(path))
end)


-- Accepts the connection to the path of listen_at(), which this process must have made, and removes the path. Returns
-- true, or nil and the reason.
_M.accept = of_parker(function (here)
    return answer(C.holdfast_parker_accept(here), true)
end)


-- Closes the listening socket and the connection, if there are any.
function _M.disconnect()
    if parker and _M.is_mine(parker) then
        C.holdfast_parker_disconnect(parker)
    end
end


local function note(listener)
    listener.woken = true
end


-- Creates a listener, whose field `woken` becomes true when it is woken.
function _M.new_listener()
    return { wake = note, woken = false }
end


-- Returns the results of a host's wait(w, s).
function _M.outcome(is_woken)
    if is_woken then
        return true
    end
    return nil, "timeout"
end


local function go_on_waiting(listener, deadline, step)
    local left = deadline - C.holdfast_now()
    while left > 0 and not listener.woken do
        step(left)
        left = deadline - C.holdfast_now()
    end
end


-- Implements wait(w, s) for a host that sleeps by calling step(left), which may return early. Wake-ups of other waiters
-- and signals end a sleep, but not the wait.
function _M.wait(waiter, seconds, step)
    local listener = _M.new_listener()
    listeners[waiter] = listener
    local deadline = C.holdfast_now() + seconds
    step(seconds)
    if not listener.woken then
        go_on_waiting(listener, deadline, step)
    end
    listeners[waiter] = nil
    return _M.outcome(listener.woken)
end


-- Calls step(left), a sleep that may return early, until `seconds` have passed or until is_over(), if given, returns
-- true.
function _M.for_seconds(seconds, step, is_over)
    local deadline = C.holdfast_now() + seconds
    local left = seconds
    repeat
        step(left)
        left = deadline - C.holdfast_now()
    until left <= 0 or (is_over and is_over())
end


function _M.has_listeners()
    return next(listeners) ~= nil
end


-- After a sleep that has woken one waiter, no loop runs until the waiter's next attempt, so that LuaJIT compiles all
-- steps. While caches are cold, an interpreted access to a C object takes a microsecond.

local function sleep_and_collect(here, seconds)
    local count = C.holdfast_parker_sleep(here, seconds, woken, MAX_WOKEN)
    return count
end


local function tell(position)
    local listener = listeners[woken[position]]
    if listener then
        listener:wake()
    end
end


-- Calls the listeners of `count` waiters, and then of all others that are woken.
local function tell_all(here, count)
    while count ~= 0 do
        if count < 0 then
            error("holdfast: cannot sleep: " .. sentence(SYSTEM), 0)
        end
        for position = 0, count - 1 do
            tell(position)
        end
        count = count == MAX_WOKEN and sleep_and_collect(here, 0) or 0
    end
end


-- Sleeps until a waiter is woken, `seconds` have passed or a signal arrives, and then calls the listeners. Does not
-- sleep if `seconds` is 0.
function _M.sleep(seconds)
    local here, err = parker, nil
    -- Without a sleep, any parker will do: in a forked child, the parent's parker has no wake-ups.
    if seconds ~= 0 or not here then
        here, err = get()
    end
    if not here then
        error("holdfast: cannot sleep: " .. err, 0)
    end
    local count = sleep_and_collect(here, min(seconds, LONGEST))
    if count == 1 then
        tell(0)
    elseif count ~= 0 then
        tell_all(here, count)
    end
end


-- --- tasks that wait for a descriptor ---
--
-- While any task waits for a descriptor, the process sleeps in poll(2), and the parker's descriptor reports wake-ups.

-- Position 0 of the set belongs to the parker; each wait has its own position. A debug hook, for example one that
-- enforces a time limit, may raise an error between any two steps. So a wait is stored in its position before it is
-- counted. After such an error, a wait may remain in the set.
local waits, count = {}, 0
local room = 16
local set = ffi_new("struct holdfast_pollfd[?]", room)
local timeout = ffi_new("struct holdfast_timespec")

-- The maximum number of positions for one call to poll, which is the maximum number of descriptors that the process may
-- have. There may be more waits, because several waits may share a descriptor, and some may be for closed descriptors.
local most = INT_MAX


local function grow()
    local larger = ffi_new("struct holdfast_pollfd[?]", 2 * room)
    ffi.copy(larger, set, room * ffi.sizeof("struct holdfast_pollfd"))
    set = larger
    room = 2 * room
end


function _M.has_no_descriptors()
    return count == 0
end


-- Adds a wait for a descriptor, and returns this wait, which must become the cause of the task's wait. When the
-- descriptor is ready, task:wake() is called, and the field `events` says for which events it is ready.
function _M.add_descriptor(task, fd, events)
    if count + 1 == room then
        grow()
    end
    local position = count + 1
    local wait = { task = task, position = position, events = 0 }
    waits[position] = wait
    set[position].fd, set[position].events, set[position].revents = min(fd, INT_MAX), events, 0
    count = position
    return wait
end


function _M.remove_descriptor(wait)
    local position, last = wait.position, count
    if position ~= last then
        set[position] = set[last]
        waits[position] = waits[last]
        waits[position].position = position
    end
    count = last - 1
    waits[last] = nil
end


local function poll(descriptors, number, seconds)
    seconds = max(min(seconds, LONGEST), 0)
    timeout.sec = floor(seconds)
    timeout.nsec = (seconds - floor(seconds)) * 1e9
    local ready = ffi.C.holdfast_ppoll(descriptors, number, timeout, nil)
    return ready
end


-- Waits for one descriptor outside of tasks. Returns the events for which the descriptor is ready, or 0. A signal does
-- not end the wait.
function _M.wait_for_descriptor(fd, events, seconds)
    local one = ffi_new("struct holdfast_pollfd[1]")
    one[0].fd, one[0].events = min(fd, INT_MAX), events
    local now = C.holdfast_now
    local deadline = now() + seconds
    local left = seconds
    local ready
    repeat
        ready = poll(one, 1, left)
        left = deadline - now()
    until ready > 0 or left <= 0
    return ready > 0 and one[0].revents or 0
end


-- Polls in parts. The last part contains the parker's position, and only its poll may sleep.
local function poll_all(number, seconds)
    local ready = 0
    for first = floor((number - 1) / most) * most, 0, -most do
        local part = min(number - first, most)
        local found = poll(set + first, part, first == 0 and ready == 0 and seconds or 0)
        if found < 0 and part > 1 and errno() == EINVAL then
            most = floor(part / 2)
            return ready  -- the next call polls the rest
        end
        ready = ready + max(found, 0)
    end
    return ready
end


-- Wakes the tasks whose descriptors are ready. Runs backwards, because when a wait is removed, the last wait moves into
-- its position.
local function wake_ready()
    for position = count, 1, -1 do
        local wait = waits[position]
        local events = set[position].revents
        if events ~= 0 then
            if wait.task.cause ~= wait then
                _M.remove_descriptor(wait)
            else
                wait.events = events
                wait.task:wake()
            end
        end
    end
end


-- Sleeps until a descriptor is ready, one of the parker's waiters is woken, `seconds` have passed, or a signal arrives.
function _M.sleep_with_descriptors(seconds)
    local listening = _M.has_listeners()
    local own = listening and _M.fd() or nil
    set[0].fd, set[0].events, set[0].revents = own or -1, POLLIN, 0
    if listening and not own or count >= most then
        seconds = min(seconds, _M.POLL_EVERY)
    end
    if poll_all(count + 1, seconds) > 0 then
        wake_ready()
    end
    if listening then
        _M.sleep(0)
    end
end


-- Returns whether the events mean that the descriptor does not exist.
function _M.is_closed(events)
    return band(events, POLLNVAL) ~= 0
end


return _M
