-- Finds the caller's host: the event loop or scheduler that runs other coroutines while the caller waits. A host is a
-- table with these fields:
--
--   name            the host's name in error messages
--   now()           returns the seconds of a clock that never jumps
--   sleep(s)        waits s seconds; only the calling coroutine waits if the host has others
--   is_yieldable()  returns whether the calling coroutine may wait here. If not, returns false, the reason, and whether
--                   the reason must be raised as an error. Our own hosts give no reason if the caller is not one of
--                   their coroutines
--   wait(w, s)      waits at most s seconds for the wake-up of the parker's waiter w. Returns true, or nil and
--                   "timeout". May return early, because a wake-up is only a hint. If it returns nil and any other
--                   reason, the wait ends, and the caller gets this reason
--   wait_fd(fd, s)  waits at most s seconds until a descriptor is readable; only the calling coroutine waits. May
--                   return early
--   job_runner()    only in our own hosts: returns the job runner for locks of the calling coroutine
--
-- set_host() requires only name and sleep. A host with wait or wait_fd gets wake-ups immediately; other hosts poll for
-- them.

local core = require "resty.holdfast.core"
local later = require "resty.holdfast.later"
local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.wait.parker"
local program = require "resty.holdfast.program"
local task_ids = require "resty.holdfast.tasks.task_ids"

local error, ipairs, loaded, min, pcall = error, ipairs, package.loaded, math.min, pcall
local rawget, require, tostring, type = rawget, require, tostring, type

local _M = {}

local in_nginx = program.is_nginx
local nginx = in_nginx and require "resty.holdfast.host.nginx"

-- Returns the host for the tasks of our scheduler. The scheduler does not run in nginx.
local function of_scheduler()
    local scheduler = require "resty.holdfast.scheduler"
    return { name = "scheduler", is_yieldable = scheduler.is_yieldable, now = scheduler.now, sleep = scheduler.sleep,
             wait = scheduler.wait }
end

-- In a thread of Neovim, there is no vim.wait(), so a wait blocks the thread.
local vim = rawget(_G, "vim")
local in_neovim = type(vim) == "table" and (vim.uv or vim.loop) and vim.wait and vim.schedule and vim.in_fast_event

-- The known hosts. Each wait asks these hosts in order whether they run the calling coroutine; the last host always
-- does. A host is not asked if the program has not loaded its library. nginx and Neovim run all coroutines of their
-- processes. The scheduler and cqueues recognise the coroutines that they run, and a task inside a coroutine of cqueues
-- is recognised only by the scheduler. The other hosts accept any coroutine.
local DETECTED = {
    { host = nginx and nginx.new_sleeping_host(ngx.sleep) },
    { host = nginx },
    { host = not in_nginx and of_scheduler() },
    { library = "cqueues", adapter = "resty.holdfast.host.cqueues" },
    { library = "copas", adapter = "resty.holdfast.host.copas" },
    { host = in_neovim and require "resty.holdfast.host.neovim" },
    { library = "luv", adapter = "resty.holdfast.host.luv" },
    { host = none },
}

local POLL_EVERY = parker.POLL_EVERY

local explicit

-- True if coroutines of a host other than our scheduler may exist.
local foreign = in_nginx or in_neovim and true or false

-- Returns the host of an entry, if the program has loaded its library. Returns nil and the reason if the file of its
-- adapter cannot be read, for example because no descriptor is free. The next wait tries again.
local function host_of(entry)
    if not entry.host and entry.library and loaded[entry.library] then
        local ok, host = pcall(later.load, entry.adapter)
        if not ok then
            return nil, "cannot load its adapter: " .. tostring(host):match("^[^\n]*")
        end
        entry.host = host
        foreign = true
        task_ids.set_foreign(true)
    end
    return entry.host
end


-- Loads adapters now if possible, because the files may not be readable later.
for _, entry in ipairs(DETECTED) do
    host_of(entry)
end
task_ids.set_foreign(foreign)


