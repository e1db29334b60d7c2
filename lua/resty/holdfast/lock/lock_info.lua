-- Describes the holders of a key, their reasons, and the number of waiters, for people, logs and metrics.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local find_gate = require("resty.holdfast.dictionary.gate").find
local warn = require("resty.holdfast.program").warn

local C, enter, grow, key_string, leave = core.C, core.enter, core.grow, core.key_string, core.leave
local concat, format, maximum, min = table.concat, string.format, math.max, math.min
local ffi_cast, ffi_new, ffi_sizeof, ffi_str = ffi.cast, ffi.new, ffi.sizeof, ffi.string
local pcall, tonumber, tostring, type = pcall, tonumber, tostring, type
local printable, quote, reason = core.printable, core.quote, core.reason

local holders_type = ffi.typeof("holdfast_holder[?]")
local WAITER_SIZE = ffi_sizeof("holdfast_waiter")

local ALL_PERMITS, BUFFER, HOLDERS_MAX = core.ALL_PERMITS, core.BUFFER, core.HOLDERS_MAX
local NOT_FOUND, OK = core.NOT_FOUND, core.OK
local INFINITY, NO_WORKER = math.huge, 0xFFFFFFFF
-- The meanings of holdfast_holder.alive.
local ALIVE = { [0] = false, [1] = true }
-- The names for holdfast_holder.kind.
local KINDS = { [core.HELD_LOCK] = "lock", [core.HELD_RWLOCK] = "rwlock", [core.HELD_SEMAPHORE] = "semaphore" }

local _M = {
    DEFAULT_MAX = 100,
    KINDS = KINDS,
}


local function describe(found)
    local program, why = ffi_str(found.program), ffi_str(found.why)
    return {
        process = found.pid > 0 and found.pid or nil,
        program = program ~= "" and program or nil,
        worker = found.worker ~= NO_WORKER and found.worker or nil,
        alive = ALIVE[tonumber(found.alive)],
        kind = KINDS[tonumber(found.kind)],
        why = why ~= "" and why or nil,
        since = C.holdfast_now() - found.held,
        held = found.held,
        remaining = found.remaining == 0 and INFINITY or found.remaining,
        token = found.sequence > 0 and tonumber(found.sequence) or nil,
        waiters = found.waiters,
        permits = tonumber(found.permits),
        writes = found.permits == ALL_PERMITS or nil,
        revision = found.revision > 0 and tonumber(found.revision) or nil,
    }
end


