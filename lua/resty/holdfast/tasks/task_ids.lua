-- Task ids: the numbers by which the library knows the coroutine that waits for a lock and the one that holds it. The
-- search for deadlocks follows them. A number is never given to two coroutines.
--
-- `current` is the caller's number if it is known beforehand: the running task's, or outside of tasks `base`, which
-- stands for the whole Lua state, because a wait there stops all of it. It is nil under a host of the user's own, with
-- coroutines that we do not start: get() tells them apart.
--
-- As a holder, `base` stands for any coroutine of this Lua state: any of them may release the lock. The search follows
-- such a holder only where all of the Lua state waits.
--
-- `named` counts the locks of this Lua state with a coroutine as their holder, `unnamed` those with `base`. A waiter
-- that holds nothing is no part of a deadlock.

local C = require("resty.holdfast.core").C
local is_nginx = require("resty.holdfast.program").is_nginx
local later = require "resty.holdfast.later"

local co_running = coroutine.running
local setmetatable = setmetatable

-- The lower bits of a number; 0 stands for the whole Lua state.
local RANGE = 2 ^ 20

-- The holder of what cannot be part of a deadlock.
local NOBODY = 0

local base = C.holdfast_task_ids()
local last = base

local _M = {
    NOBODY = NOBODY,
    base = base,
    current = base,
    named = 0,
    outside = base,  -- what `current` is outside of tasks
    unnamed = 0,
}

-- The numbers of coroutines that are not tasks. Where a host reuses coroutines, `runs` says for which use each number
-- is.
local numbers, runs, count
local main_number

-- Keys that are no objects stay in these tables. Beyond this many, all is forgotten: a deadlock among present holders
-- may then go unnoticed.
local MOST = 2 ^ 16


local function forget()
    numbers = setmetatable({}, { __mode = "k" })
    runs = setmetatable({}, { __mode = "kv" })
    count = 0
end
forget()


-- The caller as a key of a table, and where a host reuses coroutines, an object that identifies this use. nil outside
-- of coroutines.
local function identify()
    local co = co_running()
    return co
end

if is_nginx then
    identify = later.fn("resty.holdfast.host.nginx_threads", "identify")
end


-- A new number; 0, which stands for nothing, when none are left.
local function new()
    if last == 0 then
        return 0
    end
    last = last + 1
    if last % RANGE == 0 then
        last = C.holdfast_task_ids()
        return new()
    end
    return last
end
_M.new = new


-- The number of the coroutine that runs.
function _M.get()
    local key, run = identify()
    if not key then
        main_number = main_number or new()
        return main_number
    end
    local number = numbers[key]
    if not number or runs[key] ~= run then
        if not number then
            count = count + 1
            if count > MOST then
                forget()
            end
        end
        number = new()
        numbers[key] = number
        runs[key] = run
    end
    return number
end


-- The holder to name for what the caller takes. `told`: what options.lua says of its object; `certain`: the caller will
-- release it.
function _M.holder(told, certain)
    if told and not (certain and told ~= NOBODY) then
        return told
    end
    return _M.current or _M.get()
end


-- How many locks that count in a deadlock a waiter may hold. `stops_all`: its wait stops the whole Lua state.
function _M.held(stops_all)
    return stops_all and _M.named + _M.unnamed or _M.named
end


-- Sets whether coroutines run under a host of the user's own.
function _M.set_foreign(foreign)
    local before = _M.outside
    _M.outside = not foreign and base or nil
    if _M.current == before then
        _M.current = _M.outside
    end
end
_M.set_foreign(is_nginx)  -- other hosts say so when they are found


return _M
