-- The host for coroutines of copas 4 or newer. Only the calling coroutine waits. For copas 1.x, this module returns
-- copas1.lua.
--
-- A wait is a pause in copas that wakeup() ends. copas polls only the descriptors of sockets. So while there are
-- waiters or locks to renew, copas also polls the post: an object that looks like a listening socket and has the
-- parker's descriptor. copas calls the post's accept() when that descriptor is readable. The parker's timer makes it
-- readable every STEP.
--
-- copas.loop() returns when it has nothing to do, and the post must not prevent this. When accept() is called, all work
-- is in the lists of copas, so finished() shows whether anything except the post is left.

local abandon = require("resty.holdfast.wait.wait").abandon
local copas = require "copas"
local core = require "resty.holdfast.core"
local new_jobs = require("resty.holdfast.tasks.queues").new_jobs
local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.wait.parker"

local C = core.C
local co_isyieldable, co_running, co_status = coroutine.isyieldable, coroutine.running, coroutine.status
local ipairs, max, min, next, require = ipairs, math.max, math.min, next, require
local setmetatable, tostring, type = setmetatable, tostring, type

-- The functions of copas that this file uses. addnamedthread exists since copas 4.0. In earlier versions, coroutines
-- that were started before the loop could not be distinguished from others.
local NEEDED = { "addnamedthread", "addserver", "addthread", "finished", "removeserver", "sleep", "wakeup" }

local version = tostring(copas._VERSION or "this version of copas")
local refusal = version .. " is not supported; upgrade to copas 4.0 or newer, or pass a host for it to set_host"


local function has_needed()
    for _, name in ipairs(NEEDED) do
        if type(copas[name]) ~= "function" then
            return false
        end
    end
    return type(copas.running) == "boolean"
end


local function refuse()
    if not co_isyieldable() or copas.running == false then
        return false
    end
    return false, refusal
end


if version:match("^Copas 1%.") then
    return require "resty.holdfast.host.copas1"
elseif not has_needed() then
    return { name = "copas", is_yieldable = refuse }
end

local pause = copas.pause or copas.sleep

local INFINITY = math.huge
-- The largest descriptor that select(2) supports.
local LARGEST_DESCRIPTOR = 1023
local POLL_EVERY = parker.POLL_EVERY
-- The maximum time between two calls to accept(), and the time from a wake-up to the next call, in seconds. Two
-- benchmarks depend on them, in the rows of copas: "100 coroutines wait for one lock while nothing happens" and "From
-- release to resume".
local STEP = 0.1
local SOON = 0.001
-- If a waiter has not returned this number of seconds after its deadline, it counts as gone: it will never be resumed.
local GRACE = 0.05

local _M = { name = "copas", now = none.now }

-- Without LuaSocket, copas polls no descriptors.
local has_select = package.loaded.socket ~= nil

-- The waits, indexed by coroutine: { waiter, due, called }.
local waiting = {}
-- The coroutines that the program has removed from copas. They are never resumed.
local removed = setmetatable({}, { __mode = "k" })

local jobs
-- The number of calls to accept() so far, and the latest time of the next call.
local accepts, next_accept = 0, 0
local is_up = false

local post = setmetatable({}, { __tostring = function () return "tcp{holdfast}" end })


-- Accepts any coroutine, because the loop's coroutines look like other coroutines.
function _M.is_yieldable()
    return copas.running and co_isyieldable() or false
end


-- --- the functions that copas and LuaSocket call ---

-- Makes copas call accept() in a forked child, where the descriptor is closed and accept() gets a new descriptor.
-- LuaSocket treats a "dirty" object as readable, whatever its descriptor.
function post:dirty()
    return not parker.is_mine(self.parker)
end


function post:getfd()
    return self:dirty() and LARGEST_DESCRIPTOR or self.fd
end


function post.settimeout()
end


function post.close()
end


local function never()
end


-- --- the post ---

-- Returns the parker's descriptor, or nil if copas cannot poll it.
local function usable_fd()
    local fd = has_select and parker.fd()
    return fd and fd <= LARGEST_DESCRIPTOR and fd or nil
