-- Two ways to wait for a lock that somebody else holds. Both answer with the seconds waited, the lease being filled, or
-- with nil and the reason. An attempt that ends with TIMEOUT met a process that is stopped inside the dictionary; as it
-- may go on, so does the wait.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local parker = require "resty.holdfast.parker"

local C = core.C
local error = error
local ffi_gc = ffi.gc
local ffi_new = ffi.new
local max = math.max
local min = math.min
local pcall = pcall
local reason = core.reason

local LOCKED = core.LOCKED
local OK = core.OK
local TIMEOUT = core.TIMEOUT

local _M = {}

local pause_ptr = ffi_new("double[1]")


-- Steps: sleep, try, a longer sleep. What is reported is their sum, not the clock's opinion; only attempts that were
-- held up by a stopped process count as what they took.
function _M.poll(host, handle, key, exptime, timeout, lease, step, ratio, max_step)
    local elapsed = 0
    while timeout > 0 do
        host.sleep(step)
        elapsed = elapsed + step
        timeout = timeout - step

        local before = host.now()
        local code = C.holdfast_lock_try(handle, key, #key, exptime, lease)
        if code == OK then
            return elapsed
        end
        if code == TIMEOUT then
            local blocked = max(host.now() - before, 0)
            elapsed = elapsed + blocked
            timeout = timeout - blocked
        elseif code ~= LOCKED then
            return nil, reason(code)
        end
        if timeout <= 0 then
            break
        end

        step = min(max(0.001, step * ratio), timeout, max_step)
    end
    return nil, "timeout"
end


-- A place is a waiter of this Lua state, and the lock in whose queue it stands. Places are used again: making one costs
-- as much as the rest of a wake-up. `state` is apart from the place because the guard's finaliser refers to it, and
-- what a finaliser refers to must not refer to the guard.
local idle_places, idle_count = {}, 0


local function leave(state)
    if state.handle and parker.is_mine(state.parker) then
        C.holdfast_lock_leave(state.handle, state.key, #state.key, state.parker, state.waiter)
    end
    state.handle = nil
end


local function make_place(here)
    local waiter = C.holdfast_waiter_open(here)
    if waiter == 0 then
        return nil
    end
    local state = { parker = here, waiter = waiter, handle = nil, key = nil }
    local function abandon()
        leave(state)
        if parker.is_mine(here) then
            C.holdfast_waiter_close(here, waiter)
        end
    end
    -- A coroutine that is never resumed gives nothing back; the collector does it.
    return { state = state, guard = ffi_gc(ffi_new("char[1]"), abandon) }
end


-- nil when there is no room for another waiter.
local function open_place()
    local here = parker.get()
    if not here then
        return nil
    end
    local place
    repeat
        place = idle_places[idle_count]
        if not place then
            place = make_place(here)
            break
        end
        idle_places[idle_count] = nil
        idle_count = idle_count - 1
    until place.state.parker == here  -- not so: it is a parent process's
    return place
end


local function close_place(place, granted)
    local state = place.state
    if granted then
        state.handle = nil
    else
        leave(state)
    end
    if parker.is_mine(state.parker) then
        idle_count = idle_count + 1
        idle_places[idle_count] = place
    end
end


-- Waits in the queue. true when the lock is granted; otherwise nil and the reason.
local function wait_in_place(place, host, handle, key, exptime, deadline, lease)
    local state = place.state
    local here, waiter = state.parker, state.waiter
    while true do
        local code = C.holdfast_lock_wait(handle, key, #key, exptime, here, waiter, lease, pause_ptr)
        if code == OK then
            return true
        end
        if code == LOCKED then
            state.handle, state.key = handle, key
        elseif code ~= TIMEOUT then
            return nil, reason(code)
        end
        local pause = pause_ptr[0]
        local left = deadline - host.now()
        if left <= 0 then
            return nil, "timeout"
        end
        host.wait(waiter, max(min(pause, left), 0))
        if not parker.is_mine(here) then
            return nil, "forked"
        end
    end
end


-- Sleeps until the lock is released, and tries again at least as often as the library asks for. Without room for a
-- waiter it is nil, nil.
function _M.wake(host, handle, key, exptime, timeout, lease)
    local start = host.now()
    local deadline = start + timeout
    local place, ok, granted, err
    repeat
        place = open_place()
        if not place then
            return nil, nil
        end
        ok, granted, err = pcall(wait_in_place, place, host, handle, key, exptime, deadline, lease)
        close_place(place, ok and granted)
    until err ~= "forked"
    if not ok then
        error(granted, 0)
    end
    if not granted then
        return nil, err
    end
    return max(host.now() - start, 0)
end


return _M
