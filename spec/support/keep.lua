-- Keeps an object alive until the end of the test, and returns it. The garbage collector releases a lock if nothing
-- references its object.

local busted = require "busted"

local kept = {}

busted.subscribe({ "test", "end" }, function ()
    kept = {}
    return nil, true
end)

return function (object)
    kept[#kept + 1] = object
    return object
end
