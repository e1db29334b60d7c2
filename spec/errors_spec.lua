-- Tests lock/lease_pool.lua and tasks/queues.lua. Raises errors at every point: because of a stack overflow, from a
-- hook that ends a slow function, and in finalisers. When the collector runs, it must release whatever was taken.

local process = require "spec.support.process"

-- MAKE[name]() returns a function that takes "key" and releases it. is_free(name) returns whether the key is free.
local PRIMITIVES = [[
local dict = require("resty.shdict").open("spec_errors", { size = "1m", tables = true })
local resty_lock, rwlock, semaphore = require "resty.lock", require "resty.rwlock", require "resty.semaphore"
local task_ids = require "resty.holdfast.tasks.task_ids"
local OPTIONS = { exptime = 0, timeout = 0 }

local function pass() end

local MAKE = {
    lock = function ()
        local lock = resty_lock:new("spec_errors", OPTIONS)
        return function () if lock:lock("key") then lock:unlock() end end
    end,
    ["lock with on_lost"] = function ()
        local lock = resty_lock:new("spec_errors", { exptime = 0, timeout = 0, on_lost = pass })
        return function () if lock:lock("key") then lock:unlock() end end
    end,
    with = function ()
        local lock = resty_lock:new("spec_errors", OPTIONS)
        return function () lock:with("key", pass) end
    end,
    rwlock = function ()
        local lock = rwlock:new("spec_errors", OPTIONS)
        return function () if lock:wrlock("key") then lock:unlock() end end
    end,
    semaphore = function ()
        local permit = semaphore:new("spec_errors", { permits = 1, timeout = 0 })
        return function () if permit:wait("key") then permit:post("key") end end
    end,
}

local function collect()
    collectgarbage()
    collectgarbage()
end

-- Calls `fn` at each depth of a stack of frames with this size, until the stack overflows. It must overflow before too
-- many calls.
local function overflow(fn, size)
    local arguments = ("a, "):rep(size) .. "a"
    local deep = loadstring("local fn = ... local function deep(" .. arguments .. ") fn() return 1 + deep("
                            .. arguments .. ") end return deep")(fn)
    assert(not pcall(deep))
end

-- Repeatedly calls the function that `make` returns. A hook ends the first call after one instruction, the second after
-- two, and so on, until a call returns. After each call, collects garbage and calls `check`.
local function each_interruption(make, check)
    local at, ended = 0, false
    while not ended do
        at = at + 1
        ended = pcall(function ()
            local fn = make()
            debug.sethook(function () debug.sethook() error("too long", 0) end, "", at)
            fn()
            debug.sethook()
        end)
        collect()
        check(at)
    end
    assert(at > 30)
end

local function is_free(name)
    if name == "semaphore" then
        return semaphore:new("spec_errors", { permits = 1 }):count("key") == 1
    end
    return resty_lock:new("spec_errors"):holder("key") == nil
end
]]


describe("an error at any point", function ()
    after_each(process.clean_up)

    local function run(source)
        return (process.run(PRIMITIVES .. source, { stderr = true }))
    end

    it("loses no lock when the stack overflows", function ()
        assert.equal("done\n", run [[
            jit.off()
            for name, make in pairs(MAKE) do
                for size = 40, 115 do -- for each size, the stack overflows at a different instruction
                    overflow(make(), size)
                    collect()
                    if not is_free(name) or task_ids.named ~= 0 or task_ids.unnamed ~= 0 then
                        say(name, size, is_free(name), task_ids.named, task_ids.unnamed)
                        os.exit(1)
                    end
                end
            end
            say "done"
        ]])
    end)

    it("loses no lock when a hook raises it", function ()
        assert.equal("done\n", run [[
            jit.off()
            for name, make in pairs(MAKE) do
                each_interruption(make, function (at)
                    if not is_free(name) then
                        say(name, "at instruction", at)
                        os.exit(1)
                    end
                end)
            end
            say "done"
        ]])
    end)

    it("keeps no memory", function ()
        local kept = tonumber(run [[
            jit.off()
            dict:set("long", ("x"):rep(200000))
            local function get() dict:get("long") end
            get()
            collect()
            local before = collectgarbage("count")
            each_interruption(function () return get end, pass)
            collect()
            say(collectgarbage("count") - before)
        ]])
        assert.is_true(kept < 2000)
    end)
end)


describe("a finaliser", function ()
    after_each(process.clean_up)

    it("may pass options even if a call with other options has been compiled", function ()
        assert.equal("done\n", (process.run([[
            local shdict = require "resty.shdict"
            shdict.open("spec_errors", { size = "1m" })
            local lock = require("resty.lock"):new("spec_errors")
            for _ = 1, 300 do
                shdict.open("spec_errors", { size = "1m" })
            end
            for _ = 1, 300 do
                lock:lock("key", { timeout = 0, exptime = 5 })
                lock:unlock()
            end
            local guard = newproxy(true)
            getmetatable(guard).__gc = function ()
                shdict.open("spec_errors", { mode = "0600", size = "1m", tables = true, persist = false })
                lock:lock("key", { why = "the end" })
                lock:unlock()
            end
            guard = nil
            collectgarbage()
            collectgarbage()
            say "done"
        ]], { stderr = true })))
    end)

    it("may release a lock again at the end of the Lua state", function ()
        local text, status = process.run([[
            require("resty.shdict").open("spec_errors", { size = "1m" })
            local lock = require("resty.lock"):new("spec_errors")
            local rwlock = require("resty.rwlock"):new("spec_errors")
            local semaphore = require("resty.semaphore"):new("spec_errors", { permits = 1 })
            lock:lock("lock")
            rwlock:wrlock("rwlock")
            semaphore:wait("semaphore")
            GUARD = newproxy(true)
            getmetatable(GUARD).__gc = function ()
                say(pcall(function ()
                    lock:remaining() lock:valid() lock:token() lock:expire() lock:unlock()
                    rwlock:downgrade() rwlock:upgrade() rwlock:unlock()
                    semaphore:post("semaphore")
                end))
            end
        ]], { stderr = true })
        assert.equal("true\n", text)
        assert.equal(0, status)
    end)
end)
