-- The methods that list keys: of all values, and of the locks and permits in use.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local lock_info = require "resty.holdfast.lock.lock_info"

local C, answer, enter, grow, leave = core.C, core.answer, core.enter, core.grow, core.leave
local bad_argument, check_zone, is_whole, read_max = checks.bad_argument, checks.check_zone, checks.is_whole,
    checks.read_max
local ffi_new, floor, ipairs, tonumber, type = ffi.new, math.floor, ipairs, tonumber, type
local unpack_keys = core.unpack_keys

local BUFFER, OK = core.BUFFER, core.OK

local cursor_type = ffi.typeof("uint64_t[1]")

local CURSOR_MAX = 2 ^ 53
local LOCKS_AT_ONCE = 1000

local methods = {}


-- The keys in the frame, which is left; nil and the reason.
local function keys_in(frame, code)
    local keys = code == OK and unpack_keys(frame)
    leave()
    return answer(code, keys)
end


function methods.get_keys(zone, max_count)
    local handle = check_zone(zone, "get_keys")
    max_count = read_max(max_count, 1024)
    local frame = enter()
    local code = C.holdfast_keys(handle, max_count, frame.value, frame.count)
    while code == BUFFER do
        grow(frame)
        code = C.holdfast_keys(handle, max_count, frame.value, frame.count)
    end
    return keys_in(frame, code)
end


local function is_cursor(number)
    return type(number) == "number" and number >= 0 and number < CURSOR_MAX and number == floor(number)
end


-- Some of the keys, by holdfast_scan or holdfast_scan_locks; nil and the reason.
local function scan(call, handle, cursor, count, prefix)
    local frame = enter()
    local code = call(handle, cursor, count, prefix, #prefix, frame.value, frame.count)
    while code == BUFFER do
        grow(frame)
        code = call(handle, cursor, count, prefix, #prefix, frame.value, frame.count)
    end
    return keys_in(frame, code)
end


local function check_prefix(prefix)
    if prefix ~= nil and type(prefix) ~= "string" then
        bad_argument("prefix", "a string", prefix, 4)
    end
    return prefix or ""
end


function methods.scan(zone, cursor, count, prefix)
    local handle = check_zone(zone, "scan")
    if not is_cursor(cursor) then
        bad_argument("cursor", "0 or what scan returned last", cursor)
    end
    if count == nil then
        count = 1000
    elseif not is_whole(count) or count == 0 then
        bad_argument("count", "a whole number, 1 to 4294967295,", count)
    end
    prefix = check_prefix(prefix)

    local next_cursor = ffi_new(cursor_type, cursor)
    local keys, err = scan(C.holdfast_scan, handle, next_cursor, count, prefix)
    if not keys then
        return nil, err
    end
    return tonumber(next_cursor[0]), keys
end


-- Adds what is said of each key to `locks`. True, or nil and the reason: the first key that cannot be looked at is the
-- last, as others of its shard would take as long.
local function describe_locks(handle, keys, locks, lives)
    for _, key in ipairs(keys) do
        local holders, waiters = lock_info.look(handle, key, lock_info.DEFAULT_MAX, lives)
        if not holders then
            return nil, waiters
        end
        if holders[1] or waiters > 0 then
            locks[#locks + 1] = { key = key, kind = holders[1] and holders[1].kind, waiters = waiters,
                                  holders = holders }
        end
    end
    return true
end


function methods.locks(zone, prefix)
    local handle = check_zone(zone, "locks")
    prefix = check_prefix(prefix)
    local locks, lives, cursor = {}, {}, ffi_new(cursor_type)
    repeat
        local keys, err = scan(C.holdfast_scan_locks, handle, cursor, LOCKS_AT_ONCE, prefix)
        local ok = keys and true
        if keys then
            ok, err = describe_locks(handle, keys, locks, lives)
        end
        if not ok then
            return nil, err
        end
    until cursor[0] == 0
    return locks
end


return methods