-- Returns a table that describes the holder, nil for a free key, or nil and the reason if the holder is unknown. Finds
-- only holders on this machine.
function _M.find_here(handle, key)
    local text, err = key_string(key)
    if not text then
        return nil, err
    end
    local found = ffi_new("holdfast_holder")
    local code = C.holdfast_lock_holder(handle, text, #text, found)
    if code == OK then
        return describe(found)
    end
    if code == NOT_FOUND then
        return nil
    end
    return nil, reason(code)
end


-- Does the same as find_here, but also finds holders on other machines. A gate may have to wait for an answer; `block`
-- is the lock's option of that name.
function _M.find(handle, key, block)
    local gate = find_gate(handle)
    if gate then
        return gate.holder(handle, key, block)
    end
    return _M.find_here(handle, key)
end


-- Returns the number of holders and the number of waiters of the key, or nil and the reason. Writes at most `max`
-- holders to `holders`.
local function count(handle, key, holders, max)
    local text, err = key_string(key)
    if not text then
        return nil, err
    end
    local frame = enter()
    local code = C.holdfast_holders(handle, text, #text, holders, max, frame.count, frame.count2)
    local held, waiters = tonumber(frame.count[0]), tonumber(frame.count2[0])
    leave()
    if code == OK then
        return held, waiters
    end
    return nil, reason(code)
end


local function describe_all(found, held, max)
    local holders = {}
    for i = 1, min(held, max) do
        holders[i] = describe(found[i - 1])
    end
    return holders
end


-- Returns an array of at most `max` holders of the key, the longest holder first. On failure, returns nil and the
-- reason.
function _M.find_all(handle, key, max)
    max = min(max or _M.DEFAULT_MAX, HOLDERS_MAX)
    local found = ffi_new(holders_type, max)
    local held, err = count(handle, key, found, max)
    if not held then
        return nil, err
    end
    return describe_all(found, held, max)
end


-- Returns whether the process is alive, or nil if this is unknown. `lives` contains earlier answers, indexed by
-- process.
local function is_alive(owner, lives)
    local id = tostring(owner)
    local code = lives[id]
    if not code then
        code = C.holdfast_process_lives(owner)
        lives[id] = code
    end
    if code == OK then
        return true
    end
    if code == NOT_FOUND then
        return false
    end
end


-- Returns at most `max` holders and the number of waiters, or nil and the reason. A process that is stopped in the
-- middle of a change delays this function by at most about 20 ms. `lives` is a table that all keys of one listing
-- share.
function _M.peek(handle, key, max, lives)
    local found = ffi_new(holders_type, max)
    local frame = enter()
    local code = C.holdfast_look(handle, key, #key, found, max, frame.count, nil, WAITER_SIZE, 0, frame.count2)
    local held, waiters = tonumber(frame.count[0]), tonumber(frame.count2[0])
    leave()
    if code ~= OK then
        return nil, reason(code)
    end
    local holders = describe_all(found, held, max)
    for i = 1, #holders do
        holders[i].alive = is_alive(found[i - 1].owner, lives)
    end
    return holders, waiters
end


-- Returns the number of waiters of the key, or nil and the reason.
function _M.count_waiters(handle, key)
    local held, waiters = count(handle, key, nil, 0)
    if not held then
        return nil, waiters
    end
    return waiters
end


-- --- the option log_timeouts, which logs the holders whenever a wait ends without the lock ---

-- The maximum number of holders that a line names.
local NAMED = 3

-- The names in log lines, indexed by request.kind.
local NAMES = { lock = "lock", [core.RWLOCK] = "rwlock", [core.SEMAPHORE] = "semaphore" }

local function holder_text(holder)
    local who = (holder.program and printable(holder.program) or "a program") .. " (process " .. (holder.process or "?")
                .. (holder.worker and ", worker " .. holder.worker or "") .. ")"
    return who .. (holder.alive == false and ", which is dead," or "") .. format(" for %.3f s", holder.held)
           .. (holder.why and ", why: " .. quote(holder.why) or "")
end


-- Returns a text that describes the current holders.
local function obstacle(handle, key)
    local holders, waiters = _M.peek(handle, key, NAMED + 1, {})
    if not holders then
        return "holder unknown: " .. waiters
    end
    local named = {}
    for i = 1, #holders do
        named[i] = i <= NAMED and holder_text(holders[i]) or "others"
    end
    if #named == 0 then
        local gate = find_gate(handle)
        return gate and gate.NO_HOLDER or "no longer held"
    end
    return "held by " .. concat(named, " and by ") .. (waiters > 0 and "; waiters: " .. waiters or "")
end


-- Writes the log line. Never raises an error. `err` is the error that the method will return.
function _M.report_timeout(self, request, key, err)
    local log = self.settings.log_timeouts
    if request.tries then
        return
    end
    local kind = NAMES[request.total > 0 and request.kind or "lock"]
    local line = format("%s %s of dictionary %s: %s after %.3f s; %s", kind, quote(key), quote(self.dict.name), err,
                        request.timeout, obstacle(request.handle, key))
    if type(log) == "function" then
        pcall(log, line)
    else
        warn(line)
    end
end


-- --- the numbers of held keys and of waiters in a dictionary, and the longest hold and wait ---
--
-- The counting creates no table or string for each key. Its time is limited, because no other task of the process runs
-- in the meantime. The limit is in processor time, so that the counting also works on a busy machine.

local counts_type, cursor_type = ffi.typeof("uint32_t[2]"), ffi.typeof("uint64_t[1]")
local holder_type, length_type = ffi.typeof("holdfast_holder[1]"), ffi.typeof("const uint32_t *")
local timespec_type, waiters_type = ffi.typeof("struct holdfast_timespec[1]"), ffi.typeof("holdfast_waiter[?]")

local CLOCK_THREAD_CPUTIME_ID = 3
-- The number of keys between two checks of the time. No benchmark covers this constant, because none counts held keys.
local KEYS_AT_ONCE = 50
-- The maximum number of a key's waiters that are checked. Waiters queue in order of arrival, so the first living waiter
-- has waited longest.
local WAITERS_LOOKED_AT = 64


-- Returns the processor time of this thread in seconds.
function _M.computed()
    local time = ffi_new(timespec_type)
    ffi.C.holdfast_clock_gettime(CLOCK_THREAD_CPUTIME_ID, time)
    return tonumber(time[0].sec) + tonumber(time[0].nsec) / 1e9
end


-- Returns the longest time for which a living waiter has waited, or nil if no living waiter wants the lock. Watchers do
-- not want the lock.
local function longest_wait(waiters, many, lives)
    local longest
    for i = 0, min(many, WAITERS_LOOKED_AT) - 1 do
        local waiter = waiters[i]
        if waiter.watches == 0 and waiter.waited > (longest or -1) and is_alive(waiter.owner, lives) ~= false then
            longest = waiter.waited
        end
    end
    return longest
end


-- Counts the keys that are packed in the frame. Returns OK, or the code of the first key that cannot be read.
local function add_keys(handle, frame, found, lives)
    local counts, holder, waiters = ffi_new(counts_type), ffi_new(holder_type), ffi_new(waiters_type, WAITERS_LOOKED_AT)
    local held, hold = found.held, found.longest_hold
    local key = frame.value.data
    for _ = 1, frame.count[0] do
        local length = ffi_cast(length_type, key)[0]
        local code = C.holdfast_look(handle, key + 4, length, holder, 1, counts, waiters, WAITER_SIZE,
                                     WAITERS_LOOKED_AT, counts + 1)
        if code ~= OK then
            return code
        end
        local wait = longest_wait(waiters, counts[1], lives)
        if counts[0] > 0 then
            local kind, contended = KINDS[tonumber(holder[0].kind)], wait and "yes" or "no"
            held[kind] = held[kind] + 1
            hold[contended] = maximum(hold[contended], holder[0].held)
        end
        found.waiters = found.waiters + counts[1]
        found.longest_wait = maximum(found.longest_wait, wait or 0)
        key = key + 4 + length
    end
    return OK
end


local function add_some(handle, cursor, found, lives)
    local frame = enter()
    local code
    repeat
        code = C.holdfast_scan_locks(handle, cursor, KEYS_AT_ONCE, "", 0, frame.value, frame.count)
        if code == BUFFER then
            grow(frame)
        end
    until code ~= BUFFER
    if code == OK then
        code = add_keys(handle, frame, found, lives)
    end
    leave()
    return code
end


-- Returns { held = { lock = n, rwlock = n, semaphore = n }, waiters = n, longest_wait = seconds, longest_hold = { yes =
-- seconds, no = seconds } }. longest_hold.yes is for keys with waiters, and longest_hold.no for other keys. On failure,
-- returns nil and the reason, which is "timeout" after `seconds` of processor time.
function _M.count_all(handle, seconds)
    local deadline = _M.computed() + seconds
    local found, cursor, lives = { held = { lock = 0, rwlock = 0, semaphore = 0 }, waiters = 0, longest_wait = 0,
                                   longest_hold = { yes = 0, no = 0 } }, ffi_new(cursor_type), {}
    repeat
        local code = add_some(handle, cursor, found, lives)
        if code ~= OK then
            return nil, reason(code)
        end
        if cursor[0] ~= 0 and _M.computed() > deadline then
            return nil, "timeout"
        end
    until cursor[0] == 0
    return found
end


return _M
