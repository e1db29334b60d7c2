-- The method `with` of locks, rwlocks and semaphores: holds something while a function runs.

local note = require("resty.holdfast.tasks.traceback").note
local refused = require("resty.holdfast.lock.contended").refused
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


-- The method obj:name(key, fn, ...) or obj:name(key, opts, fn, ...): takes the lock, calls the function and returns its
-- results. Raises the function's errors unchanged; returns what take() says without the lock. `how`:
--   check(self, name), check_options(opts, name)   raise, and blame the method's caller
--   take(self, key, opts)
--   keep(self, key)                                the argument for give_back()
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
