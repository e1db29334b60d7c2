-- The host of a worker of nginx in phases that cannot yield, if the program has replaced ngx.sleep by a function that
-- works there: Kong's sleeps in init_worker_by_lua, where its workers wait for each other. lua-resty-lock calls that
-- function, so this host does, too. The whole worker stops.

local nginx = require "resty.holdfast.host.nginx"
local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.wait.parker"

local is_yieldable = nginx.is_yieldable
local sleep = ngx.sleep
local for_seconds, look = parker.for_seconds, parker.sleep
local getinfo, min, pcall = debug.getinfo, math.min, pcall

-- The sleeps of a wait double between these. A sleep cannot end at a wake-up.
local FIRST, LONGEST = 0.001, 0.05

local _M = { name = "nginx", now = none.now, stops_all = true }

-- nginx's own function is one of C.
local is_replaced = getinfo(sleep, "S").what ~= "C"


-- False without a reason: the next host is asked.
function _M.is_yieldable()
    if not is_replaced then
        return false
    end
    local ok, _, for_phase = is_yieldable()
    return not ok and for_phase and (pcall(sleep, 0))
end


function _M.sleep(seconds)
    sleep(seconds)
end


function _M.wait(waiter, seconds)
    local listener = parker.new_listener()
    local step = FIRST
    parker.listen(waiter, listener)
    for_seconds(seconds, function (left)
        sleep(min(step, left))
        look(0)
        step = min(2 * step, LONGEST)
    end, function () return listener.woken end)
    parker.forget(waiter)
    return parker.outcome(listener.woken)
end


return _M
