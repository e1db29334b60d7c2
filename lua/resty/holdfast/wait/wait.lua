-- Implements two ways to wait for a lock: "wake", which sleeps until the release, and "poll". Both fill the lease and
-- return the seconds waited. On failure, they return nil, the reason and, after a deadlock, the keys. A wait continues
-- after two temporary codes: TIMEOUT (a process is stopped in the middle of a change) and, in a forked child, BUSY
-- (another process is entering the runtime directory).
--
-- A request describes what a coroutine waits for, and how. Each waiting coroutine has a request, so a request is a
-- struct, because a table would take three times the memory. Its fields are:
--   key_id             number of the key in the memo; valid while the caller has its grant
--   holder             see tasks/task_ids.lua
--   kind, want, total  only for permits, for which total is not 0
--   watches            only waits until the grant with the token `watched` ends; lease, exptime, holder and fair are
--                      not used
--   changes            only waits until the version of the key is no longer `version`; no other fields are used
--   tries              for a lock that the dictionary's gate has not admitted: waits until it is known whether another
--                      machine holds the lock; if it does, the reason is "held"
--   upgrades           makes the reader that has the lease the writer; exptime, holder and fair are not used
--   itself             a coroutine that waits for a lock that it holds itself is in a deadlock
--   certain            for lock/acquire.lua

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local memo = require("resty.holdfast.lock.lease_pool").memo
local parker = require "resty.holdfast.wait.parker"
local task_ids = require "resty.holdfast.tasks.task_ids"

local C, reason, unpack_keys = core.C, core.reason, core.unpack_keys
local error, max, min, next, pcall = error, math.max, math.min, next, pcall
local setmetatable, type = setmetatable, type
local ffi_metatype, ffi_new = ffi.metatype, ffi.new
local get_parker, is_mine = parker.get, parker.is_mine

local BUFFER, BUSY, DEADLOCK, ELSEWHERE = core.BUFFER, core.BUSY, core.DEADLOCK, core.ELSEWHERE
local INVALID, LOCKED, OK, SYSTEM, TIMEOUT = core.INVALID, core.LOCKED, core.OK, core.SYSTEM, core.TIMEOUT
local UNCHANGED = core.UNCHANGED
local HOLDS_NOTHING, HOLDS_SOMETHING = core.HOLDS_NOTHING, core.HOLDS_SOMETHING
local HOLDS_EVERYTHING, HOLDS_ITSELF = core.HOLDS_EVERYTHING, core.HOLDS_ITSELF

-- The reason for the end of a wait during which the process was forked. It differs from every reason that a host can
-- return.
local FORKED = {}
-- The pause before the next attempt to enter the runtime directory, in seconds. No benchmark covers this constant,
-- because none forks.
local BUSY_SLEEP = 0.05

-- The arguments and results of the current call. Every call sets all of them, and no other Lua code runs before the
-- results are read.
local wait, holder = ffi_new("holdfast_wait"), ffi_new("holdfast_holder")

local _M = {}


_M.request_type = ffi.typeof [[struct {
    holdfast_dict *handle;
    double exptime, timeout, step;
    union { uint64_t watched[1]; holdfast_version_of_key version[1]; };
    int32_t key_id;
    uint32_t holder, want, total;
    uint8_t kind;
    bool fair, certain, watches, tries, upgrades, changes, itself;
}]]


