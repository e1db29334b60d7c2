-- Events that all processes of a machine see in the same order. Manual: docs/resty.holdfast.events.md.
--
-- The dictionary NAME keeps the last `keep` events. Event n is the value of the key "e:" .. n % keep, a table { n,
-- topic, data }. Publishing event n is one store to that key, which replaces event n - keep unless another publisher
-- has already replaced it. So the numbers have no gaps, and a publisher that dies, at whatever instruction, has
-- published either its whole event or nothing.
--
-- The dictionary NAME.state has two numbers. It is never full, so the numbers are not evicted. "last" is the number of
-- the last event. It is stored after the event, so it is too low while a publisher is between the two stores, or if a
-- publisher has died between them. A publisher or subscriber that finds an event after "last" therefore increases
-- "last". A subscriber waits until the key of the next event changes.
--
-- "first" is the number before the first event, and has `keep` as its flags. It is a time in microseconds, so a bus
-- that was removed and created again does not reuse a number.

local core = require "resty.holdfast.core"
local shdict = require "resty.shdict"

local describe, is_time = core.describe, core.is_time
local error, floor, format, getmetatable, max = error, math.floor, string.format, getmetatable, math.max
local next, setmetatable, tostring, type = next, setmetatable, tostring, type

local now = core.C.holdfast_now

local _M = { _VERSION = core.version }

local Bus, Subscription = {}, {}
Bus.__index, Subscription.__index = Bus, Subscription


-- Raises an error for an argument that is not acceptable. `level` selects the line to blame, as in error(); the default
-- is the caller of the function that checks its argument.
local function check(accepted, name, what, expected, given, level)
    if not accepted then
        error(format("bad %s to %s: expected %s, got %s", name, what, expected, describe(given)), level or 3)
    end
end


local function is_count(given)
    return type(given) == "number" and given >= 1 and given <= 2 ^ 31 and given == floor(given)
end


local function is_position(given)
    return type(given) == "number" and given >= 0 and given < 2 ^ 53 and given == floor(given)
end


local function check_options(opts, known, what)
    check(opts == nil or type(opts) == "table", "options", what, "a table", opts, 4)
    local name = opts and next(opts)
    while name ~= nil do
        if not known[name] then
            error(format('unknown option "%s" to %s', tostring(name), what), 3)
        end
        name = next(opts, name)
    end
    return opts or {}
end


local OPEN_OPTIONS = { size = true, keep = true, persist = true, mode = true }


local function differs(name, keep, requested)
    return format("events %s: keep is %s, but the caller requested %s", core.quote(name), describe(keep),
                  describe(requested))
end


-- Returns the number of the last event, or a smaller number.
local function last_number(bus)
    local last = bus.state:get("last")
    return is_position(last) and last or 0
end


-- Returns the number before the first event and `keep`, or nil and an error. Stores both if the bus is new.
local function read_first(state, keep)
    local first, flags = state:get("first")
    while first == nil do
        local _, err = state:add("first", floor(now() * 1e6), 0, keep)
        if err and err ~= "exists" then
            return nil, err
        end
        first, flags = state:get("first")
    end
    return first, flags or 0
end


-- Returns the number before the first event, or nil and an error.
local function first_number(bus)
    local first, keep = read_first(bus.state, bus.keep)
    if first == nil then
        return nil, keep
    elseif not is_position(first) or keep ~= bus.keep then
        return nil, differs(bus.name, keep, bus.keep)
    end
    return first
end


-- Opens the bus for the events of one name: events.open(name, opts).
--
-- name: the name of a dictionary. opts: keep (how many events are kept; default: the number that the first program has
-- set, or 1000), and size, persist and mode as in shdict.open. All programs must use the same `keep`.
--
-- Returns the bus, or nil and a message. Raises an error for arguments of the wrong type. Does not yield.
function _M.open(name, opts)
    check(type(name) == "string", "name", "events.open", "a string", name)
    opts = check_options(opts, OPEN_OPTIONS, "events.open")
    check(opts.keep == nil or is_count(opts.keep), 'option "keep"', "events.open", "a whole number from 1", opts.keep)
    local dict, err = shdict.open(name, { size = opts.size, persist = opts.persist, mode = opts.mode, versions = true,
                                          tables = true })
    local state
    if dict then
        state, err = shdict.open(name .. ".state", { size = "12k", persist = opts.persist, mode = opts.mode,
                                                     versions = true })
    end
    if not state then
        return nil, err
    end
    local first, keep = read_first(state, opts.keep or 1000)
    if first == nil then
        return nil, keep
    end
    local bus = setmetatable({ name = name, dict = dict, state = state, keep = opts.keep or keep }, Bus)
    first, err = first_number(bus)
    return first and bus, err
end


-- Returns the event that is stored under the key of event n (its number may be different), or nil, and the version of
-- this key. On failure, returns nil, nil and an error.
local function look(bus, n)
    local event, err, version = bus.dict:get_changed("e:" .. n % bus.keep)
    if not version then
        return nil, nil, err
    end
    -- Other programs may have stored anything under this key.
    local is_event = type(event) == "table" and is_position(event[1]) and type(event[2]) == "string"
                     and event[1] % bus.keep == n % bus.keep
    return is_event and event or nil, version
end


-- Increases "last" to n if it is less than n.
local function advance(bus, n)
    local state = bus.state
    local last, _, version = state:get_changed("last")
    while version and not (is_position(last) and last >= n) do
        local stored, err = state:set_unless_changed("last", version, n)
        if stored or err ~= "changed" then
            return
        end
        last, _, version = state:get_changed("last")
    end
