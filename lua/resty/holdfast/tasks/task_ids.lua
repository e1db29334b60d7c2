-- Which coroutine waits for a lock, and which one holds it, as numbers that the library keeps: the search for deadlocks
-- follows from who waits to who holds. A number is never given to two coroutines.
--
-- `current` is the caller's number where that is known beforehand: the one of the task that runs, or outside of tasks
-- `base`, which stands for the whole Lua state, as who waits there stops all of it. It is nil under a host of the
-- user's own, which runs coroutines that nobody tells us of: get() tells them apart.
--
-- As a holder, `base` stands for any coroutine of this Lua state: it is not certain which one will release the lock.
-- The search follows such a hold only where all of the Lua state waits.
--
-- `named` is how many locks this Lua state holds of which a coroutine is the holder, `unnamed` of how many `base` is.
-- Who waits and holds nothing is no part of a deadlock.

local C = require("resty.holdfast.core").C

local co_running = coroutine.running
local setmetatable = setmetatable

-- The lower bits of a number; 0 stands for the whole Lua state.
local RANGE = 2 ^ 20

-- The holder of what is no part of a deadlock.
local NOBODY = 0

local base = C.holdfast_agents()
local last = base

local _M = {
    NOBODY = NOBODY,
    base = base,
    current = base,
    named = 0,
    outside = base,  -- what `current` is outside of tasks
    unnamed = 0,
}

-- Of coroutines that are not tasks. Where a host uses coroutines again: in which of its runs each has its number.
local numbers, runs, count
local main_number

-- Keys that are no objects stay in these tables. When there are so many, all is forgotten: then a deadlock of those
-- that hold something now may not be found.
local MOST = 2 ^ 16


local function forget()
    numbers = setmetatable({}, { __mode = "k" })
    runs = setmetatable({}, { __mode = "kv" })
    count = 0
end
forget()


-- Who calls, as something that is a key in a table, and for a host that uses it again, what it is used for: an object
-- that is another for each use. nil outside of coroutines.
local function identify()
    local co = co_running()
    return co
end


-- A number that no coroutine has; 0, which tells nothing, when there are none left.
local function new()
    if last == 0 then
        return 0
    end
    last = last + 1
    if last % RANGE == 0 then
        last = C.holdfast_agents()
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


-- Who is named the holder of what the caller takes. `told`: what options.lua says of its object; `certain`: the caller
-- will release it.
function _M.holder(told, certain)
    if told and not (certain and told ~= NOBODY) then
        return told
    end
    return _M.current or _M.get()
end


-- How many locks that can be part of a deadlock a waiter may hold. `stops_all`: nothing else of its Lua state runs.
function _M.held(stops_all)
    return stops_all and _M.named + _M.unnamed or _M.named
end


-- For a host that knows more of its coroutines.
function _M.set_identify(fn)
    identify = fn
end


-- Whether coroutines run under a host of the user's own from now on.
function _M.set_foreign(foreign)
    local before = _M.outside
    _M.outside = not foreign and base or nil
    if _M.current == before then
        _M.current = _M.outside
    end
end


return _M