-- Compares the version of the key. If it has not changed, returns LOCKED, so that the caller waits.
local function compare(request, key)
    local known = request.version[0].number
    local code = C.holdfast_key_version(request.handle, key, #key, request.version)
    if code == OK and request.version[0].number == known then
        return LOCKED
    end
    return code
end


local function try(request, lease)
    local key = memo[request.key_id]
    if request.changes then
        return compare(request, key)
    end
    if request.watches then
        return C.holdfast_lock_watch(request.handle, key, #key, nil, request.watched)
    end
    if request.upgrades then
        return C.holdfast_permits_upgrade(request.handle, key, #key, 0, nil, lease)
    end
    if request.total > 0 then
        return C.holdfast_permits_try(request.handle, key, #key, request.kind, request.want, request.total,
                                      request.exptime, request.holder, request.fair and 1 or 0, lease)
    end
    return C.holdfast_lock_try(request.handle, key, #key, request.exptime, request.holder, request.fair and 1 or 0,
                               lease)
end
_M.try = try


-- A function that removes waiters from their queues if their coroutines are gone, and returns whether there were any.
-- It is set by a host whose waiting coroutines may be killed.
_M.drop_gone = false


-- Removes the waiters whose coroutines are gone, and returns whether there were any. A caller that does not wait calls
-- this function before it fails, because a free lock may be reserved for one of them.
function _M.find_gone()
    local drop_gone = _M.drop_gone
    return drop_gone and drop_gone()
end


-- Makes one attempt. Returns the code, and the seconds to sleep. Makes no tail calls, because LuaJIT does not compile
-- tail calls to C functions. Has no loop, so that LuaJIT compiles the function as a whole. After a sleep, when caches
-- are cold, an interpreted access to a C object takes a microsecond.
local function wait_once(request, lease, slot, task, holds, timeout)
    wait.parker, wait.waiter, wait.task, wait.holds = slot.parker, slot.waiter, task, holds
    wait.holder_task, wait.fair, wait.timeout = request.holder, request.fair and 1 or 0, timeout
    wait.tries = request.tries and 1 or 0
    local key = memo[request.key_id]
    local code
    if request.watches then
        code = C.holdfast_lock_watch(request.handle, key, #key, wait, request.watched)
    elseif request.changes then
        code = C.holdfast_change_wait(request.handle, key, #key, wait, request.version)
        if code == UNCHANGED then
            code = LOCKED
        end
    elseif request.upgrades then
        code = C.holdfast_permits_upgrade(request.handle, key, #key, 0, wait, lease)
    elseif request.total > 0 then
        code = C.holdfast_permits_wait(request.handle, key, #key, request.kind, request.want, request.total,
                                       request.exptime, wait, lease)
    else
        code = C.holdfast_lock_wait(request.handle, key, #key, request.exptime, wait, lease)
    end
    return code, wait.sleep
end


-- Returns whether a process on this machine holds the key.
function _M.is_held_here(handle, key)
    local code = C.holdfast_lock_holder(handle, key, #key, holder)
    return code == OK
end

local is_held_here = _M.is_held_here


-- Returns whether a host's results end the wait, because they are nil and a reason other than "timeout".
local function gives_up(answer, why)
    return answer == nil and type(why) == "string" and why ~= "timeout"
end


-- Polls: sleeps, makes an attempt, sleeps longer, and so on. Returns the sum of the sleeps instead of the elapsed time.
-- If a stopped process has blocked an attempt, its duration is included. `way` is an object with the fields ratio and
-- max_step.
function _M.poll(host, request, lease, way)
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
        elseif code ~= LOCKED and code ~= ELSEWHERE then
            return nil, reason(code)
        end
        if timeout <= 0 then
            break
        end

        step = min(max(0.001, step * way.ratio), timeout, way.max_step)
    end
    return nil, "timeout"
end


-- A slot contains a waiter of this Lua state, and the dictionary of the lock for which it queues, or NULL if the waiter
-- is in no queue. Slots are reused, because creating a slot costs as much as the rest of a wake-up. Each waiting
-- coroutine has a slot, so a slot is a struct, because a table would take more memory.
local idle_slots, idle_count = {}, 0

-- All slots, and the keys for which they queue, indexed by waiter number.
local slots = setmetatable({}, { __mode = "v" })
local key_of = {}


local function leave(slot)
    local code = OK
    if slot.handle ~= nil and is_mine(slot.parker) then
        local key = key_of[slot.waiter]
        code = C.holdfast_lock_leave(slot.handle, key, #key, slot.parker, slot.waiter)
    end
    slot.handle = nil
    return code
end


-- Finalises the slot of a coroutine that is never resumed, and thus never returns the slot. A forked child may have its
-- own slot with the same number.
local function collect(slot)
    leave(slot)
    local here, waiter = slot.parker, slot.waiter
    if waiter ~= 0 and is_mine(here) then
        key_of[waiter] = nil
        parker.forget(waiter)  -- the host may have left it listening
        C.holdfast_waiter_close(here, waiter)
    end
end


local slot_type = ffi_metatype("struct { holdfast_parker *parker; holdfast_dict *handle; uint32_t waiter; }",
                                { __gc = collect })


local function make_slot(here)
    local slot = ffi_new(slot_type)  -- created first, so that no waiter is lost if memory is short
    local waiter = C.holdfast_waiter_open(here)
    if waiter == 0 then
        return nil
    end
    slot.parker, slot.waiter = here, waiter
    slots[waiter] = slot
    return slot
end


-- Makes a waiter leave its queue. A host calls this if it notices an abandoned wait before the collector does. If the
-- coroutine is resumed nevertheless, it queues again.
function _M.abandon(waiter)
    local slot = slots[waiter]
    if slot then
        leave(slot)
    end
end


-- Waiters leave their queues before the parker is freed, because a closing Lua state runs finalisers in any order.
parker.before_free(function ()
    local waiter, slot = next(slots)  -- not with pairs(): see lock/options.lua
    while waiter do
        leave(slot)
        waiter, slot = next(slots, waiter)
    end
end)


-- Returns a slot, or nil if there is no room for another waiter.
local function open_slot()
    local here = get_parker()
    if not here then
        return nil
    end
    local slot
    repeat
        slot = idle_slots[idle_count]
        if not slot then
            slot = make_slot(here)
            break
        end
        idle_slots[idle_count] = nil
        idle_count = idle_count - 1
    until slot.parker == here  -- a different parker belongs to a parent process
    return slot
end


local function close_slot(slot, granted)
    local code = OK
    if granted then
        slot.handle = nil
    else
        code = leave(slot)
    end
    -- If the waiter was granted the lock, it is still in the process of its parker.
    if granted or is_mine(slot.parker) then
        idle_count = idle_count + 1
        idle_slots[idle_count] = slot
    end
    return code
end


-- Returns the keys of the cycle that the library found, beginning with the key that this waiter waits for.
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


-- Waits in the queue. Returns true for a granted lock, otherwise nil, the reason and, after a deadlock, the keys.
local function wait_in_queue(slot, host, request, deadline, lease)
    local waiter = slot.waiter
    local task = not request.tries and (task_ids.current or task_ids.get()) or 0
    local holds = task_ids.held(host.stops_all) == 0 and HOLDS_NOTHING
                  or host.stops_all and HOLDS_EVERYTHING or HOLDS_SOMETHING
    if request.itself and holds ~= HOLDS_NOTHING then
        holds = holds + HOLDS_ITSELF
    end
    local left = request.timeout
    while true do
        local code, seconds = wait_once(request, lease, slot, task, holds, left)
        if code == OK then
            return true
        end
        if code == LOCKED then
            key_of[waiter] = memo[request.key_id]
            slot.handle = request.handle
            if request.tries and is_held_here(request.handle, key_of[waiter]) then
                code = wait_once(request, lease, slot, task, holds, left)  -- it may be granted to this waiter
                return code == OK or nil, "held"
            end
        elseif code == ELSEWHERE then
            return nil, "held"
        elseif code == DEADLOCK then
            return nil, reason(code), deadlock_keys(slot.parker, waiter)
        elseif code == INVALID and not is_mine(slot.parker) then
            return nil, FORKED  -- the library does not know the waiters of a parent process
        elseif code == BUSY then
            seconds = BUSY_SLEEP
        elseif code ~= TIMEOUT then
            return nil, reason(code)
        end
        left = deadline - host.now()
        if left <= 0 then
            return nil, "timeout"
        end
        local woken, why = host.wait(waiter, max(min(seconds, left), 0))
        if gives_up(woken, why) then
            return nil, why
        end
    end
end


-- Sleeps until the lock is released. Tries again at least as often as the library requires. If there is no room for a
-- waiter, returns nil, nil. Declares the results of calls where they are assigned, which keeps the stack of the called
-- function short.
function _M.wake(host, request, lease)
    local start = C.holdfast_now()  -- not by the host's clock, which could raise an error and thus lose a granted lock
    local deadline = host.now() + request.timeout
    while true do
        local slot = open_slot()
        if not slot then
            return nil, nil
        end
        local ok, granted, err, keys = pcall(wait_in_queue, slot, host, request, deadline, lease)
        -- Instead of the timeout, report that the holder's state is unknown.
        if close_slot(slot, ok and granted) == SYSTEM and err == "timeout" then
            err = reason(SYSTEM)
        end
        if not ok and is_mine(slot.parker) then
            parker.forget(slot.waiter)  -- a host that failed may have left it listening
        end
        if not ok then
            error(granted, 0)
        end
        if granted then
            return C.holdfast_now() - start
        end
        if err ~= FORKED then
            return nil, err, keys
        end
    end
end


return _M