end


-- Adds the post to copas. accept() is called after `seconds`, or earlier if a job is due.
local function put_up(fd, seconds)
    post.fd, post.parker = fd, parker.get()
    copas.addserver(post, never)  -- does nothing if the post is already there
    is_up = true
    local now = C.holdfast_now()
    local time = min(now + seconds, jobs.next())
    if next_accept <= now or time < next_accept then
        next_accept = time
        parker.timer(max(time - now, 0))
    end
end


local function is_needed()
    return next(waiting) ~= nil or jobs.next() < INFINITY
end


local function take_down()
    is_up = false
    copas.removeserver(post, true)
end


-- Drops the wait of a coroutine that will never be resumed.
local function drop(co)
    local waiter = waiting[co].waiter
    waiting[co] = nil
    abandon(waiter)
    parker.forget(waiter)
end


-- Returns whether the coroutine of a waiter will never be resumed. This is the case if the waiter was woken two calls
-- to accept() ago, or if its deadline has passed, and it has not run since.
local function is_gone(me, time)
    return me.called and accepts >= me.called + 2 or time > me.due + GRACE
end


-- Drops waiters that are gone. Returns whether another call must decide about further waiters.
local function drop_gone(all)
    local time = C.holdfast_now()
    local unsure = false
    local co, me = next(waiting)
    while co do
        local following, its = next(waiting, co)
        if all or is_gone(me, time) then
            drop(co)
        elseif me.called then
            unsure = true
        end
        co, me = following, its
    end
    return unsure
end


-- Returns whether copas has nothing left to do. Before that, announces the exit of copas to the coroutines that wait
-- for this exit, as copas.loop() does.
local function is_over()
    if not copas.finished() then
        return false
    end
    if copas.exiting and copas.exiting() == false then
        copas.exit()
        return false
    end
    return true
end


function post.accept()
    take_down()
    accepts, next_accept = accepts + 1, 0
    parker.sleep(0)
    if is_over() then
        drop_gone(true)
        return
    end
    jobs.run(C.holdfast_now())
    local unsure = drop_gone(false)
    local fd = is_needed() and usable_fd()
    if fd then
        put_up(fd, unsure and SOON or STEP)
    end
end


-- ---

local function wake(me)
    me.woken = true
    if me.co and not me.called then
        me.called = accepts
        copas.wakeup(me.co)
    end
end


function _M.sleep(seconds)
    parker.for_seconds(seconds, pause)
end


function _M.wait(waiter, seconds)
    local fd = usable_fd()
    local co = co_running()
    local me = { wake = wake, woken = false, co = fd and co, waiter = waiter, due = C.holdfast_now() + seconds }
    parker.listen(waiter, me)
    if fd then
        waiting[co] = me
        put_up(fd, STEP)
        pause(seconds)
        waiting[co] = nil
        if is_up and not is_needed() then
            take_down()
        end
    else
        pause(min(seconds, POLL_EVERY))
        parker.sleep(0)
    end
    parker.forget(waiter)
    return parker.outcome(me.woken)
end


-- Makes a removed coroutine leave its wait immediately, instead of at its deadline. Some versions of copas notice the
-- removal only when they resume the coroutine.
local remove = copas.removethread
if remove then
    function copas.removethread(co)
        remove(co)
        if co then
            removed[co] = true
        end
        if waiting[co] then
            drop(co)
            copas.wakeup(co)
        end
    end
end


-- --- renewals ---

jobs = new_jobs(function ()
    local fd = jobs.next() < INFINITY and usable_fd()
    if fd then
        put_up(fd, STEP)
    elseif is_up and not is_needed() then
        take_down()
    end
end)

local runner = {
    jobs = jobs,
    spawn = copas.addthread,
    is_alive = function (co) return not removed[co] and co_status(co) ~= "dead" end,
}


function _M.job_runner()
    return _M.is_yieldable() and usable_fd() and runner or nil
end


return _M
