-- How many keys of a dictionary are held, and how many wait for them: without a table or a string for each, and for a
-- limited time, as no other task of the process runs meanwhile. Time of the processor: what else runs on a busy machine
-- does not make the numbers go away.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C, enter, grow, leave, reason = core.C, core.enter, core.grow, core.leave, core.reason
local ffi_cast, ffi_new, tonumber = ffi.cast, ffi.new, tonumber

local counts_type, cursor_type = ffi.typeof("uint32_t[2]"), ffi.typeof("uint64_t[1]")
local holder_type, length_type = ffi.typeof("holdfast_holder[1]"), ffi.typeof("const uint32_t *")
local timespec_type = ffi.typeof("struct holdfast_timespec[1]")
local WAITER_SIZE = ffi.sizeof("holdfast_waiter")

local BUFFER, OK = core.BUFFER, core.OK
-- holdfast_holder.kind
local KINDS = { [core.HELD_LOCK] = "lock", [core.HELD_RWLOCK] = "rwlock", [core.HELD_SEMAPHORE] = "semaphore" }
local CLOCK_THREAD_CPUTIME_ID = 3
-- Between two looks at the time.
local KEYS_AT_ONCE = 50

local _M = {}


-- Seconds that this thread has computed for.
function _M.computed()
    local time = ffi_new(timespec_type)
    ffi.C.holdfast_clock_gettime(CLOCK_THREAD_CPUTIME_ID, time)
    return tonumber(time[0].sec) + tonumber(time[0].nsec) / 1e9
end


-- Adds the keys that are packed in the frame; the code of the first that cannot be looked at.
local function add(handle, frame, found, held)
    local counts, holder = ffi_new(counts_type), ffi_new(holder_type)
    local key = frame.value.data
    for _ = 1, frame.count[0] do
        local length = ffi_cast(length_type, key)[0]
        local code = C.holdfast_look(handle, key + 4, length, holder, 1, counts, nil, WAITER_SIZE, 0, counts + 1)
        if code ~= OK then
            return code
        end
        if counts[0] > 0 then
            local kind = KINDS[tonumber(holder[0].kind)]
            held[kind] = held[kind] + 1
        end
        found.waiters = found.waiters + counts[1]
        key = key + 4 + length
    end
    return OK
end


local function add_some(handle, cursor, found)
    local frame = enter()
    local code
    repeat
        code = C.holdfast_scan_locks(handle, cursor, KEYS_AT_ONCE, "", 0, frame.value, frame.count)
        if code == BUFFER then
            grow(frame)
        end
    until code ~= BUFFER
    if code == OK then
        code = add(handle, frame, found, found.held)
    end
    leave()
    return code
end


-- { held = { lock = n, rwlock = n, semaphore = n }, waiters = n }; nil and the reason, "timeout" if it took more than
-- so many seconds of computing.
function _M.count(handle, seconds)
    local deadline = _M.computed() + seconds
    local found, cursor = { held = { lock = 0, rwlock = 0, semaphore = 0 }, waiters = 0 }, ffi_new(cursor_type)
    repeat
        local code = add_some(handle, cursor, found)
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
