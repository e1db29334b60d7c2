-- Two ways to wait for a lock: wake and poll. Both fill the lease and return the seconds waited, or nil and the reason,
-- after a deadlock its keys. TIMEOUT: a process is stopped inside the dictionary. BUSY, in a forked child: a process is
-- entering the world. Both may pass, so the wait goes on.
--
-- A request: { handle, key, exptime, timeout, holder (tasks/task_ids.lua), fair, step, ratio, max_step }; for permits
-- also kind, want and total. To wait only for the end of a grant: `watched`, the cell of its number, and no lease,
-- exptime, holder and fair.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local parker = require "resty.holdfast.wait.parker"
local task_ids = require "resty.holdfast.tasks.task_ids"

local C, reason, unpack_keys = core.C, core.reason, core.unpack_keys
local error, max, min, next, pcall, type = error, math.max, math.min, next, pcall, type
local ffi_gc, ffi_new, ffi_typeof = ffi.gc, ffi.new, ffi.typeof
local get_parker, is_mine = parker.get, parker.is_mine

local BUFFER, BUSY, DEADLOCK, INVALID = core.BUFFER, core.BUSY, core.DEADLOCK, core.INVALID
local LOCKED, OK, SYSTEM, TIMEOUT = core.LOCKED, core.OK, core.SYSTEM, core.TIMEOUT
local HOLDS_NOTHING, HOLDS_SOMETHING = core.HOLDS_NOTHING, core.HOLDS_SOMETHING
local HOLDS_EVERYTHING = core.HOLDS_EVERYTHING

-- A reason that no host can give.
local FORKED = {}
-- Seconds until another attempt to enter.
local BUSY_SLEEP = 0.05

local wait_type = ffi_typeof("holdfast_wait")

local _M = {}


