-- Collects the messages of scheduler.on_error, which otherwise go to standard error.

local busted = require "busted"
local scheduler = require "resty.holdfast.scheduler"

local _M = {}


-- Returns a list that gets each message from now on, and a function that restores on_error.
function _M.collect()
    local reports, on_error = {}, scheduler.on_error
    scheduler.on_error = function (_, message)
        reports[#reports + 1] = message
    end
    return reports, function ()
        scheduler.on_error = on_error
    end
end


-- Does the same for each test of a describe. The list is empty when a test begins. Tasks that a test has left behind
-- run to their end before the next test.
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
