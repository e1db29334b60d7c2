-- What a dictionary is, as plain Lua: what each method answers and leaves behind, given what was under the key. Entries
-- are never changed, only replaced: { value =, flags =, ends_after =, ends_before = }, or `list` instead of `value`.
-- The time at which an entry ends is known to lie between the two.

local pack = require "spec.support.pack"

local _M = {}


local NEVER = math.huge
local EARLY = 0.001  -- seconds that a value may end before its exptime has passed

local ops = {}
_M.ops = ops


-- True: it counts at all times from `from` to `to`; false: at none of them; nil: not known.
function _M.is_live(entry, from, to)
    if to < entry.ends_after then
        return true
    elseif from >= entry.ends_before then
        return false
    end
    return nil
end


local function ends(entry, exptime, time)
    if exptime and exptime > 0 then
        entry.ends_after = time.before + exptime - EARLY
        entry.ends_before = time.after + exptime
    else
        entry.ends_after, entry.ends_before = NEVER, NEVER
    end
    return entry
end


local function with_times_of(entry, other)
    entry.ends_after, entry.ends_before = other.ends_after, other.ends_before
    return entry
end


local function new(value, exptime, flags, time)
    return ends({ value = value, flags = flags and flags ~= 0 and flags or nil }, exptime, time)
end


-- As it is after a flush.
function _M.flushed(entry)
    return { value = entry.value, flags = entry.flags, list = entry.list, ends_after = -NEVER, ends_before = -NEVER }
end


-- Each: the entry that counts, or nil; the times before and after the call; the arguments. Gives the results, and the
-- entry there is from then on.

-- What those answer that read a value, where there is none.
local function no_value(entry)
    if not entry then
        return pack(nil)
    end
    return entry.list and pack(nil, "value is a list")
end

function ops.get(entry)
    return no_value(entry) or entry.flags and pack(entry.value, entry.flags) or pack(entry.value), entry
end

function ops.get_stale(entry)
    return no_value(entry) or pack(entry.value, entry.flags, false), entry
end

function ops.set(_, time, value, exptime, flags)
    return pack(true, nil, false), value ~= nil and new(value, exptime, flags, time) or nil
end

ops.safe_set = ops.set

function ops.add(entry, time, value, exptime, flags)
    if entry then
        return pack(false, "exists", false), entry
    end
    return pack(true, nil, false), new(value, exptime, flags, time)
end

ops.safe_add = ops.add

function ops.replace(entry, time, value, exptime, flags)
    if not entry then
        return pack(false, "not found", false), nil
    end
    return pack(true, nil, false), new(value, exptime, flags, time)
end

function ops.delete()
    return pack(true, nil, false), nil
end

function ops.cas(entry, time, old, value, exptime, flags)
    if old == nil and entry then
        return pack(false, "exists", false), entry
    elseif old ~= nil and not entry then
        return pack(false, "not found", false), nil
    elseif old ~= nil and (entry.list or entry.value ~= old) then
        return pack(false, "value differs", false), entry
    end
    return pack(true, nil, false), value ~= nil and new(value, exptime, flags, time) or nil
end

function ops.incr(entry, time, by, init, init_ttl)
    if not entry and not init then
        return pack(nil, "not found"), nil
    elseif entry and type(entry.value) ~= "number" then
        return pack(nil, "not a number"), entry
    end
    local sum = (entry and entry.value or init) + by
    local after = entry and with_times_of({ value = sum, flags = entry.flags }, entry) or new(sum, init_ttl, 0, time)
    return init and pack(sum, nil, false) or pack(sum), after
end

-- The seconds are for the caller to judge.
function ops.ttl(entry)
    if not entry then
        return pack(nil, "not found"), nil
    end
    return pack(entry.ends_after == NEVER and 0 or "some"), entry
end

function ops.expire(entry, time, exptime)
    if not entry then
        return pack(nil, "not found"), nil
    end
    return pack(true), ends({ value = entry.value, flags = entry.flags, list = entry.list }, exptime, time)
end

local function push(entry, place, value, time)
    if entry and not entry.list then
        return pack(nil, "value not a list"), entry
    end
    local list = entry and { unpack(entry.list) } or {}
    table.insert(list, place or #list + 1, value)
    local after = { list = list }
    return pack(#list), entry and with_times_of(after, entry) or ends(after, 0, time)
end

function ops.lpush(entry, time, value)
    return push(entry, 1, value, time)
end

function ops.rpush(entry, time, value)
    return push(entry, nil, value, time)
end

local function pop(entry, place)
    if not entry then
        return pack(nil), nil
    elseif not entry.list then
        return pack(nil, "value not a list"), entry
    end
    local list = { unpack(entry.list) }
    local value = table.remove(list, place or #list)
    return pack(value), list[1] ~= nil and with_times_of({ list = list }, entry) or nil
end

function ops.lpop(entry)
    return pop(entry, 1)
end

function ops.rpop(entry)
    return pop(entry, nil)
end

function ops.llen(entry)
    if entry and not entry.list then
        return pack(nil, "value not a list"), entry
    end
    return pack(entry and #entry.list or 0), entry
end


return _M
