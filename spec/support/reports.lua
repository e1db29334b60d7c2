-- What scheduler.on_error is told, in place of standard error.

local busted = require "busted"
local scheduler = require "resty.holdfast.scheduler"

local _M = {}


-- A list that gets each message from now on, and a function that puts things back as they were.
function _M.collect()
    local reports, on_error = {}, scheduler.on_error
    scheduler.on_error = function (_, message)
        reports[#reports + 1] = message
    end
    return reports, function ()
        scheduler.on_error = on_error
    end
end


-- The same for each claim of a describe: a list that is empty when a claim begins. The tasks that a claim leaves run to
-- their end before the next.
function _M.fixture()
    local reports, on_error = {}, nil
    busted.before_each(function ()
        for i = #reports, 1, -1 do
            reports[i] = nil
        end
        on_error = scheduler.on_error
        scheduler.on_error = function (_, message)
            reports[#reports + 1] = message
        end
    end)
    busted.after_each(function ()
        scheduler.run()
        scheduler.on_error = on_error
    end)
    return reports
end


return _M