local function try(request, lease)
    local key = request.key
    if request.watched then
        return C.holdfast_lock_watch(request.handle, key, #key, nil, request.watched)
    end
    if request.kind then
        return C.holdfast_permits_try(request.handle, key, #key, request.kind, request.want, request.total,
                                      request.exptime, request.holder, request.fair, lease)
    end
    return C.holdfast_lock_try(request.handle, key, #key, request.exptime, request.holder, request.fair, lease)
end
_M.try = try


-- A host replaces this where a waiting coroutine may vanish: takes such waiters out of their queues; whether there were
-- any. A caller that does not wait asks before giving up: a free lock may be reserved for one of them.
function _M.find_gone()
    return false
end


-- No tail calls: those of C functions are not compiled.
local function wait_once(request, wait, lease)
    local key = request.key
    local code
    if request.watched then
        code = C.holdfast_lock_watch(request.handle, key, #key, wait, request.watched)
    elseif request.kind then
        code = C.holdfast_permits_wait(request.handle, key, #key, request.kind, request.want, request.total,
                                       request.exptime, wait, lease)
    else
        code = C.holdfast_lock_wait(request.handle, key, #key, request.exptime, wait, lease)
    end
    return code
end


-- Whether a host's answer ends the wait: nil and a reason other than a timeout.
local function gives_up(answer, why)
    return answer == nil and type(why) == "string" and why ~= "timeout"
end


-- Polls: sleep, try, sleep longer. Reports the sum of the sleeps, not the clock's time; attempts that a stopped process
-- has blocked count as long as they took.
function _M.poll(host, request, lease)
    local timeout, step = request.timeout, request.step
    local elapsed = 0
    while timeout > 0 do
        local slept, why = host.sleep(step)
        if gives_up(slept, why) then
            return nil, why
        end
        elapsed = elapsed + step
        timeout = timeout - step

        local before = host.now()
        local code = try(request, lease)
        if code == OK then
            return elapsed
        end
        if code == TIMEOUT or code == BUSY then
            local blocked = max(host.now() - before, 0)
            elapsed = elapsed + blocked
            timeout = timeout - blocked
        elseif code ~= LOCKED then
            return nil, reason(code)
        end
        if timeout <= 0 then
            break
        end

        step = min(max(0.001, step * request.ratio), timeout, request.max_step)
    end
    return nil, "timeout"
end


-- A place: a waiter of this Lua state and the lock it queues for. Places are reused, because making one costs as much
-- as the rest of a wake-up. `state` is apart from the place: the guard's finaliser refers to it, and must not refer to
-- the guard.
local idle_places, idle_count = {}, 0

-- States of all places, by waiter number.
local states = {}


local function leave(state)
    local code = OK
    if state.handle and is_mine(state.parker) then
        code = C.holdfast_lock_leave(state.handle, state.key, #state.key, state.parker, state.waiter)
    end
    state.handle = nil
    return code
end


local function make_place(here)
    local waiter = C.holdfast_waiter_open(here)
    if waiter == 0 then
        return nil
    end
    local state = { parker = here, waiter = waiter, handle = nil, key = nil }
    states[waiter] = state
    local function abandon()
        leave(state)
        if states[waiter] == state then  -- false: a forked child has its own by that number
            states[waiter] = nil
        end
        if is_mine(here) then
            parker.forget(waiter)  -- its host may have left it there
            C.holdfast_waiter_close(here, waiter)
        end
    end
    local wait = ffi_new(wait_type)
    wait.parker, wait.waiter = here, waiter
    -- A coroutine that is never resumed gives nothing back; the collector does it.
    return { state = state, wait = wait, guard = ffi_gc(ffi_new("char[1]"), abandon) }
end


-- For a host that knows before the collector that a wait is abandoned. A coroutine that comes back nevertheless queues
-- again.
function _M.abandon(waiter)
    local state = states[waiter]
    if state then
        leave(state)
    end
end


-- A closing Lua state finalises in any order; without the parker no waiter could leave.
parker.before_free(function ()
    local waiter, state = next(states)  -- not by pairs: see lock/options.lua
    while waiter do
        leave(state)
        waiter, state = next(states, waiter)
    end
end)


-- nil without room for another waiter.
local function open_place()
    local here = get_parker()
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
    until place.state.parker == here  -- false: a parent process's
    return place
end


local function close_place(place, granted)
    local state = place.state
    local code = OK
    if granted then
        state.handle = nil
    else
        code = leave(state)
    end
    -- A granted waiter is still in the process of its parker.
    if granted or is_mine(state.parker) then
        idle_count = idle_count + 1
        idle_places[idle_count] = place
    end
    return code
end


-- The keys of the cycle that the library has found, beginning with the one waited for here.
local function deadlock_keys(here, waiter)
    local frame = core.enter()
    local code
    repeat
        code = C.holdfast_deadlock_keys(here, waiter, frame.value, frame.count)
        if code == BUFFER then
            core.grow(frame)
        end
    until code ~= BUFFER
    local keys = code == OK and unpack_keys(frame) or {}
    core.leave()
    return keys
end


-- Waits in the queue. true for a granted lock; otherwise nil and the reason, after a deadlock its keys.
local function wait_in_place(place, host, request, deadline, lease)
    local state = place.state
    local here, waiter = state.parker, state.waiter
    local wait, host_wait = place.wait, host.wait
    wait.task = task_ids.current or task_ids.get()
    wait.holder_task = request.holder or task_ids.NOBODY
    wait.fair = request.fair or 0
    wait.holds = task_ids.held(host.stops_all) == 0 and HOLDS_NOTHING
                 or host.stops_all and HOLDS_EVERYTHING or HOLDS_SOMETHING
    wait.timeout = request.timeout
    while true do
        local code = wait_once(request, wait, lease)
        if code == OK then
            return true
        end
        if code == LOCKED then
            state.handle, state.key = request.handle, request.key
        elseif code == DEADLOCK then
            return nil, reason(code), deadlock_keys(here, waiter)
        elseif code == INVALID and not is_mine(here) then
            return nil, FORKED  -- the library knows no waiters of a parent process
        elseif code == BUSY then
            wait.sleep = BUSY_SLEEP
        elseif code ~= TIMEOUT then
            return nil, reason(code)
        end
        local seconds = wait.sleep
        local left = deadline - host.now()
        if left <= 0 then
            return nil, "timeout"
        end
        wait.timeout = left
        local woken, why = host_wait(waiter, max(min(seconds, left), 0))
        if gives_up(woken, why) then
            return nil, why
        end
    end
end


-- Sleeps until the lock is released, and tries again at least as often as the library asks. nil, nil without room for a
-- waiter.
function _M.wake(host, request, lease)
    local start = C.holdfast_now()  -- not the host's clock: its error must not lose what is granted
    local deadline = host.now() + request.timeout
    local place, ok, granted, err, keys
    repeat
        place = open_place()
        if not place then
            return nil, nil
        end
        ok, granted, err, keys = pcall(wait_in_place, place, host, request, deadline, lease)
        -- Report that the holder's life is unknown rather than the timeout.
        if close_place(place, ok and granted) == SYSTEM and err == "timeout" then
            err = reason(SYSTEM)
        end
        if not ok and is_mine(place.state.parker) then
            parker.forget(place.state.waiter)  -- the host that failed may have left it there
        end
    until err ~= FORKED
    if not ok then
        error(granted, 0)
    end
    if not granted then
        return nil, err, keys
    end
    return C.holdfast_now() - start
end


return _M
