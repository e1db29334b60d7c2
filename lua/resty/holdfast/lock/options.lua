-- Reads the options of locks, rwlocks and semaphores. Errors name the line that called the method. So only a method may
-- call a reader, and only a reader may call a check.

local core = require "resty.holdfast.core"
local later = require "resty.holdfast.later"
local lock_settings = require "resty.holdfast.lock.settings"
local program = require "resty.holdfast.program"
local task_ids = require "resty.holdfast.tasks.task_ids"

local concat, error, next = table.concat, error, next
local sort, tonumber, tostring, type = table.sort, tonumber, tostring, type
local describe, is_duration, is_time = core.describe, core.is_duration, core.is_time
local warn_once = program.warn_once

local INFINITY = math.huge
local NONE = {}
local WHY_MAX = core.WHY_MAX

-- The default timeout, in seconds.
local DEFAULT_TIMEOUT = 5

-- The levels for error(), which select the line that called the method. The method calls the reader, and the reader
-- calls the check.
local BLAME_FROM_CHECK = 4
local BLAME_FROM_READER = 3

local DEFAULT_SETTINGS = lock_settings.DEFAULT_SETTINGS

local _M = { DEFAULT_SETTINGS = DEFAULT_SETTINGS, known = lock_settings.known }


-- --- checks, which accept nil and good values ---------------------------------------------------------

local function refusal(name, method, accepted, given)
    return 'bad option "' .. name .. '" to ' .. method .. ": expected " .. accepted .. ", got " .. describe(given)
end


local function is_longest_step(given)
    return given ~= 0 and is_time(given)
end


local function is_cluster(given)
    return type(given) == "boolean" or type(given) == "string"
end


local function is_way_to_wait(given)
    return given == "wake" or given == "poll"
end


local function is_log(given)
    return type(given) == "boolean" or type(given) == "function"
end


local function check(opts, name, method, is_acceptable, accepted)
    local given = opts[name]
    if given == nil or is_acceptable(given) then
        return given
    end
    error(refusal(name, method, accepted or "a number, 0 or more", given), BLAME_FROM_CHECK)
end


local function typed(opts, name, method, kind)
    local given = opts[name]
    if given == nil or type(given) == kind then
        return given
    end
    error(refusal(name, method, "a " .. kind, given), BLAME_FROM_CHECK)
end


local function whole_number(opts, name, method, least, most)
    local given = opts[name]
    if type(given) == "number" and given >= least and given <= most and given % 1 == 0 then
        return given
    end
    error(refusal(name, method, "a whole number from " .. least .. " to " .. most, given), BLAME_FROM_CHECK)
end


-- --- readers -------------------------------------------------------------------------------------------

-- Returns a text that lists the names in order.
local function accepted_names(names)
    sort(names)
    local count = #names
    return (count == 1 and "" or concat(names, ", ", 1, count - 1) .. " or ") .. names[count]
end


-- Returns the name of an unknown option, or nil if all are known. Does not use pairs(), because in a finaliser, a
-- compiled loop over pairs() never ends if it is entered with a different table. LuaJIT then returns to the compiled
-- code until it can record new code, which it never does in a finaliser.
local function unknown(opts, known)
    local name = next(opts)
    while name ~= nil and known[name] do
        name = next(opts, name)
    end
    return name
end


-- Reads a number as lua-resty-lock does: false counts as absent, and strings and cdata numbers are converted to
-- numbers.
local function loose_number(given)
    if type(given) == "string" or type(given) == "cdata" then
        return tonumber(given) or given
    end
    return given or nil
end


local function is_number(given)
    return given == given
end


-- Returns the value if it is good. For a bad value, logs a warning and returns nil. Bad values must not raise an error,
-- because lua-resty-lock notices them only during a wait, or never.
local function noticed(name, given, is_acceptable, method)
    if given == nil or is_acceptable(given) then
        return given
    end
    warn_once('bad option "' .. name .. '" to ' .. method .. ": " .. describe(given) .. "; ignored")
    return nil
end


-- Reads the argument of expire() in the same way as the option exptime.
function _M.read_time(given)
    local time = loose_number(given)
    if time == nil or is_number(time) then
        return time
    end
    warn_once("bad time to expire: " .. describe(time) .. "; ignored")
    return nil
end


