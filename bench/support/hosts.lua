-- How a program of each host runs coroutines. The table has for each host, by name:
--
--   command   the program that runs the part (default: luajit)
--   needs     the host's Lua library or program, which must be installed
--   start()   returns sleep and run_all(count, task); run_all returns when all coroutines have ended

local clock = require "bench.support.clock"
local ffi = require "ffi"

local now = clock.now

local POLLIN = 1

local _M = {}


-- Returns the function run_all for a loop. spawn(fn, ...) starts a coroutine; run() returns when the loop has nothing
-- left to do.
local function run_all_by(spawn, run)
    return function (count, task)
        local ended = 0
        for i = 1, count do
            spawn(function ()
                task(i)
                ended = ended + 1
            end)
        end
        run(function () return ended == count end)
        assert(ended == count, "the loop has ended before its coroutines")
    end
end


local function spawn_together(fn)
    local co = coroutine.create(fn)
    local ok, err = coroutine.resume(co)
    assert(ok, not ok and debug.traceback(co, err))
end


local function uv_sleep(uv)
    return function (seconds)
        local co, timer = coroutine.running(), uv.new_timer()
        uv.update_time()
        timer:start(math.ceil(seconds * 1000), 0, function ()
            timer:close()
            local ok, err = coroutine.resume(co)
            assert(ok, not ok and debug.traceback(co, err))
        end)
        coroutine.yield()
    end
end


_M.scheduler = {
    start = function ()
        local scheduler = require "resty.holdfast.scheduler"
        return scheduler.sleep, run_all_by(scheduler.spawn, function () assert(scheduler.run()) end)
    end,
}

-- A wait blocks the process, so there is only the main coroutine.
_M.none = {
    start = function ()
        local none = require "resty.holdfast.host.none"
        return none.sleep, function (count, task)
            assert(count == 1, "a process that blocks has one waiter")
            task(1)
        end
    end,
}

_M.luv = {
    needs = "luv",
    start = function ()
        local uv = require "luv"
        return uv_sleep(uv), run_all_by(spawn_together, function () uv.run() end)
    end,
}

_M.cqueues = {
    needs = "cqueues",
    start = function ()
        local cqueues = require "cqueues"
        local controller = cqueues.new()
        return cqueues.sleep, run_all_by(function (fn) controller:wrap(fn) end,
                                         function () assert(controller:loop()) end)
    end,
}

_M.copas = {
    needs = "copas",
    start = function ()
        local copas = require "copas"
        return require("resty.holdfast.host.copas").sleep, run_all_by(copas.addthread, function (is_over)
            while not is_over() do
                copas.step()
            end
        end)
    end,
}


-- The smallest loop that can host holdfast, as in docs/hosts.md: its coroutines wait for a descriptor or a time, and
-- the loop calls poll(2).

ffi.cdef [[
struct holdfast_bench_pollfd { int fd; short events; short revents; };
int holdfast_bench_poll(struct holdfast_bench_pollfd *fds, unsigned long count, int timeout) __asm__("poll");
]]

local loop = {}

-- Maps a coroutine to { fd =, deadline = }.
local suspended = {}
local inside


local function resume(co)
    suspended[co] = nil
    inside = co
    local ok, err = coroutine.resume(co)
    inside = nil
    if not ok then
        error(debug.traceback(co, err), 0)
    end
end


-- Suspends the calling coroutine until the descriptor is readable or the time has passed.
function loop.wait_fd(fd, seconds)
    suspended[coroutine.running()] = { fd = fd, deadline = now() + seconds }
    coroutine.yield()
end


function loop.sleep(seconds)
    loop.wait_fd(-1, seconds)
end


function loop.is_inside()
    return inside ~= nil and coroutine.running() == inside
end


function loop.spawn(fn, ...)
    local arguments = { ... }
    suspended[coroutine.create(function () fn(unpack(arguments)) end)] = { fd = -1, deadline = 0 }
end


-- Runs until no coroutine is waiting.
function loop.run()
    while next(suspended) do
        local waits, first = {}, math.huge
        for co, wait in pairs(suspended) do
            waits[#waits + 1] = { co = co, wait = wait }
            first = math.min(first, wait.deadline)
        end
        local fds = ffi.new("struct holdfast_bench_pollfd[?]", #waits)
        for i, entry in ipairs(waits) do
            fds[i - 1].fd, fds[i - 1].events = entry.wait.fd, POLLIN
        end
        ffi.C.holdfast_bench_poll(fds, #waits, math.ceil(math.max(first - now(), 0) * 1000))
        for i, entry in ipairs(waits) do
            if fds[i - 1].revents ~= 0 or entry.wait.deadline <= now() then
                resume(entry.co)
            end
        end
    end
end


_M.wait_fd = {
    start = function ()
        require("resty.holdfast.host").set_host {
            name = "poll(2)",
            sleep = loop.sleep,
            wait_fd = loop.wait_fd,
            is_yieldable = loop.is_inside,
        }
        return loop.sleep, run_all_by(loop.spawn, loop.run)
    end,
}

local NVIM = "nvim --headless -u NONE -i NONE -n -c 'luafile bench/child.lua' -c 'qall!' </dev/null"

_M.neovim = {
    command = NVIM,
    needs = "nvim",
    start = function ()
        local vim = vim  -- luacheck: ignore 113
        return uv_sleep(vim.uv or vim.loop), run_all_by(spawn_together, function (is_over)
            while not vim.wait(10000, is_over, 1000) do end
        end)
    end,
}

-- The main loop of Neovim, without coroutines. It handles events while it waits.
_M.neovim_main = {
    command = NVIM,
    needs = "nvim",
    start = function ()
        local vim = vim  -- luacheck: ignore 113
        local function sleep(seconds)
            vim.wait(math.ceil(seconds * 1000), function () return false end, 1000)
        end
        return sleep, function (count, task)
            assert(count == 1, "there is one main loop")
            task(1)
        end
    end,
}


return _M
