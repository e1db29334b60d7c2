-- Programs for every event loop that holdfast supports, for tests that apply to all loops. Each program runs in a new
-- process.

local command, names_of, neovim, process = require "spec.support" ("command", "names", "neovim", "process")

local _M = {}

-- Prepended to each program.
_M.COMMON = [[
    local shdict = require "resty.shdict"
    shdict.open("spec_hosts", { size = "1m" })
    local resty_lock = require "resty.lock"
    local hosts = require "resty.holdfast.host"
    local now = require("resty.holdfast.core").C.holdfast_now
    local function report(message) say(message) end
    local live = 0  -- number of functions of watched() that have not ended
    local function watched(fn)
        live = live + 1
        return function ()
            local ok, err = xpcall(fn, debug.traceback)
            live = live - 1
            if not ok then report(err) end
        end
    end
    local function new(options) return assert(resty_lock:new("spec_hosts", options)) end
]]

-- Shows, for each host, how a program starts a coroutine, sleeps in it, and runs its loop until all coroutines have
-- ended. An error in a coroutine goes to report().
_M.LOOPS = {
    scheduler = [[
        local scheduler = require "resty.holdfast.scheduler"
        local spawn, sleep = scheduler.spawn, scheduler.sleep
        scheduler.on_error = function (_, message) report(message) end
        local function run() scheduler.run() end
    ]],
    cqueues = [[
        local cqueues = require "cqueues"
        local controller = cqueues.new()
        local function spawn(fn) controller:wrap(fn) end
        local sleep = cqueues.sleep
        local function run()
            for err in controller:errors() do report(err) end
        end
    ]],
    -- A program's own loop, which has only two functions: wait_fd and sleep.
    ["wait_fd of its own"] = [[
        local cqueues = require "cqueues"
        local controller = cqueues.new()
        local function spawn(fn) controller:wrap(fn) end
        local sleep = cqueues.sleep
        require("resty.holdfast.host").set_host {
            name = "wait_fd of its own",
            sleep = sleep,
            is_yieldable = function () return (select(2, cqueues.running())) end,
            wait_fd = function (fd, seconds) cqueues.poll({ pollfd = fd, events = "r" }, seconds) end,
        }
        local function run()
            for err in controller:errors() do report(err) end
        end
    ]],
    luv = [[
        local uv = require "luv"
        local function spawn(fn) coroutine.wrap(watched(fn))() end
        local function sleep(seconds)
            local co, timer = coroutine.running(), uv.new_timer()
            uv.update_time()
            timer:start(math.ceil(seconds * 1000), 0, function ()
                timer:close()
                assert(coroutine.resume(co))
            end)
            coroutine.yield()
        end
        local function run() uv.run() end
    ]],
    copas = [[
        local copas = require "copas"
        local sleep = require("resty.holdfast.host.copas").sleep
        local function spawn(fn) copas.addthread(watched(fn)) end
        local function run() while live > 0 do copas.step() end end
    ]],
    neovim = [[
        local uv = vim.loop
        local function spawn(fn) coroutine.wrap(watched(fn))() end
        local function sleep(seconds)
            local co = coroutine.running()
            vim.defer_fn(function () assert(coroutine.resume(co)) end, math.ceil(seconds * 1000))
            coroutine.yield()
        end
        local function run() vim.wait(60000, function () return live == 0 end) end
    ]],
}

-- A folder with copas 4 or newer and its dependencies, such as share/lua/5.1 of a luarocks tree.
local copas_path = os.getenv "COPAS_PATH"
if copas_path and copas_path ~= "" then
    _M.LOOPS["new copas"] = [[
        local copas = require "copas"
        assert(not copas._VERSION:match "^Copas 1%.", "COPAS_PATH names an old copas")
        local sleep = copas.pause or copas.sleep
        local function spawn(fn) copas.addthread(watched(fn)) end
        local function run() copas.loop() end
    ]]
end

-- Functions that each program may use after its start. await(what) sleeps until what() is true, with a time limit.
-- holding(key) returns a new lock object that holds the key. later(seconds, fn) calls fn after this time, in a new
-- coroutine. tell_after(ticks, line) sends the line after `ticks` times 10 ms, in a new coroutine that ends when `over`
-- is set.
local TOOLS = [[
    local over = false
    local function await(what)
        local patience = now() + 20
        while not what() and now() < patience do sleep(0.01) end
    end
    local function holding(key)
        local lock = new { exptime = 60 }
        assert(lock:lock(key))
        return lock
    end
    local function later(seconds, fn)
        spawn(function ()
            sleep(seconds)
            fn()
        end)
    end
    local function tell_after(ticks, line)
        spawn(function ()
            while not over do
                sleep(0.01)
                ticks = ticks - 1
                if ticks == 0 then say(line) end
            end
        end)
    end
]]

-- The names of hosts, indexed by the names of their loops. Most names are the same.
_M.hosts = setmetatable({ ["new copas"] = "copas" }, { __index = function (_, name) return name end })

_M.names = names_of(_M.LOOPS)

-- The loop of examples/embed. Only conformance_spec.lua starts it as a loop.
_M.LOOPS.embed = [[
    local begin, sleep = spawn, sleep
    local function spawn(fn) begin(watched(fn)) end
    local function run() while live > 0 do sleep(0.001) end end
]]
local EMBED = command.program:match("^(.*)/") .. "/examples/embed/embed"


-- Returns code that is prepended to everything else, so that a program finds the loop's library.
function _M.path(name)
    return name == "new copas" and ("package.path = %q .. package.path\n"):format(
        copas_path .. "/?.lua;" .. copas_path .. "/?/init.lua;") or ""
end


-- Starts a child that runs `source` as a program of the host. process.lua explains the options.
function _M.start(name, source, options)
    source = _M.path(name) .. _M.COMMON .. _M.LOOPS[name] .. TOOLS .. source
    if name == "embed" then
        return process.start({ EMBED, process.script(source) }, options)
    end
    return (name == "neovim" and neovim.start or process.start)(source, options)
end


-- Returns start(source, options) for the programs of one host.
function _M.starter(name)
    return function (source, options)
        return _M.start(name, source, options)
    end
end


return _M
