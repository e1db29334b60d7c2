-- Tests what happens while a process is stopped in the middle of a change of a dictionary. A caller that wants a lock
-- in this dictionary waits no longer than its timeout, and gets the lock if the process continues.

local keep, process, waits = require "spec.support" ("keep", "process", "waits")
local lock_info = require "resty.holdfast.lock.lock_info"
local none = require "resty.holdfast.host.none"
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"

local SEARCH = 5  -- seconds within which a child must be stopped in a change of the dictionary

-- This process changes the dictionary nearly all the time.
local WRITER = [[
    local dict = require("resty.shdict").shared.spec_stopped
    local text = ("x"):rep(5000)
    say "writing"
    while true do
        for i = 1, 100 do
            dict:set("entry" .. i, text)
        end
    end
]]


describe("while a process is stopped inside the dictionary,", function ()
    local dict

    before_each(function ()
        dict = assert(shdict.open("spec_stopped", { size = "1m" }))
    end)

    after_each(function ()
        process.clean_up()
        shdict.remove("spec_stopped")
    end)

    local function stop_inside()
        local child = process.start(WRITER)
        child:hear()
        local probe = assert(resty_lock:new("spec_stopped"))
        local deadline = scheduler.now() + SEARCH
        repeat
            none.sleep(math.random() / 1000)
            child:kill(process.STOP)
            local ok, err = probe:trylock("probe")  -- makes one attempt
            if not ok then
                assert.equal("timeout", err)
                return child
            end
            probe:unlock()
            child:kill(process.CONT)
        until scheduler.now() > deadline
        pending("on this machine the child was never stopped inside the dictionary")
    end

    for _, wait in ipairs { "wake", "poll" } do
        describe(wait .. ":", function ()
            it("a forked child that cannot yet join the runtime directory also continues", function ()
                local source = [[
                    local ffi = require "ffi"
                    ffi.cdef "int fork(void); int open(const char *, int, ...); int fcntl(int, int, ...);"
                    ffi.cdef "int close(int); void _exit(int);"
                    ffi.cdef "struct region { short type, whence; int64_t start, length; int pid; };"
                    local dict = require("resty.shdict").shared.spec_stopped
                    dict:set("entered", true)
                    -- Acts like a process that was stopped while it joined the runtime directory (docs/format.md).
                    local processes = ffi.C.open(os.getenv("HOLDFAST_DIR") .. "/processes", 2)
                    assert(ffi.C.fcntl(processes, 37, ffi.new("struct region", 1, 0, 2 ^ 39, 1)) == 0)
                    if ffi.C.fork() == 0 then
                        ffi.C.close(processes)
                        local lock = require("resty.lock"):new("spec_stopped", { timeout = 30, wait = "WAIT" })
                        say(select(2, dict:set("key", 1)))
                        say(lock:lock("key"))
                        ffi.C._exit(0)
                    end
                    hear()
                    ffi.C.close(processes)
                    hear()
                ]]
                local child = process.start((source:gsub("WAIT", wait)))
                assert.matches("processes has been locked by [%w ]+ for %d+ ms", child:hear())
                child:say("release it")
                assert.is_number(tonumber(child:hear()))
            end)

            it("lock waits until its timeout and lets other tasks run", function ()
                stop_inside()
                local ticks, start, waited, result = 0, scheduler.now(), nil, nil
                local waiter = scheduler.spawn(function ()
                    result = { resty_lock:new("spec_stopped", { wait = wait, timeout = 1 }):lock("key") }
                    waited = scheduler.now() - start
                end)
                scheduler.spawn(function ()
                    while waiter:status() ~= "done" do
                        scheduler.sleep(0.001)
                        ticks = ticks + 1
                    end
                end)
                assert.is_true(scheduler.run())
                assert.same({ nil, "timeout" }, result)
                assert.is_true(waited >= 1, waited)
                assert.is_true(waited < 15, "the wait does not end: " .. waited)
                assert.is_true(ticks > 1, ticks)
            end)

            it("lock gets the lock when the process continues", function ()
                local child = stop_inside()
                local elapsed, err
                scheduler.spawn(function ()
                    local lock = assert(resty_lock:new("spec_stopped", { wait = wait, timeout = 20 }))
                    elapsed, err = lock:lock("key")
                    lock:unlock()
                end)
                scheduler.spawn(function ()
                    scheduler.sleep(0.2)
                    child:kill(process.CONT)
                end)
                assert.is_true(scheduler.run())
                assert.is_nil(err)
                assert.is_true(elapsed > 0)
            end)
        end)
    end

    it("a caller that does not wait makes one attempt", function ()
        stop_inside()
        assert.same({ nil, "timeout" }, { resty_lock:new("spec_stopped", { timeout = 0 }):lock("key") })
        assert.same({ nil, "timeout" }, { resty_lock:new("spec_stopped"):trylock("key") })
    end)

    -- In rare cases, the dictionary may look damaged in the middle of a change. Then the call can succeed only after
    -- the change, so this function tries again.
    local function unless_torn(look)
        for _ = 1, 3 do
            local child = stop_inside()
            local value, err = look()
            if value then
                return value
            end
            assert.equal("timeout", err)
            child:kill()
            child:wait()
        end
        error("none of three attempts reports anything", 2)
    end

    it("locks are listed and counted immediately", function ()
        for _, key in ipairs { "held", "held too" } do
            assert(keep(resty_lock:new("spec_stopped")):lock(key))
        end
        assert.equal(2, #unless_torn(function () return dict:locks() end))
        local fastest = math.huge -- of several rounds, because the machine may stall during one
        for _ = 1, 5 do
            local start = scheduler.now()
            assert.equal(2, #dict:locks())
            local counted = assert(lock_info.count_all(dict[1], 60))
            fastest = math.min(fastest, scheduler.now() - start)
            assert.equal(2, counted.held.lock)
        end
        assert.is_true(fastest < 0.5, fastest)
    end)

    it("log_timeouts names the holder", function ()
        assert(keep(resty_lock:new("spec_stopped")):lock("held", { why = "for the report" }))
        local line
        local lock = resty_lock:new("spec_stopped", {
            timeout = 0.1, block = true, log_timeouts = function (text) line = text end,
        })
        local told = unless_torn(function ()
            assert.same({ nil, "timeout" }, { lock:lock("held") })
            return line:match("held by .+"), line:match("holder unknown: (.+)")
        end)
        assert.matches('why: "for the report"', told)
    end)

    describe("a release that the caller does not repeat is completed when the process continues:", function ()
        local function new(kind)
            local options = { exptime = 0, timeout = 60 }
            for name, value in pairs(kind.options or {}) do
                options[name] = value
            end
            return assert(require(kind.class):new("spec_stopped", options))
        end

        -- Starts a process that waits for the key, so that each release takes the mutex. The process reports how its
        -- wait ended.
        local function start_waiter(kind)
            -- A compiled trace may keep the function below alive. A test waits until another object is collected, so
            -- the function uses an object of its own.
            local probe = new(kind)
            local waiter = process.start(([[
                local object = require(%q):new("spec_stopped", { timeout = 60, %s })
                local taken, err = object[%q](object, "key")
                say(taken and "got it" or err)
            ]]):format(kind.class, kind.options and "permits = 1" or "", kind.wanted))
            assert(waits.await(function () return probe:waiters("key") == 1 end))
            return waiter
        end

        -- For each kind, how an object takes the key, and how a second object waits for it in the meantime.
        local KINDS = {
            { name = "a lock", class = "resty.lock", take = "lock", with = "with", wanted = "lock" },
            { name = "a reader", class = "resty.rwlock", take = "rdlock", with = "with_rd", wanted = "wrlock" },
            { name = "a writer", class = "resty.rwlock", take = "wrlock", with = "with_wr", wanted = "rdlock" },
            { name = "a permit", class = "resty.semaphore", take = "wait", with = "with", wanted = "wait",
              options = { permits = 1 } },
        }

        for _, kind in ipairs(KINDS) do
            it(kind.name .. " of `with`", function ()
                local object, child, waiter = new(kind), nil, nil
                assert.equal("done", object[kind.with](object, "key", function ()
                    waiter = start_waiter(kind)
                    child = stop_inside()
                    return "done"
                end))
                child:kill(process.CONT)
                assert.equal("got it", waiter:hear())
                child:kill()
                child:wait()
                assert.truthy(object[kind.take](object, "another key"))
            end)

            it(kind.name .. " whose object is collected", function ()
                local object = new(kind)
                assert(object[kind.take](object, "key"))
                local waiter = start_waiter(kind)
                local child = stop_inside()
                object = nil  -- luacheck: ignore 311
                collectgarbage()
                collectgarbage()
                child:kill(process.CONT)
                assert.equal("got it", waiter:hear())
            end)
        end
    end)

    it("a lock is not lost and can be released, although it cannot be renewed", function ()
        local lost = false
        local lock = assert(resty_lock:new("spec_stopped", { on_lost = function () lost = true end }))
        lock:lock("key")
        local child = stop_inside()
        assert.same({ nil, "timeout" }, { lock:expire(100) })
        assert.is_true(lock:valid())
        assert.equal(1, lock:unlock())
        assert.is_false(lost)
        child:kill(process.CONT)
    end)
end)
