-- The part of lock/options.lua that an object without options needs.

local program = require "resty.holdfast.program"
local task_ids = require "resty.holdfast.tasks.task_ids"

local error = error

local _M = {}


local function default_wait()
    local wait = program.getenv("HOLDFAST_WAIT")
    if wait == nil or wait == "" then
        return "wake"
    end
    if wait ~= "wake" and wait ~= "poll" then
        error('holdfast: bad HOLDFAST_WAIT "' .. wait .. '": expected "wake" or "poll"', 0)
    end
    return wait
end

-- The default for the coroutine that is recorded as the holder of an object's locks. The possible values are
-- task_ids.NOBODY, task_ids.base, and false, which means the coroutine that takes the lock. In nginx, a different light
-- thread may release the lock.
local DEFAULT_HOLDER = program.is_nginx and task_ids.base or false

-- The settings of an object without options. `block`: if the host does not allow waits, a wait blocks the process.
-- `itself`: a coroutine that waits for a lock that it holds itself is in a deadlock. `watched`: each lock of the object
-- has a watch (lock/renewal.lua).
_M.DEFAULT_SETTINGS = { wait = default_wait(), block = false, fair = 0, holder = DEFAULT_HOLDER, itself = false,
                        watched = false, renew = false, on_lost = false, log_timeouts = false }


-- Describes the options of a method. `lenient`: the method accepts everything that works with lua-resty-lock.
function _M.known(names, lenient)
    local known = {}
    for i = 1, #names do
        known[names[i]] = true
    end
    return { names = known, listed = names, lenient = lenient or false }
end


return _M
