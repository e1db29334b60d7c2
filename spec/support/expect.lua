-- Checks of arguments and results that several specs share.

local assert = require "luassert"

local _M = {}


-- Calls a function that must raise an error at a line of the caller's file. Returns the message without the position.
function _M.blamed(fn)
    local here = debug.getinfo(2, "S").source:match("[^/]*$")
    local ok, err = pcall(fn)
    assert.is_false(ok)
    local file, message = err:match("^([^:]*):%d+: (.*)$")
    assert.equal(here, file and file:match("[^/]*$"), err)
    return message
end


-- Returns a function that calls `new` of the module with options that `new` must refuse, and returns the message.
function _M.refusal_of(module, dictionary)
    return function (options)
        local message = _M.blamed(function ()  -- not a tail call, because blamed() checks its caller
            local made = module:new(dictionary, options)
            return made
        end)
        return message
    end
end


-- Repeats `try` until it returns true, which means that it was in time. Use this function if something must happen
-- within a short time: a busy machine may delay this process at any point.
function _M.in_time(try)
    for _ = 1, 50 do
        if try() then
            return
        end
    end
    error("none of the attempts was in time", 2)
end


return _M
