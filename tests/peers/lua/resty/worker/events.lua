-- Implements lua-resty-worker-events with resty.holdfast.events, for the tests of lua-resty-worker-events. The topic of
-- a holdfast event is the source. Its data are the event's name, the event's data, and the process that posted it.
--
-- A light thread waits for events instead of polling. So the options interval, wait_interval, wait_max and shm_retries
-- have no effect.

local events = require "resty.holdfast.events"

local assert, error, ipairs, pairs, select = assert, error, ipairs, pairs, select
local setmetatable, tostring, type, xpcall = setmetatable, tostring, type, xpcall
local DEBUG, ERR, log, traceback = ngx.DEBUG, ngx.ERR, ngx.log, debug.traceback

-- The thread checks at this interval, in seconds, whether nginx wants to exit.
local LOOK_EVERY = 0.5

local bus, subscription, unique_timeout
local handlers = {}              -- arrays of { function }, by source and event
local local_events, arrived = {}, {}
local is_polling = false

local _M = {}


-- --- handlers ---

local function list_of(source, event)
    local name = source and (#source .. ":" .. source .. (event or "")) or ""
    handlers[name] = handlers[name] or {}
    return handlers[name]
end


-- Calls fn for the list of handlers of each named event. If no event is named, calls fn for the source's list; if there
-- is no source either, for the list of handlers of all events.
local function each_list(fn, source, ...)
    for i = 1, math.max(select("#", ...), 1) do
        fn(list_of(source, (select(i, ...))))
    end
end


local function add(cell_kind, callback, ...)
    assert(type(callback) == "function", "expected function, got: " .. type(callback))
    each_list(function (list) list[#list + 1] = setmetatable({ callback }, cell_kind) end, ...)
    return true
end


function _M.register(...) return add({}, ...) end


function _M.register_weak(...) return add({ __mode = "v" }, ...) end


-- Returns whether the handler was registered.
function _M.unregister(callback, ...)
    assert(type(callback) == "function", "expected function, got: " .. type(callback))
    local removed = false
    each_list(function (list)
        for _, cell in ipairs(list) do
            if cell[1] == callback then
                cell[1], removed = nil, true
            end
        end
    end, ...)
    return removed
end


local function call_all(list, source, event, data, pid)
    local i = 1
    while i <= #list do
        local callback = list[i][1]
        if not callback then  -- unregistered or collected
            table.remove(list, i)
        else
            local ok, err = xpcall(callback, traceback, data, event, source, pid)
            if not ok then
                log(ERR, "worker-events: event callback failed; source=", source, ", event=", event, ", pid=", pid,
                    " error='", tostring(err), "', data=", tostring(data))
            end
            i = i + 1
        end
    end
end


local function handle(source, event, data, pid)
    log(DEBUG, "worker-events: handling event; source=", source, ", event=", event, ", pid=", pid)
    call_all(list_of(), source, event, data, pid)
    call_all(list_of(source), source, event, data, pid)
    call_all(list_of(source, event), source, event, data, pid)
end


-- --- events ---

local function check(source, event)
    if type(source) ~= "string" or source == "" then
        return nil, "source is required"
    elseif type(event) ~= "string" or event == "" then
        return nil, "event is required"
    end
    return true
end


-- Posts an event to all workers. With `unique`, only one worker handles the event.
function _M.post(source, event, data, unique)
    local ok, err = check(source, event)
    if ok then
        ok, err = bus:publish(source, { event = event, data = data, unique = unique, pid = ngx.worker.pid() })
        err = err and 'failed posting event "' .. event .. '" by "' .. source .. '"; ' .. err
    end
    return ok and true, err
end


function _M.post_local(source, event, data)
    local ok, err = check(source, event)
    if ok then
        local_events[#local_events + 1] = { source, event, data }
    end
    return ok, err
end


-- Returns whether this worker handles the event: the event is not unique, or no other worker has claimed it.
local function is_ours(number, unique)
    if unique == nil then
        return true
    end
    local key = "events-one:" .. tostring(unique)
    local claimed, err = bus.dict:add(key, ngx.worker.pid(), unique_timeout)
    if err == "exists" then
        log(DEBUG, "worker-events: skipping event ", number, " was handled by worker ", bus.dict:get(key))
    elseif err then
        log(ERR, "worker-events: cannot determine who handles event ", number, ", dropping it: ", err)
    end
    return claimed
end


-- Returns the next event, or nil if there is none within `timeout` seconds.
local function next_event(timeout)
    local source, posted, number, lost = subscription:next(timeout)
    if not source then
        return nil
    elseif lost > 0 then
        log(ERR, "worker-events: ", lost, " events were lost")
    end
    return { source, posted, number }
end


-- Handles all events that were posted. Returns "done", or "recursive" if a handler calls this function.
function _M.poll()
    if is_polling then
        return "recursive"
    end
    is_polling = true
    repeat
        local event = table.remove(local_events, 1)
        if event then
            handle(event[1], event[2], event[3])
        else
            event = table.remove(arrived, 1) or next_event(0)
            local posted = event and event[2]
            if event and is_ours(event[3], posted.unique) then
                handle(event[1], posted.event, posted.data, posted.pid)
            end
        end
    until not event
    is_polling = false
    return "done"
end


-- The light thread: handles events when they arrive, until the worker exits.
local function listen()
    repeat
        arrived[#arrived + 1] = next_event(LOOK_EVERY)
        _M.poll()
    until ngx.worker.exiting()
    _M.post(_M.events._source, _M.events.stopping)
    _M.poll()
end


-- --- the module ---

-- The suite posts events as another worker would, with the two stores that lua-resty-worker-events makes for each
-- event. Here, the second store publishes the event.
local function accept_stores(zones, shm)
    local zone = { incr = function () return (bus.dict:get("last") or 0) + 1 end }
    function zone.add(_, key, value, ...)
        if not tostring(key):find("^events%-data:") then
            return bus.dict:add(key, value, ...)
        end
        local event = require("cjson").decode(value)
        return bus:publish(event.source, event)
    end
    zones[shm] = setmetatable(zone, { __index = function (_, name)
        return function (_, ...) return bus.dict[name](bus.dict, ...) end
    end })
end


function _M.configure(opts)
    assert(type(opts) == "table", "Expected a table, got " .. type(opts))
    if opts.shm and bus then
        return nil, "Already started, cannot change shm"
    elseif not (opts.shm or bus) then
        return nil, '"shm" option required to start'
    elseif opts.timeout ~= nil and type(opts.timeout) ~= "number" then
        return nil, 'optional "timeout" option must be a number'
    elseif opts.timeout and opts.timeout <= 0 then
        return nil, '"timeout" must be greater than 0'
    end
    unique_timeout = opts.timeout or unique_timeout or 2
    if bus then
        return true
    end
    local err
    bus, err = events.open(opts.shm)
    subscription = bus and assert(bus:subscribe())
    if not bus then
        return nil, err
    end
    accept_stores(ngx.shared, opts.shm)
    local ok
    ok, err = _M.post(_M.events._source, _M.events.started)
    if ok then
        ok, err = ngx.timer.at(0, listen)
    end
    return ok, err
end


function _M.configured()
    return bus ~= nil
end


-- Returns a table of the events' names, which raises an error for any other name.
function _M.event_list(source, ...)
    local list = { _source = source }
    for _, event in pairs { ... } do
        list[event] = event
    end
    return setmetatable(list, { __index = function (_, key)
        error("event '" .. tostring(key) .. "' is an unknown event", 2)
    end })
end


_M.events = _M.event_list("resty-worker-events", "started", "stopping")


return _M
