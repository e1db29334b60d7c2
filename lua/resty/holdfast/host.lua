-- Who lets others run while the caller waits. A host is a table:
--
--   name            what error messages call it
--   now()           seconds of a clock that never jumps
--   sleep(s)        waits s seconds; only the calling coroutine, if there are others
--   is_yieldable()  whether the calling coroutine may wait here; if not, false and the reason
--   wait(w, s)      waits at most s seconds for the wake-up of the parker's waiter w:
--                   true, or nil, "timeout"; may return early, because a wake-up is only a hint
--
-- A host given to set_host needs only name and sleep.

local core = require "resty.holdfast.core"
local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.parker"

local C = core.C
local error = error
local ipairs = ipairs
local min = math.min
local type = type

local _M = {}

-- Asked in this order, at each wait, whether the calling coroutine is one of theirs. The last one always says yes.
local DETECTED = {
    require "resty.holdfast.host.scheduler",
    none,
}

-- A host that can only sleep looks for wake-ups this often.
local LOOK_EVERY = 0.005

local explicit


-- The host of the caller. nil and the reason where it may not wait.
function _M.current()
    if explicit then
        local ok, why = explicit.is_yieldable()
        if not ok then
            return nil, "cannot wait here (host " .. explicit.name .. "): " .. (why or "the host says no")
        end
        return explicit
    end
    for _, host in ipairs(DETECTED) do
        if host.is_yieldable() then
            return host
        end
    end
    return none
end


local function sleepy_wait(sleep)
    return function (waiter, seconds)
        local listener = {
            woken = false,
            wake = function (self) self.woken = true end,
        }
        parker.listen(waiter, listener)
        sleep(min(seconds, LOOK_EVERY))
        parker.sleep(0)
        parker.forget(waiter)
        if listener.woken then
            return true
        end
        return nil, "timeout"
    end
end


local function check_function(host, field, required)
    local kind = type(host[field])
    if kind ~= "function" and (required or kind ~= "nil") then
        error('bad host: field "' .. field .. '": function expected, got ' .. kind, 3)
    end
end


-- From now on this host is everybody's; nil goes back to looking for it.
function _M.set_host(host)
    if host == nil then
        explicit = nil
        return
    end
    if type(host) ~= "table" then
        error("bad host: table or nil expected, got " .. type(host), 2)
    end
    if type(host.name) ~= "string" then
        error('bad host: field "name": string expected, got ' .. type(host.name), 2)
    end
    check_function(host, "sleep", true)
    check_function(host, "now", false)
    check_function(host, "is_yieldable", false)
    check_function(host, "wait", false)
    explicit = {
        name = host.name,
        sleep = host.sleep,
        now = host.now or function () return C.holdfast_now() end,
        is_yieldable = host.is_yieldable or function () return true end,
        wait = host.wait or sleepy_wait(host.sleep),
    }
end


return _M
