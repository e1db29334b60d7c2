-- Keeps an object alive until the end of the test, and returns it. Without a reference to a lock's object, the garbage
-- collector would release the lock.

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
