-- The methods of a dictionary that was opened with versions. Manual: docs/resty.shdict.md.
--
-- Only wait yields. On failure, the methods return nil and a string. This is an error that the other methods for one
-- key also return, or "the dictionary has no versions; ...". A wrong receiver and wrong arguments raise an error at the
-- line of the call.

local checks = require "resty.holdfast.dictionary.checks"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local later = require "resty.holdfast.later"
local tables = require "resty.holdfast.dictionary.tables"

local C, current, grow = core.C, core.current, core.grow
local bad_argument, bad_duration, bad_whole = checks.bad_argument, checks.bad_duration, checks.bad_whole
local form_of, read_value = tables.form_of, tables.read_value
local enter_int, enter_value, leave = core.enter_int, core.enter_value, core.leave
local ffi_new, tonumber, type = ffi.new, tonumber, type
local is_duration, is_time, is_whole = core.is_duration, core.is_time, checks.is_whole
local locate, not_stored, on_key = checks.locate, checks.not_stored, checks.on_key
local reason, sentence = core.reason, core.sentence
local wait_for_change = later.fn("resty.holdfast.lock.contended", "wait_for_change")

local BUFFER, DIFFERS, NOT_FOUND, OK = core.BUFFER, core.DIFFERS, core.NOT_FOUND, core.OK
local UNCHANGED, UNSUPPORTED = core.UNCHANGED, core.UNSUPPORTED

-- The default timeout of wait(), in seconds, as in resty.lock.
local TIMEOUT = 5

-- The version that the current call reads. No other Lua code runs before it is used.
local version = ffi_new("holdfast_version_of_key[1]")

local methods = {}


local function why(code)
    if code == UNSUPPORTED then
        return sentence(code)
    end
    return reason(code)
end


-- Raises an error unless the argument is a version. 0 stands for an unknown version.
local function check_version(given)
    if type(given) ~= "number" or not (given >= 0 and given < 2 ^ 53) then
        bad_argument("version", "a number from dict:version()", given, 4)
    end
end


-- Returns the version of the key, whether or not it has a value.
methods.version = on_key("version", function (handle, key)
    local code = C.holdfast_key_version(handle, key, #key, version)
    if code ~= OK then
        return nil, why(code)
    end
    return tonumber(version[0].number)
end)


-- get_changed(key [, version]) returns value, flags and version, as get and version do. But if the version is still
-- `version`, it returns nil, "unchanged" and the version. The returned value belongs to the returned version or to a
-- newer version. After any other error, there is no third result.
function methods.get_changed(zone, key, known)
    local handle
    handle, key = locate(zone, key, "get_changed")
    if not handle then
        return nil, key
    end
    known = known or 0
    check_version(known)
    local value = enter_value()
    version[0].number = known
    local code = C.holdfast_get_changed(handle, key, #key, version, value)
    while code == BUFFER do
        grow(current())
        version[0].number = known
        code = C.holdfast_get_changed(handle, key, #key, version, value)
    end
    local flags, err
    if code == OK then
        flags = value.flags
        value, err = read_value(zone, value)
    end
    leave()
    if code == UNCHANGED then
        return nil, "unchanged", known
    elseif code == NOT_FOUND then
        return nil, nil, tonumber(version[0].number)
    elseif code ~= OK then
        return nil, why(code)
    elseif err then
        return nil, err
    end
    return value, flags ~= 0 and flags or nil, tonumber(version[0].number)
end


-- set_unless_changed(key, version, value [, exptime [, flags]]) stores a value as set does if the version of the key is
-- still `version`. If the value is nil, the key is deleted. Returns the new version, nil and whether unexpired values
-- were evicted. On failure, returns nil, "changed" or an error from set, the same flag and, if the value is too large,
-- a message.
function methods.set_unless_changed(zone, key, known, value, exptime, flags)
    local handle
    handle, key = locate(zone, key, "set_unless_changed")
    if not handle then
        return nil, key
    end
    check_version(known)
    exptime, flags = exptime or 0, flags or 0
    if not is_duration(exptime) then
        bad_duration("exptime", exptime)
    end
    if not is_whole(flags) then
        bad_whole("flags", flags)
    end
    local kind, data, length, number = form_of(zone, value)
    if not kind then
        return nil, data
    end
    local removed = enter_int()
    version[0].number = known
    local code = C.holdfast_store_unless_changed(handle, key, #key, version, kind, data, length, number, exptime, flags,
                                                 removed)
    local forcible = removed[0] ~= 0
    leave()
    if code == OK then
        return tonumber(version[0].number), nil, forcible
    elseif code == DIFFERS then
        return nil, "changed", forcible
    elseif code == UNSUPPORTED then
        return nil, sentence(code)
    end
    local _, err, _, message = not_stored(code, forcible)
    return nil, err, forcible, message
end


-- wait(key, version [, timeout]) waits until the version of the key is no longer `version`, and returns the new
-- version. After `timeout` seconds, returns nil and "timeout". The default is 5; math.huge means no limit, and with 0
-- the method only compares the versions. If the caller cannot wait here, returns nil and the reason. Yields as
-- resty.lock's lock does.
function methods.wait(zone, key, known, timeout)
    local handle
    handle, key = locate(zone, key, "wait")
    if not handle then
        return nil, key
    end
    check_version(known)
    timeout = timeout or TIMEOUT
    if not is_time(timeout) then
        bad_argument("timeout", "a number of seconds, 0 or more", timeout)
    end
    local code = C.holdfast_key_version(handle, key, #key, version)
    if code ~= OK then
        return nil, why(code)
    elseif version[0].number ~= known then
        return tonumber(version[0].number)
    elseif timeout == 0 then
        return nil, "timeout"
    end
    return wait_for_change(handle, key, known, timeout)
end


return methods
