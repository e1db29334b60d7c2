-- A process that takes and releases the keys that a test names, so that other processes must wait. Each test gets a new
-- process.

local busted = require "busted"
local process = require "spec.support.process"

local Holder = {}
Holder.__index = Holder

local SOURCE = [[
    local lock = new { exptime = 600 }
    say "opened"
    for key in hear do
        say(lock:lock(key) and "taken")
        hear()
        say(lock:unlock() and "released")
    end
]]


function Holder:take(key)
    self.child:say(key)
    self.child:expect "taken"
end


function Holder:release()
    self.child:say "release"
    self.child:expect "released"
end


-- Releases the key when the other child sends this line.
function Holder:release_when(other, line)
    other:expect(line)
    self:release()
end


function Holder:kill()
    self.child:kill()
end


-- Call this function in the body of a describe. `common` is Lua code that defines new(options), which creates a lock
-- object. `start` is process.start by default.
return function (common, start)
    local self = setmetatable({}, Holder)
    busted.before_each(function ()
        self.child = (start or process.start)(common .. SOURCE)
        self.child:expect "opened"
    end)
    return self
end
