-- Gives out task ids: the numbers by which the library identifies the coroutine that waits for a lock and the coroutine
-- that holds it. The search for deadlocks uses these numbers. No two coroutines get the same number.
--
-- `current` is the caller's number if it is known in advance: the number of the running task, or `base` outside of
-- tasks. `base` stands for the whole Lua state, because a wait there blocks the whole Lua state. `current` is nil under
-- a host whose coroutines holdfast does not start. In this case, get() distinguishes the coroutines.
--
-- As a holder, `base` means that any coroutine of this Lua state may release the lock. The search for deadlocks follows
-- such a holder only if the whole Lua state waits.
--
-- `named` counts the locks of this Lua state whose holder is a coroutine; `unnamed` counts the locks whose holder is
-- `base`. A waiter that holds no lock is not part of a deadlock.

local C = require("resty.holdfast.core").C
local is_nginx = require("resty.holdfast.program").is_nginx
local later = require "resty.holdfast.later"

local co_running = coroutine.running
local setmetatable = setmetatable

-- The number of ids that the library allots at a time. In the id of the whole Lua state, the lower bits are 0.
local RANGE = 2 ^ 20

-- The holder of locks that cannot be part of a deadlock.
local NOBODY = 0

local base = C.holdfast_task_ids()
local last = base

local _M = {
    NOBODY = NOBODY,
    base = base,
    current = base,
    named = 0,
    outside = base,  -- the value of `current` outside of tasks
    unnamed = 0,
}

-- The numbers of coroutines that are not tasks. If the host reuses coroutines, `runs` contains the use to which a
-- number belongs.
local numbers, runs, count
local main_number

-- The maximum number of keys in these tables that are not objects, and therefore are not collected. If there are more,
-- all of them are forgotten, and a deadlock among the present holders may not be detected.
local MOST = 2 ^ 16


local function forget()
    numbers = setmetatable({}, { __mode = "k" })
    runs = setmetatable({}, { __mode = "kv" })
    count = 0
end
forget()


-- Returns the caller as a key for these tables and, if the host reuses coroutines, an object that identifies this use.
-- Returns nil outside of coroutines.
local function identify()
    local co = co_running()
    return co
end

if is_nginx then
    identify = later.fn("resty.holdfast.host.nginx_threads", "identify")
end


-- Returns a new number. If no numbers are left, returns 0, which stands for nobody.
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


-- Returns the number of the running coroutine.
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


-- Returns the holder to record for a lock of the caller. `chosen` is the holder from options.lua. `certain`: the caller
-- will release the lock.
function _M.holder(chosen, certain)
    if chosen and not (certain and chosen ~= NOBODY) then
        return chosen
    end
    return _M.current or _M.get()
end


-- Returns the number of a waiter's locks that may be part of a deadlock. `stops_all`: the wait blocks the whole Lua
-- state.
function _M.held(stops_all)
    return stops_all and _M.named + _M.unnamed or _M.named
end


-- Sets whether coroutines may run under a host other than the scheduler.
function _M.set_foreign(foreign)
    local before = _M.outside
    _M.outside = not foreign and base or nil
    if _M.current == before then
        _M.current = _M.outside
    end
end
_M.set_foreign(is_nginx)  -- called again when another host is found


return _M
