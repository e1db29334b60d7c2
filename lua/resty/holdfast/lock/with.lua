-- Implements the method `with` of locks, rwlocks and semaphores, which holds a lock or a permit while a function runs.
--
-- In nginx, the function may never return. If its request is terminated (ngx.exit, a client that disconnects,
-- ngx.thread.kill), nginx abandons the coroutine. So in nginx, each `with` has a scope, and a background job finds
-- scopes whose coroutines are gone. In other programs, a function always returns or raises an error.

local background_jobs = require("resty.holdfast.tasks.queues").background_jobs
local core = require "resty.holdfast.core"
local note = require("resty.holdfast.tasks.traceback").note

require("resty.holdfast.host").load_job_runner()

local C, refused = core.C, core.refused
local add_job, runner = background_jobs.add, background_jobs.runner
local co_running = coroutine.running
local error, next, pcall, type, xpcall = error, next, pcall, type, xpcall

local _M = {}

-- The interval between two checks of the open scopes, in seconds. No benchmark covers this constant, because none has
-- scopes.
local CHECK_EVERY = 0.1

local open = {}
local sweep = { due = false }


local function leave_scope(scope)
    local owner = scope.owner
    open[scope] = nil
    if owner.scope == scope then
        owner.scope = nil
    end
end


local function close(scope)
    leave_scope(scope)
    scope.give_back(scope.owner, scope.what)
end


-- Returns whether the coroutine of a scope is gone. While the coroutine lives, the function that entered the scope has
-- the scope in a local variable.
local function is_left(scope)
    return runner.is_gone(scope.co, scope.use) or not runner.has_local(scope.co, scope)
end


function sweep:run()
    self.due = false
    local scope = next(open)
    while scope do
        local following = next(open, scope)
        if is_left(scope) then
            pcall(close, scope)
        end
        scope = following
    end
    if next(open) then
        self.due = true
        add_job(self, C.holdfast_now() + CHECK_EVERY)
    end
end


-- Checks the open scopes. drop_over() calls this, and removes the job if the result is true.
function sweep:is_over()
    self.due = next(open) ~= nil
    return not self.due
end


-- Makes sure that give_back(owner, what) is called if nginx abandons the caller's coroutine. Returns the argument for
-- leave_scope(). Returns false outside of coroutines and requests, where nginx never abandons the caller.
local function enter_scope(owner, give_back, what)
    local co = runner and co_running()
    if not co or not runner.has_request() then
        return false
    end
    local scope = { owner = owner, give_back = give_back, what = what, co = co, use = runner.use_of(co) }
    open[scope] = true
    owner.scope = scope
    if not sweep.due then
        sweep.due = true
        add_job(sweep, C.holdfast_now() + CHECK_EVERY)
    end
    return scope
end


-- Gives back the lock or permit that the object holds for a coroutine that is gone. Returns whether the object held
-- one.
function _M.vacate(owner)
    local scope = owner.scope
    if scope and open[scope] and is_left(scope) then
        pcall(close, scope)
        return true
    end
    return false
end


-- --- the method ---

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


-- Makes the method obj:name(key, [opts,] fn, ...). The method takes the lock, calls the function and returns its
-- results. It raises the function's errors unchanged. If it does not get the lock, it returns the results of take().
-- `how` has these functions:
--   check(self, name), check_options(opts, name)   raise an error at the line of the method's caller
--   take(self, key, opts)                          takes the lock
--   keep(self, key)                                returns `what`, the argument for give_back()
--   give_back(self, what)                          releases the lock
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
            error("bad function to " .. name .. ": expected a function, got " .. type(fn), 2)
        end
        return run(self, how, key, ...)
    end
end


return _M
