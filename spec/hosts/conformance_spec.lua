-- Tests host/cqueues.lua and resty/holdfast.lua. Tests the rules for hosts in every event loop that holdfast supports,
-- and in the loop of examples/embed. The tests are the same for all loops. Each test runs in a real loop in a new
-- process.

local new_holder, loops, process = require "spec.support" ("holder", "loops", "process")
local shdict = require "resty.shdict"


for _, name in ipairs { "embed", unpack(loops.names) } do
    describe("in the loop of " .. name, function ()
        local holder = new_holder(loops.COMMON)

        after_each(process.clean_up)

        local start = loops.starter(name)

        it("the host of a coroutine is known", function ()
            local child = start [[
                spawn(function () say(hosts.current().name) end)
                run()
            ]]
            assert.equal(loops.hosts[name] .. "\n", child:hear_all())
        end)

        it("only the coroutine that wants another process's lock waits for its release", function ()
            holder:take("key")
            local child = start [[
                tell_after(10, "ticks")
                spawn(function ()
                    local lock = new()
                    local elapsed = lock:lock("key")
                    say(elapsed and elapsed > 0.05, lock:unlock())
                    over = true
                end)
                run()
                say("end")
            ]]
            holder:release_when(child, "ticks")
            child:expect_end("true\t1", "end")
        end)

        it("a wait ends with its timeout", function ()
            holder:take("key")
            local child = start [[
                spawn(function ()
                    local start = now()
                    local elapsed, err = new({ timeout = 0.1 }):lock("key")
                    say(elapsed, err, now() - start >= 0.1)
                end)
                run()
            ]]
            child:expect_end("nil\ttimeout\ttrue")
        end)

        it("a coroutine gets the lock of a killed process", function ()
            holder:take("key")
            local child = start [[
                spawn(function () say("begin"); say(new():lock("key") ~= nil) end)
                run()
            ]]
            child:expect("begin")
            holder:kill()
            child:expect("true")
        end)

        it("only the coroutine that waits for a change of a value is suspended", function ()
            local child = start [[
                local dict = assert(require("resty.shdict").open("spec_changes", { size = "64k", versions = true }))
                tell_after(10, "ticks")
                spawn(function ()
                    local version = assert(dict:version("key"))
                    local new, err = dict:wait("key", version, 20)
                    say(new == dict:version("key"), err, dict:get("key"))
                    say(dict:wait("key", new, 0.02))
                    over = true
                end)
                run()
                say("end")
            ]]
            child:expect("ticks")
            assert(shdict.open("spec_changes", { size = "64k", versions = true })):set("key", "changed")
            child:expect_end("true\tnil\tchanged", "nil\ttimeout", "end")
        end)

        for what, wait in pairs {
            ["of one key all get it"] = [[
                local elapsed, err = lock:lock("key")
                if elapsed then lock:unlock() end
            ]],
            ["for a release all continue after it, and none has the lock"] = 'local elapsed, err = lock:wait("key")',
        } do
            it("a hundred waiters " .. what, function ()
                holder:take("key")
                local child = start([[
                    local got = 0
                    for _ = 1, 100 do
                        spawn(function ()
                            local lock = new({ timeout = 60, exptime = 60 })
                            ]] .. wait .. [[
                            if not elapsed then say(err) end
                            got = got + 1
                        end)
                    end
                    later(0.05, function () say("wait") end)
                    run()
                    say(got, (new():trylock("key")))
                ]])
                holder:release_when(child, "wait")
                child:expect_end("100\ttrue")
            end)
        end

        it("a hundred waiters of a hundred keys are each woken by their own key", function ()
            local child = start [[
                local done = 0
                for i = 1, 100 do
                    local held = holding("key" .. i)
                    spawn(function ()
                        local lock = new({ timeout = 60 })
                        assert(lock:lock("key" .. i))
                        done = done + 1
                    end)
                    later(0.02, function () assert(held:unlock()) end)
                end
                run()
                say(done)
            ]]
            child:expect_end("100")
        end)

        it("many waits leave no descriptor, no thread, and no handle that keeps the loop running", function ()
            local child = start [[
                local copas = package.loaded.copas
                local function count(what)
                    local name = os.tmpname() -- a file, because a pipe would need another descriptor
                    os.execute("ls /proc/" .. require("ffi").C.getpid() .. "/" .. what .. " | wc -l > " .. name)
                    local file = io.open(name)
                    local number = file:read("*n")
                    file:close()
                    os.remove(name)
                    return number
                end
                local function round(times)
                    local held = new({ exptime = 60 })
                    for _ = 1, times do
                        assert(held:lock("key"))
                        local waiting = true
                        spawn(function ()
                            local lock = new()
                            assert(lock:lock("key"))
                            assert(lock:unlock())
                            waiting = false
                        end)
                        spawn(function () assert(held:unlock()) end)
                        run()
                        assert(not waiting)
                    end
                end
                round(5)
                local before = count("fd")
                round(copas and 50 or 1000) -- copas 4 needs a tenth of a second to end a loop
                say(count("fd") - before)
                local patience = now() + 20
                while count("task") > 1 and now() < patience do end
                say(count("task"))
            ]]
            child:expect_end("0", "1")
        end)

        it("a value no longer exists after a sleep of its exptime", function ()
            local child = start([[
                -- A timer of Neovim counts from the loop's cached time, which may be behind the clock.
                local sleeps = { require("resty.holdfast").sleep, ]] .. (name == "neovim" and "nil" or "sleep") .. [[ }
                local dict = shdict.shared.spec_hosts
                local stores = {
                    function (key, t) dict:set(key, 1, t) end,
                    function (key, t) dict:delete(key) dict:incr(key, 1, 0, t) end,
                    function (key, t) dict:set(key, 1) dict:expire(key, t) end,
                    function (key, t) dict:delete(key) dict:rpush(key, 1) dict:expire(key, t) end,
                }
                local rounds = 0
                for i = 1, 40 do
                    spawn(function ()
                        for _ = 1, 30 do
                            local store, exptime = math.random(#stores), math.random(1, 20) / 1000
                            stores[store](i, exptime)
                            sleeps[math.random(#sleeps)](exptime)
                            if dict:get(i) ~= nil or dict:llen(i) ~= 0 then say("late", store, exptime) end
                            rounds = rounds + 1
                        end
                    end)
                end
                run()
                say(rounds)
            ]])
            child:expect_end("1200")
        end)
    end)
end


describe("if the caller cannot wait", function ()
    for _, name in ipairs { "scheduler", "cqueues", "luv", "copas" } do
        it(name .. ": the main program outside of the loop has no host", function ()
            assert.equal("none\n", (process.run(loops.COMMON .. loops.LOOPS[name] .. "say(hosts.current().name)")))
        end)
    end

    after_each(process.clean_up)

    local function answer(name, source)
        return (process.run(loops.COMMON .. loops.LOOPS[name] .. source))
    end

    it("cqueues: the host reports it in a program's own coroutine and in a callback from C", function ()
        local prefix = "cannot wait here (host cqueues): "
        assert.equal(prefix .. "in a coroutine inside a coroutine of the controller\n"
                     .. prefix .. "Lua was called from C\n", answer("cqueues", [[
            spawn(function ()
                coroutine.wrap(function () say((select(2, hosts.current()))) end)()
                table.sort({ 1, 2 }, function (a, b) say((select(2, hosts.current()))) return a < b end)
            end)
            run()
        ]]))
    end)
end)