end


-- Publishes an event to all subscribers: bus:publish(topic, data).
--
-- topic: a string. data: what a dictionary with tables can store, or nil.
--
-- Returns the number of the event, or nil and "no memory" (the event is too large) or another error of set. Does not
-- yield.
function Bus.publish(bus, topic, data)
    check(getmetatable(bus) == Bus, "receiver", "publish", "a bus", bus)
    check(type(topic) == "string", "topic", "publish", "a string", topic)
    local first, err = first_number(bus)
    if not first then
        return nil, err
    end
    local n = max(first, last_number(bus)) + 1
    while true do
        local event, version
        event, version, err = look(bus, n)
        if err then
            return nil, err
        elseif event and event[1] >= n then
            -- Other publishers were faster. The publisher of this event may have died before it could store "last".
            n = event[1] + 1
            advance(bus, event[1])
        else
            local stored
            stored, err = bus.dict:set_unless_changed("e:" .. n % bus.keep, version, { n, topic, data })
            if stored then
                advance(bus, n)
                return n
            elseif err ~= "changed" then
                return nil, err
            end
        end
    end
end


local SUBSCRIBE_OPTIONS = { topic = true, from = true }


-- Begins to listen: bus:subscribe(opts).
--
-- opts: topic (a string; default: all topics), from (the number of the last event that the caller has seen, as returned
-- by sub:position(); 0: from the oldest event that is kept; default: only events from now on).
--
-- Returns the subscription, or nil and "dictionary not found". Raises an error for arguments of the wrong type. Does
-- not yield.
function Bus.subscribe(bus, opts)
    check(getmetatable(bus) == Bus, "receiver", "subscribe", "a bus", bus)
    opts = check_options(opts, SUBSCRIBE_OPTIONS, "subscribe")
    check(opts.topic == nil or type(opts.topic) == "string", 'option "topic"', "subscribe", "a string", opts.topic)
    check(opts.from == nil or is_position(opts.from), 'option "from"', "subscribe", "a number from position()",
          opts.from)
    local first, err = first_number(bus)
    if not first then
        return nil, err
    end
    local seen, missed = max(first, last_number(bus)), 0
    local event, version
    event, version, err = look(bus, seen + 1)
    if not version then
        return nil, err
    end
    while event and event[1] > seen do  -- "last" is too low
        seen = event[1]
        event = look(bus, seen + 1)
    end
    local lost_from
    if opts.from and opts.from > seen then  -- a number from before a restart of the machine
        seen, missed, lost_from = first, 1, opts.from
    elseif opts.from then
        seen = opts.from == 0 and first or opts.from
    end
    return setmetatable({ bus = bus, topic = opts.topic, seen = seen, missed = missed, lost_from = lost_from },
                        Subscription)
end


-- Returns the number of the last event that next() has passed. A later subscription can begin after this event.
function Subscription.position(sub)
    check(getmetatable(sub) == Subscription, "receiver", "position", "a subscription", sub)
    return sub.lost_from or sub.seen
end


-- Moves a subscription past events that are lost. Until next() has reported them, the position is before them.
local function skip_to(sub, seen, lost)
    sub.lost_from = sub.lost_from or sub.seen
    sub.seen, sub.missed = seen, sub.missed + lost
end


-- Returns the next event if it has been published: its topic, data and number, and how many events before it were lost.
-- Otherwise returns nil and the version of the event's key, or nil, nil and an error.
local function take(sub)
    local bus = sub.bus
    while true do
        local n = sub.seen + 1
        local event, version, err = look(bus, n)
        local first
        if version then
            first, err = first_number(bus)
        end
        local last = last_number(bus)
        if not first then
            return nil, nil, err
        elseif first >= n then  -- the bus was removed and created again
            skip_to(sub, first, 1)
        elseif event and event[1] == n then
            if last < n then
                advance(bus, n)
            end
            sub.seen = n
            if sub.topic == nil or sub.topic == event[2] then
                local missed = sub.missed
                sub.missed, sub.lost_from = 0, nil
                return event[2], event[3], n, missed
            end
        elseif event and event[1] > n then  -- more than `keep` events were published
            skip_to(sub, event[1] - bus.keep, event[1] - bus.keep - sub.seen)
        elseif last < n then
            return nil, version
        -- The event was evicted, because the dictionary is too small, or it was published after look().
        elseif bus.dict:version("e:" .. n % bus.keep) == version then
            local seen = max(n, last - bus.keep)
            skip_to(sub, seen, seen - sub.seen)
        end
    end
end


-- Returns the next event, and waits for one if there is none yet: sub:next(timeout).
--
-- timeout: seconds (default 5; math.huge: no limit; 0: does not wait).
--
-- Returns the topic, the data, the number of the event, and how many events before it were lost. Otherwise returns nil
-- and "timeout", "dictionary not found" or a message that says why the caller cannot wait here. Yields like lock() of
-- resty.lock.
function Subscription.next(sub, timeout)
    check(getmetatable(sub) == Subscription, "receiver", "next", "a subscription", sub)
    check(timeout == nil or is_time(timeout), "timeout", "next", "a number of seconds, 0 or more", timeout)
    local deadline = now() + (timeout or 5)
    while true do
        local topic, data, n, missed = take(sub)
        if topic then
            return topic, data, n, missed
        elseif not data then
            return nil, n  -- an error
        end
        local changed, err = sub.bus.dict:wait("e:" .. (sub.seen + 1) % sub.bus.keep, data, max(deadline - now(), 0))
        if not changed then
            return nil, err
        end
    end
end


return _M
