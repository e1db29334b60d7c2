-- What is held while a function runs: the method `with` of locks, rwlocks and semaphores.

local note = require("resty.holdfast.tasks.traceback").note
local refused = require("resty.holdfast.lock.acquire").refused
local scopes = require "resty.holdfast.lock.scopes"

local enter_scope, leave_scope = scopes.enter, scopes.leave
local error, type, xpcall = error, type, xpcall

local _M = {}


local function release(self, how, what, scope, ok, ...)
    if scope then
        leave_scope(scope)
    end
    how.give_back(self, what)
    if not ok then
        error((...), 0)
    end
    return ...
end


local function run(self, how, key, opts, fn, ...)
    local taken, err, keys = how.take(self, key, opts)
    if not taken then
        return refused(err, keys)
    end
    local what = how.keep(self, key)
    local scope = enter_scope(self, how.give_back, what)
    return release(self, how, what, scope, xpcall(fn, note, ...))
end


-- The method obj:name(key, fn, ...) or obj:name(key, opts, fn, ...): takes the lock, calls the function, and gives what
-- it returns. An error is raised on as it is. Without the lock what take() says. `how`:
--   check(self, name), check_options(opts, name)   raise, and blame the line that called the method
--   take(self, key, opts)
--   keep(self, key)                                what give_back() is to be given
--   give_back(self, what)
function _M.method(name, how)
    local check, check_options = how.check, how.check_options
    return function (self, key, ...)
        check(self, name)
        local opts, fn = ...
        if type(opts) == "function" then
            return run(self, how, key, nil, ...)
        end
        check_options(opts, name)
        if type(fn) ~= "function" then
            error("bad function to " .. name .. ": function expected, got " .. type(fn), 2)
        end
        return run(self, how, key, ...)
    end
end


return _M