local function refuse(host, why, to_be_raised, block)
    if block then
        return none
    end
    if to_be_raised then
        error(why, 0)
    end
    if why ~= nil and type(why) ~= "string" then
        why = "is_yieldable() returned false and " .. core.describe(why)
    end
    return nil, "cannot wait here (host " .. host.name .. "): " .. (why or "is_yieldable() returned false")
end


-- Returns the caller's host. If the caller may not wait but `block` is true, returns the host that blocks the process.
-- Otherwise returns nil and the reason, or raises the reason if the host requires this.
function _M.current(block)
    if explicit then
        local ok, why, to_be_raised = explicit.is_yieldable()
        if ok then
            return explicit
        end
        return refuse(explicit, why, to_be_raised, block)
    end
    for _, entry in ipairs(DETECTED) do
        local host, err = host_of(entry)
        if err then
            return refuse({ name = entry.library }, err, false, block)
        end
        if host then
            local ok, why, to_be_raised = host.is_yieldable()
            if ok then
                return host
            end
            if why then
                return refuse(host, why, to_be_raised, block)
            end
        end
    end
    return none
end


-- Sets background_jobs.runner if a host other than the scheduler runs the jobs here.
function _M.load_job_runner()
    if in_nginx then
        require "resty.holdfast.host.nginx_jobs"
    end
end


-- Returns the job runner for the caller's locks, or nil if there is none. Also returns nil for the scheduler and nginx,
-- whose job runners lock/renewal.lua knows.
function _M.job_runner()
    if explicit then
        return explicit.job_runner()
    end
    for _, entry in ipairs(DETECTED) do
        local host = host_of(entry)
        local runner = host and host.job_runner and host.job_runner()
        if runner then
            return runner
        end
    end
    return nil
end


-- Makes the function wait from doze(s), a sleep that a wake-up need not end.
local function derived_wait(doze)
    return function (waiter, seconds)
        local listener = parker.new_listener()
        parker.listen(waiter, listener)
        doze(seconds)
        parker.sleep(0)
        parker.forget(waiter)
        return parker.outcome(listener.woken)
    end
end


local function wait_of(host)
    return host.wait or derived_wait(function (seconds)
        local fd = host.wait_fd and parker.fd()
        if fd then
            host.wait_fd(fd, seconds)
        else
            host.sleep(min(seconds, POLL_EVERY))
        end
    end)
end


local function clock_of(host)
    local now = host.now
    if not now then
        return none.now
    end
    return function ()
        local time = now()
        if type(time) ~= "number" or time - time ~= 0 then
            error("bad host " .. host.name .. ": expected seconds from now(), got " .. core.describe(time), 0)
        end
        return time
    end
end


local function no_runner()
    return nil
end


-- Returns the job runner of a known host. Under a host that the program defines, locks are not renewed.
local function runner_of(host)
    for _, entry in ipairs(DETECTED) do
        if host_of(entry) == host then
            return host.job_runner or no_runner
        end
    end
    return no_runner
end


local function check_function(host, field, required)
    local kind = type(host[field])
    if kind ~= "function" and (required or kind ~= "nil") then
        error('bad host: field "' .. field .. '": expected a function, got ' .. kind, 3)
    end
end


-- set_host(host) makes `host`, a table as described above, the host for all callers; nil restores the detection. The
-- fields name and sleep are required. Raises an error for a field of the wrong type. Does not yield.
function _M.set_host(host)
    if host == nil then
        explicit = nil
        task_ids.set_foreign(foreign)
        return
    end
    if type(host) ~= "table" then
        error("bad host: expected a table or nil, got " .. type(host), 2)
    end
    if type(host.name) ~= "string" then
        error('bad host: field "name": expected a string, got ' .. type(host.name), 2)
    end
    check_function(host, "sleep", true)
    check_function(host, "now", false)
    check_function(host, "is_yieldable", false)
    check_function(host, "wait", false)
    check_function(host, "wait_fd", false)
    explicit = {
        name = host.name,
        sleep = host.sleep,
        now = clock_of(host),
        is_yieldable = host.is_yieldable or function () return true end,
        wait = wait_of(host),
        job_runner = runner_of(host),
    }
    task_ids.set_foreign(true)
end


return _M