-- Reads options as lua-resty-lock does. A negative timeout counts as 0.
local function as_the_original(opts, method)
    local timeout, ratio = loose_number(opts.timeout), loose_number(opts.ratio)
    local step = noticed("step", loose_number(opts.step), is_time, method)
    return {
        exptime = noticed("exptime", loose_number(opts.exptime), is_number, method),
        timeout = noticed("timeout", type(timeout) == "number" and timeout < 0 and 0 or timeout, is_number, method),
        step = step == INFINITY and DEFAULT_TIMEOUT or step,
        ratio = noticed("ratio", type(ratio) == "number" and ratio < 0 and 0 or ratio, is_time, method),
        max_step = noticed("max_step", loose_number(opts.max_step), is_longest_step, method),
        wait = opts.wait, block = opts.block, fair = opts.fair, deadlock = opts.deadlock, renew = opts.renew,
        on_lost = opts.on_lost, log_timeouts = opts.log_timeouts, why = opts.why, cluster = opts.cluster,
    }
end


-- Returns the options. For an unknown option, raises an error in modules that lua-resty-lock does not have. In methods
-- that lua-resty-lock has, only logs a warning.
local function check_names(opts, method, known)
    if type(opts) ~= "table" then
        local text = "bad options to " .. method .. ": expected a table, got " .. type(opts)
        if not known.lenient then
            error(text, BLAME_FROM_CHECK)
        end
        warn_once(text .. "; ignored")
        return NONE
    end
    local name = unknown(opts, known.names)
    if name ~= nil then
        local text = 'unknown option "' .. tostring(name) .. '" to ' .. method .. ": expected "
                     .. accepted_names(known.listed)
        if not known.lenient then
            error(text, BLAME_FROM_CHECK)
        end
        warn_once(text)
    end
    return known.lenient and as_the_original(opts, method) or opts
end


-- Raises an error if new(dictionary) was called instead of new(class, dictionary). Only modules that are newer than
-- resty.lock check this.
function _M.check_class(class, name)
    if type(class) ~= "table" then
        error("bad call to new: call it as " .. name .. ":new(dictionary, options)", BLAME_FROM_READER)
    end
end


local function holder_of(deadlock)
    if deadlock == nil then
        return DEFAULT_SETTINGS.holder
    end
    return not deadlock and task_ids.NOBODY
end


-- Returns the times, the settings and the permits of a new object. `defaults` contains values for absent options.
function _M.read_new(opts, known, defaults)
    opts = check_names(opts, "new", known)
    local times = {
        exptime = check(opts, "exptime", "new", is_time) or defaults.exptime,
        timeout = check(opts, "timeout", "new", is_time),
        step = check(opts, "step", "new", is_duration, opts.step == INFINITY and "a finite number"),
        ratio = check(opts, "ratio", "new", is_time) or 2,
        max_step = check(opts, "max_step", "new", is_longest_step, "a number greater than 0") or 0.5,
        cluster = check(opts, "cluster", "new", is_cluster, "a boolean or a cluster name") or false,
    }
    local wait = check(opts, "wait", "new", is_way_to_wait, '"wake" or "poll"') or DEFAULT_SETTINGS.wait
    local block = typed(opts, "block", "new", "boolean") or false
    local fair = typed(opts, "fair", "new", "boolean")
    local deadlock = typed(opts, "deadlock", "new", "boolean")
    local renew = typed(opts, "renew", "new", "boolean") or false
    local on_lost = typed(opts, "on_lost", "new", "function") or false
    local log_timeouts = check(opts, "log_timeouts", "new", is_log, "a boolean or a function") or false
    if renew or on_lost then
        later.load("resty.holdfast.lock.renewal")  -- loading it later might fail and leave a taken lock without a watch
    end
    local settings = DEFAULT_SETTINGS
    if wait ~= settings.wait or block or fair or deadlock ~= nil or renew or on_lost or log_timeouts then
        settings = { wait = wait, block = block, fair = fair and 1 or 0, holder = holder_of(deadlock),
                     itself = deadlock or false, watched = renew or on_lost ~= false, renew = renew, on_lost = on_lost,
                     log_timeouts = log_timeouts }
    end
    local permits = defaults.most_permits and whole_number(opts, "permits", "new", 1, defaults.most_permits)
    return times, settings, permits
end


-- Returns the options exptime, timeout and why of a call that takes a lock. Each of them may be nil.
function _M.read_call(opts, method, known)
    opts = check_names(opts, method, known)
    local why = typed(opts, "why", method, "string")
    local exptime, timeout = check(opts, "exptime", method, is_time), check(opts, "timeout", method, is_time)
    return exptime, timeout, why and why:sub(1, WHY_MAX)
end


return _M
