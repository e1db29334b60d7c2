-- Tests host/copas.lua, with two features that copas has had since version 4 and that other loops do not have: copas
-- can remove coroutines, and announces the end of a loop. conformance_spec.lua and other specs test the behaviour that
-- copas shares with other loops.

local loops, process, snippets = require "spec.support" ("loops", "process", "snippets")

local it = loops.LOOPS["new copas"] and it
           or function (text) pending(text .. ": COPAS_PATH names no copas 4 or newer (not in Debian 12)") end


describe("in new copas", function ()
    after_each(process.clean_up)

    local function start(source)
        return loops.start("new copas", source, { stderr = true })
    end

    -- Expects that the program reports these lines before its loop ends.
    local function assert_says(source, ...)
        start(source .. " run()"):expect_end(...)
    end

    it("the example of docs/hosts.md works", function ()
        local blocks = snippets.read "docs/hosts.md"
        local shown
        for place, block in ipairs(blocks) do
            if block.mark and block.mark:find("new_copas_spec.lua", 1, true) then
                assert.equal(blocks[place + 1].text, (process.run(loops.path "new copas" .. block.text)))
                shown = true
            end
        end
        assert.is_true(shown)
    end)

    -- Sixty coroutines wait for the lock that `held` holds. They are removed, so they never run again. Then one more
    -- coroutine waits.
    local CROWD = [[
        local held, came_back, waited = new({ exptime = 60 }), 0, nil
        local gone = {}
        local function crowd()
            assert(held:lock("key"))
            for i = 1, 60 do
                gone[i] = copas.addthread(function ()
                    new({ timeout = 60, exptime = 60 }):lock("key")
                    came_back = came_back + 1
                end)
            end
            sleep(0.05)
            assert(held:holder("key").waiters == 60)
        end
        local function one_more()
            spawn(function ()
                local lock = new({ timeout = 60, exptime = 60 })
                assert(lock:lock("key"))
                waited = now()
                assert(lock:unlock())
            end)
            sleep(0.05)
            local released = now()
            assert(held:unlock())
            while not waited do sleep(0.001) end
            say(waited - released < 2, came_back)
        end
    ]]

    it("removed waiters leave the queue immediately", function ()
        assert_says(CROWD .. [[
            spawn(function ()
                crowd()
                for _, co in ipairs(gone) do copas.removethread(co) end
                say(held:holder("key").waiters)
                one_more()
            end)
        ]], "0", "true\t0")
    end)

    it("waiters removed through an older reference to removethread are detected when they are woken", function ()
        assert_says(CROWD .. [[
            local removethread = copas.removethread
            assert(not package.loaded["resty.holdfast.host.copas"])
            spawn(function ()
                crowd()
                for _, co in ipairs(gone) do removethread(co) end
                say(held:holder("key").waiters)
                one_more()
            end)
        ]], "60", "true\t0")
    end)

    it("a writer that is removed while it waits does not block readers", function ()
        assert_says([[
            local rwlock = require "resty.rwlock"
            local function rw() return assert(rwlock:new("spec_hosts", { timeout = 60, exptime = 60 })) end
            spawn(function ()
                local reader, other = rw(), rw()
                assert(reader:rdlock("key"))
                local writer = copas.addthread(function () rw():wrlock("key") end)
                sleep(0.02)
                say(other:tryrdlock("key"))
                copas.removethread(writer)
                say(other:tryrdlock("key"))
            end)
        ]], "nil\theld", "true")
    end)

    it("the lock of a removed coroutine is no longer renewed", function ()
        assert_says([[
            local lock = new { exptime = 1, renew = true }
            spawn(function ()
                local holder = copas.addthread(function ()
                    assert(lock:lock("key"))
                    while true do sleep(0.02) end
                end)
                sleep(0.05)
                assert(lock:valid())
                copas.removethread(holder)
                say(new({ timeout = 20, exptime = 60 }):lock("key") ~= nil)
            end)
        ]], "true")
    end)

    it("the loop ends although a waiter was removed, and another loop runs afterwards", function ()
        assert_says([[
            local held = holding("key")
            for round = 1, 2 do
                local start = now()
                spawn(function ()
                    local waiting = copas.addthread(function ()
                        new({ timeout = 60, exptime = 60 }):lock("key")
                    end)
                    sleep(0.02)
                    copas.removethread(waiting)
                end)
                run()
                say(now() - start < 10)
            end
            spawn(function ()
                later(0.02, function () held:unlock() end)
                say(new():lock("key") > 0)
            end)
        ]], "true", "true", "true")
    end)

    it("a program may cancel everything, and continue with another loop", function ()
        assert_says([[
            if not copas.cancelall then -- copas 4.10 or older
                say("ended\nnext", true)
                os.exit(0)
            end
            local held = holding("key")
            spawn(function () new({ timeout = 60, exptime = 60 }):lock("key") end)
            later(0.02, copas.cancelall)
            run()
            say "ended"
            spawn(function ()
                later(0.02, function () held:unlock() end)
                say("next", new():lock("key") > 0)
            end)
        ]], "ended", "next\ttrue")
    end)

    it("a lock is renewed until the work of a coroutine that waits for the loop's exit is done", function ()
        assert_says([[
            spawn(function ()
                local lock = new { exptime = 1.5, renew = true }
                assert(lock:lock("key"))
                if copas.waitforexit then copas.waitforexit() end -- not in copas 4.0
                say "exit"
                sleep(2)
                say("valid", lock:valid())
            end)
        ]], "exit", "valid\ttrue")
    end)

    it("a coroutine that another coroutine resumes continues to wait", function ()
        assert_says([[
            local held = holding("key")
            spawn(function ()
                local waited, released
                local co = copas.addthread(function ()
                    assert(new():lock("key"))
                    waited = true
                    say(released)
                end)
                for _ = 1, 10 do
                    sleep(0.01)
                    copas.wakeup(co)
                end
                released = not waited
                held:unlock()
            end)
        ]], "true")
    end)

    it("a forked child that continues in its parent's loop can wait there", function ()
        local child = start [[
            local ffi = require "ffi"
            ffi.cdef "int fork(void); void _exit(int); int waitpid(int, int *, int);"
            local held = holding("key")
            local in_child
            spawn(function ()
                local lock = new()
                lock:lock("key")
                lock:unlock()
            end)
            spawn(function ()
                sleep(0.05)
                in_child = ffi.C.fork() == 0
                if in_child then
                    local lock = new({ timeout = 30 })
                    say("child", lock:lock("key") > 0, lock:unlock())
                else
                    sleep(0.2)
                    say("parent", held:unlock())
                end
            end)
            run()
            io.stdout:flush()
            if in_child then ffi.C._exit(0) end
            ffi.C.waitpid(-1, nil, 0)
        ]]
        local text = child:hear_all()
        assert.matches("child\ttrue\t1\n", text)
        assert.matches("parent\t1\n", text)
    end)
end)
