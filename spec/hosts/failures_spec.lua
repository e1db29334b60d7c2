-- Tests what happens in every event loop if a coroutine fails, or if the host breaks the rules for hosts. No lock and
-- no wake-up may be lost, and no coroutine may delay the others.

local loops, process = require "spec.support" ("loops", "process")

local COMMON = [[
    local parker = require "resty.holdfast.wait.parker"

    -- Holds "key" until the returned function is called, or for `seconds`.
    local kept = {} -- keeps the collector from releasing the locks
    local function hold(seconds)
        local lock = new({ exptime = seconds or 60 })
        assert(lock:lock("key"))
        kept[#kept + 1] = lock
        return function () return lock:unlock() end
    end

    -- `failed` tells whether a coroutine has failed.
    local failed, say_error = false, report
    function report(message) failed = true say_error(message) end

    -- Takes "key", which a different coroutine holds. Reports `word` and the result, and releases the key.
    local function take(word, options)
        local lock = new(options)
        say(word, lock:lock("key") > 0, lock:unlock())
    end

    -- Sets a host that waits with wait(real, waiter, seconds), where `real` is the previous host. Call this function in
    -- a coroutine.
    local function set_liar(wait)
        local real = hosts.current()
        hosts.set_host {
            name = "liar",
            sleep = real.sleep,
            is_yieldable = real.is_yieldable,
            wait = function (waiter, seconds) return wait(real, waiter, seconds) end,
        }
    end

    -- Reports the listeners, the holder and the waiters. After all coroutines have ended, none of them may be left.
    local function say_leftovers()
        collectgarbage()
        collectgarbage()
        local holder = new():holder("key")
        say("left", parker.has_listeners(), holder and holder.waiters)
    end
]]


for _, name in ipairs(loops.names) do
    describe("in the loop of " .. name, function ()
        after_each(process.clean_up)

        local function answer(source)
            local child = loops.start(name, COMMON .. source)
            return child:hear_all(), child:wait()
        end

        -- Returns the lines that begin with `word`.
        local function lines_of(text, word)
            local found = {}
            for line in text:gmatch("[^\n]+") do
                if line:sub(1, #word) == word then
                    found[#found + 1] = line
                end
            end
            return found
        end

        it("a lock of a failed coroutine keeps the others waiting until its release", function ()
            local text = answer [[
                local held = new({ exptime = 60 })
                spawn(function ()
                    assert(held:lock("key"))
                    spawn(function () take("other") end)
                    sleep(0.01)
                    error("failed: on purpose")
                end)
                spawn(function ()
                    while not failed do sleep(0.005) end
                    sleep(0.01)
                    say("release", held:unlock())
                end)
                run()
                say_leftovers()
            ]]
            assert.matches("failed: on purpose", text, 1, true)
            assert.same({ "release\t1" }, lines_of(text, "release"))
            assert.same({ "other\ttrue\t1" }, lines_of(text, "other"))
            assert.same({ "left\tfalse\tnil" }, lines_of(text, "left"))
        end)

        it("the lock of a failed coroutine is released when its object is collected", function ()
            local text = answer [[
                spawn(function ()
                    local lock = holding("key")
                    spawn(function () take("other", { timeout = 20 }) end)
                    sleep(0.01)
                    error("failed: on purpose")
                end)
                spawn(function ()
                    while not failed do sleep(0.005) end
                    for _ = 1, 3 do
                        sleep(0.001)
                        collectgarbage()
                    end
                end)
                run()
            ]]
            assert.matches("failed: on purpose", text, 1, true)
            assert.same({ "other\ttrue\t1" }, lines_of(text, "other"))
        end)

        it("a function that fails in with() after a wait releases the lock to the others", function ()
            local text = answer [[
                local release = hold()
                spawn(function ()
                    new():with("key", function ()
                        sleep(0.01)
                        error("failed: on purpose")
                    end)
                end)
                spawn(function () take("other") end)
                later(0.01, release)
                run()
                say_leftovers()
            ]]
            assert.matches("failed: on purpose", text, 1, true)
            assert.same({ "other\ttrue\t1" }, lines_of(text, "other"))
            assert.same({ "left\tfalse\tnil" }, lines_of(text, "left"))
        end)

        -- These hosts report wrong results. Nevertheless, two coroutines must get the lock one after the other, the
        -- second one after a release.
        for lie, wait in pairs {
            ["returns too early each time"] = [[
                real.wait(waiter, math.min(seconds, 0.002))
                return true
            ]],
            ["returns too late"] = [[
                local woken, why = real.wait(waiter, seconds)
                real.sleep(0.05)
                return woken, why
            ]],
            ["reports a timeout for each wake-up"] = [[
                real.wait(waiter, seconds)
                return nil, "timeout"
            ]],
            ["returns garbage"] = [[
                real.wait(waiter, math.min(seconds, 0.002))
                count = count + 1
                local garbage = { 42, {}, false, print, "nonsense" }
                return garbage[count % 6 + 1], count % 2 == 0 and {} or 7
            ]],
            ["sleeps and never notices a wake-up"] = [[
                real.sleep(math.min(seconds, 0.002))
            ]],
            ["forgets the waiter, and stops listening for it"] = [[
                parker.forget(waiter)
                real.sleep(math.min(seconds, 0.01))
                parker.forget(waiter)
                return true
            ]],
        } do
            it("nothing is lost with a host that " .. lie, function ()
                assert.equal("first\ttrue\t1\nsecond\ttrue\t1\nleft\tfalse\tnil\n", (answer([[
                    local release = hold()
                    local count = 0
                    spawn(function ()
                        set_liar(function (real, waiter, seconds) ]] .. wait .. [[ end)
                        take("first", { timeout = 20, fair = true })
                        spawn(function ()
                            release = hold()
                            later(0.02, release)
                            take("second", { timeout = 20, fair = true })
                        end)
                    end)
                    later(0.02, release)
                    run()
                    say_leftovers()
                ]])))
            end)
        end

        it("nothing is lost with a host that does not wait at all", function ()
            assert.equal("got\ttrue\t1\nleft\tfalse\tnil\n", answer [[
                hold(0.2)
                spawn(function ()
                    set_liar(function () return true end)
                    local lock = new()
                    say("got", lock:lock("key") ~= nil, lock:unlock())
                end)
                run()
                say_leftovers()
            ]])
        end)

        it("nothing is lost if each wake-up is reported twice", function ()
            assert.equal("100\nleft\tfalse\tnil\n", answer [[
                local listen, told = parker.listen, 0
                function parker.listen(waiter, listener)
                    listen(waiter, { wake = function ()
                        told = told + 1
                        listener:wake()
                        listener:wake()
                    end })
                end
                local scheduler = package.loaded["resty.holdfast.scheduler"]
                local count, value = 1
                repeat -- replaces the scheduler's reference, too
                    count = count + 1
                    value = debug.getupvalue(scheduler.wait, count)
                    if value == "listen" then debug.setupvalue(scheduler.wait, count, parker.listen) end
                until not value
                local done = 0
                for i = 1, 100 do
                    local held = holding("key" .. i % 50 .. (i > 50 and "b" or "a"))
                    spawn(function ()
                        local lock = new({ timeout = 60 })
                        assert(lock:lock("key" .. i % 50 .. (i > 50 and "b" or "a")))
                        assert(lock:unlock())
                        sleep(0.001)
                        done = done + 1
                    end)
                    later(0.02, function () assert(held:unlock()) end)
                end
                run()
                assert(told > 0)
                say(done)
                say_leftovers()
            ]])
        end)

        it("a host that fails raises its error in the call that waits, and the waiter is freed", function ()
            local text = answer [[
                local release = hold()
                spawn(function ()
                    local real = hosts.current()
                    set_liar(function () error("the host fails", 0) end)
                    local lock = new()
                    say("failed", pcall(lock.lock, lock, "key"))
                    say("waiters", lock:holder("key").waiters, parker.has_listeners())
                    set_liar(function (_, waiter, seconds)
                        parker.listen(waiter, { wake = function () end })
                        error("the host fails later", 0)
                    end)
                    say("failed", pcall(lock.lock, lock, "key"))
                    say("waiters", lock:holder("key").waiters, parker.has_listeners())
                    set_liar(function (_, waiter, seconds) return real.wait(waiter, seconds) end)
                    later(0.01, release)
                    say("got", lock:lock("key") > 0, lock:unlock())
                end)
                run()
                say_leftovers()
            ]]
            assert.equal("failed\tfalse\tthe host fails\nwaiters\t0\tfalse\n"
                         .. "failed\tfalse\tthe host fails later\nwaiters\t0\tfalse\n"
                         .. "got\ttrue\t1\nleft\tfalse\tnil\n", text)
        end)

        it("a host that ends the wait gives the caller its reason, and the waiter is freed", function ()
            assert.equal("nil\tshutting down\nnil\tshutting down\n0\tfalse\n", answer [[
                hold()
                spawn(function ()
                    set_liar(function (real, waiter, seconds)
                        real.wait(waiter, 0.005)
                        return nil, "shutting down"
                    end)
                    local lock = new()
                    say(lock:lock("key"))
                    say(lock:lock("key"))
                    say(lock:holder("key").waiters, parker.has_listeners())
                end)
                run()
            ]])
        end)

        it("a waiter behind a waiter that is never resumed gets the lock after a while", function ()
            assert.equal("second\ttrue\t1\n", answer [[
                local release = hold()
                local over, stuck
                spawn(function ()
                    stuck = coroutine.running()
                    set_liar(function (real, waiter, seconds)
                        if coroutine.running() ~= stuck then
                            return real.wait(waiter, seconds)
                        end
                        repeat real.sleep(0.01) until over
                        error("too late", 0)
                    end)
                    spawn(function ()
                        sleep(0.02)
                        later(0.01, release)
                        take("second", { timeout = 20 })
                        over = true
                    end)
                    local lock = new({ timeout = 60, exptime = 60 })
                    pcall(lock.lock, lock, "key")
                end)
                run()
            ]])
        end)

        it("a waiter continues under its host when a different host is set during the wait", function ()
            local text = answer [[
                local release = hold()
                spawn(function ()
                    local lock = new()
                    say("first", lock:lock("key") > 0)
                    sleep(0.01)
                    say(lock:unlock())
                end)
                spawn(function ()
                    sleep(0.01)
                    set_liar(function (real, waiter, seconds)
                        say "set"
                        return real.wait(waiter, seconds)
                    end)
                    later(0.01, release)
                    local lock = new({ fair = true })
                    say("second", lock:lock("key") > 0)
                    say(lock:unlock())
                end)
                run()
                say_leftovers()
            ]]
            assert.equal("set", lines_of(text, "set")[1])
            assert.same({ "first\ttrue" }, lines_of(text, "first"))
            assert.same({ "second\ttrue" }, lines_of(text, "second"))
            assert.same({ "1", "1" }, lines_of(text, "1"))
            assert.same({ "left\tfalse\tnil" }, lines_of(text, "left"))
        end)
    end)
end


describe("in the loop of", function ()
    after_each(process.clean_up)

    for _, name in ipairs { "luv", "neovim" } do
        it(name .. ": a coroutine that other code resumes continues to wait, and is not resumed twice", function ()
            local child = loops.start(name, COMMON .. [[
                local release = hold()
                local waiting
                spawn(function ()
                    waiting = coroutine.running()
                    take("got")
                    waiting = nil
                    sleep(0.02)
                    say("slept")
                end)
                spawn(function ()
                    for _ = 1, 10 do
                        sleep(0.002)
                        assert(coroutine.resume(waiting))
                    end
                    release()
                    coroutine.resume(waiting)
                end)
                run()
                say_leftovers()
            ]])
            assert.equal("got\ttrue\t1\nslept\nleft\tfalse\tnil\n", child:hear_all())
            assert.equal(0, child:wait())
        end)

        it(name .. ": a program that closes one of the library's descriptors loses no wake-up", function ()
            local child = loops.start(name, COMMON .. [[
                local ffi = require "ffi"
                pcall(ffi.cdef, "int close(int descriptor);")
                local release = hold()
                spawn(function () take("got") end)
                spawn(function ()
                    sleep(0.01)
                    say("closed", ffi.C.close(parker.fd()))
                    sleep(0.01)
                    release()
                end)
                run()
                release = hold()
                spawn(function () take("got") end)
                spawn(function () release() end)
                run()
                say_leftovers()
            ]])
            assert.equal("closed\t0\ngot\ttrue\t1\ngot\ttrue\t1\nleft\tfalse\tnil\n", child:hear_all())
            assert.equal(0, child:wait())
        end)
    end

    it("luv: an uncaught error after a wait is reported like an error of a callback, with a traceback", function ()
        local function fate(source)
            local child = loops.start("luv", COMMON .. source .. [[
                run()
                say("not reached")
            ]], { stderr = true })
            return child:hear_all(), child:wait()
        end
        local text, status = fate [[
            local release = hold()
            coroutine.wrap(function ()
                new():lock("key")
                error("failed on purpose")
            end)()
            later(0.01, release)
        ]]
        assert.matches("failed on purpose\nstack traceback:", text, 1, true)
        local other_text, other_status = fate [[
            local timer = uv.new_timer()
            timer:start(1, 0, function () error("failed on purpose") end)
        ]]
        assert.matches("failed on purpose", other_text, 1, true)
        assert.equal(other_status, status)
        assert.equal(other_text:match("not reached"), text:match("not reached"))
    end)

    it("luv: threads with separate Lua states and loops each wait in their own loop", function ()
        local child = loops.start("luv", [[
            local held = holding("key")
            local function work()
                require("resty.shdict").open("spec_hosts")
                local lock = require("resty.lock"):new("spec_hosts", { timeout = 20 })
                local uv = require "luv"
                local ticks, ticker = 0, uv.new_timer()
                ticker:start(5, 5, function () ticks = ticks + 1 end)
                coroutine.wrap(function ()
                    local elapsed = lock:lock("key")
                    ticker:close()
                    local words = { tostring(elapsed > 0), tostring(ticks > 0), lock:unlock() }
                    io.stdout:write(table.concat(words, " ") .. "\n")
                end)()
                uv.run()
            end
            local threads = {}
            for i = 1, 3 do
                threads[i] = uv.new_thread(work)
            end
            spawn(function ()
                repeat sleep(0.01) until held:holder("key").waiters == 4
                sleep(0.02)
                held:unlock()
            end)
            work()
            for i = 1, 3 do threads[i]:join() end
        ]])
        assert.equal(("true true 1\n"):rep(4), child:hear_all())
        assert.equal(0, child:wait())
    end)

    it("cqueues: a controller that no longer runs does not delay the coroutines of another controller", function ()
        local child = loops.start("cqueues", [[
            local stuck, other = new({ exptime = 60 }), new({ exptime = 60 })
            assert(stuck:lock("stuck") and other:lock("other"))
            spawn(function () new():lock("stuck") end)
            controller:step(0)  -- this controller never runs again
            local second = cqueues.new()
            second:wrap(function () say(new():lock("other") ~= nil) end)
            second:wrap(function () sleep(0.05) other:unlock() end)
            second:wrap(function () sleep(0.6) say("later") end)
            assert(second:loop())
        ]])
        assert.equal("true\nlater\n", child:hear_all())
        assert.equal(0, child:wait())
    end)

    it("copas: sleep accepts only a number of seconds", function ()
        local child = loops.start("copas", [[
            spawn(function ()
                for _, seconds in ipairs { "x", -1, 0 / 0, 1 / 0 } do
                    say((select(2, pcall(function () sleep(seconds) end)):gsub("^.-:%d+: ", "")))
                end
            end)
            run()
        ]])
        local prefix = "bad seconds to sleep: expected a finite number, 0 or more, got "
        assert.equal(prefix .. '"x"\n' .. prefix .. "-1\n" .. prefix .. "nan\n" .. prefix
                     .. "inf\n", child:hear_all())
    end)
end)
