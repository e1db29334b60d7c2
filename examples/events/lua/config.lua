-- The configuration of this worker. push.lua replaces it in all workers.

local events = require "resty.holdfast.events"

-- Requests read `current`, a plain Lua table. Until the first push, it is the table below.
local _M = { current = { limit = 10 } }


local function follow(premature, pushes, answers)
    while not premature and not ngx.worker.exiting() do
        local topic, config, number = pushes:next(1)    -- waits at most a second, so that the worker can exit soon
        if topic then
            _M.current = config
            answers:publish("has", { worker = ngx.worker.id(), number = number })
        elseif config ~= "timeout" then
            ngx.log(ngx.ERR, "cannot get the configuration any more: ", config)
            return
        end
    end
end


-- Call this once in each worker. The bus keeps the last push for workers that start later.
function _M.listen()
    local pushes = assert(events.open("site_config", { keep = 1 }))
    local answers = assert(events.open("site_answers"))
    assert(ngx.timer.at(0, follow, assert(pushes:subscribe({ from = 0 })), answers))
end


return _M
