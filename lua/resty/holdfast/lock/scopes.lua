-- Scopes: what `with` holds while a function runs that may never return. A request of nginx that ends inside of it
-- (ngx.exit, a client that goes away, ngx.thread.kill) leaves its coroutine as it is. Elsewhere a function returns or
-- raises.

local background_jobs = require "resty.holdfast.tasks.background_jobs"
local core = require "resty.holdfast.core"

require("resty.holdfast.host").load_job_runner()

local C = core.C
local add_job, runner = background_jobs.add, background_jobs.runner
local co_running = coroutine.running
local next, pcall = next, pcall

-- How often open scopes are checked, in seconds.
local CHECK_EVERY = 0.1

local _M = {}

local open = {}
local sweep = { due = false }


local function leave(scope)
    local owner = scope.owner
    open[scope] = nil
    if owner.scope == scope then
        owner.scope = nil
    end
end


local function close(scope)
    leave(scope)
    scope.give_back(scope.owner, scope.what)
end


-- The function that entered keeps the scope in a local variable while it runs.
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


-- drop_over() takes it out of the list.
function sweep:is_over()
    self.due = next(open) ~= nil
    return not self.due
end


-- From now on give_back(owner, what) is called when the caller's coroutine is gone. Returns the argument for leave();
-- false outside of coroutines and requests, where nothing is cut off.
local function enter(owner, give_back, what)
    local co = co_running()
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


local function nothing()
    return false
end


_M.enter = runner and enter or nothing
_M.leave = runner and leave or nothing


-- Gives back what the object holds for a coroutine that is gone; whether it did.
function _M.vacate(owner)
    local scope = owner.scope
    if scope and open[scope] and is_left(scope) then
        pcall(close, scope)
        return true
    end
    return false
end


return _M
