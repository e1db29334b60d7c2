-- What scheduler.on_error is told, in place of standard error.

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


return _M
