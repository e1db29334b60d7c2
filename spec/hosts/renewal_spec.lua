-- Tests the job runners of host/cqueues.lua and host/uv.lua, with locks that have renew = true in every event loop.
-- Such locks are renewed while the loop runs and their coroutine lives, and do not keep a loop from ending.

local expect, loops, process = require "spec.support" ("expect", "loops", "process")
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"

-- Returns whether "key" is held, as a different process sees it.
local function is_held()
    local lock = assert(resty_lock:new("spec_hosts"))
    local got, err = lock:trylock("key")
    if got then
        lock:unlock()
        return false
    end
    assert.equal("held", err)
    return true
end


local CANNOT_RENEW = "cannot renew here: renewal needs a resty.holdfast.scheduler task or a coroutine "
                     .. "of an event loop"

-- Reports "true" after on_lost was called.
local LOSE = [[
    local lost
    spawn(function ()
        local lock = new { exptime = 0.6, renew = true, on_lost = function () lost = true end }
        assert(lock:lock("key"))
        shdict.open("spec_hosts"):delete("key")
        await(function () return lost end)
        say(lost)
    end)
    run()
]]

for _, name in ipairs(loops.names) do
    if name ~= "wait_fd of its own" then
        describe("in the loop of " .. name, function ()
            before_each(function ()
                assert(shdict.open("spec_hosts", { size = "1m" })):flush_all()
            end)

            after_each(process.clean_up)

            local start = loops.starter(name)

            it("a lock is renewed while its coroutine lives, and then lapses if it was not unlocked", function ()
                expect.in_time(function ()
                    local child = start [[
                        local left, lapsed
                        -- Waits for a renewal. Returns false if the machine stalled for longer than the lease.
                        local function is_renewed(lock)
                            local before, left_now = nil, lock:remaining()
                            repeat
                                sleep(0.01)
                                before, left_now = left_now, lock:remaining()
                            until not left_now or left_now > before
                            return lock:valid()
                        end
                        spawn(function ()
                            local lock = new { exptime = 0.6, renew = true }
                            assert(lock:lock("key"))
                            spawn(function ()
                                left = new { exptime = 0.6, renew = true }
                                assert(left:lock("left"))
                            end)
                            spawn(function ()
                                while not left or not left:valid() do sleep(0.001) end
                                local other = new { exptime = 60, timeout = 30 }
                                lapsed = other:lock("left") > 0
                                other:unlock()
                            end)
                            local kept = is_renewed(lock) and is_renewed(lock)
                            await(function () return lapsed ~= nil end)
                            say(kept and is_renewed(lock), lapsed)
                            hear()
                            say("unlock", lock:unlock())
                        end)
                        run()
                        say(left:valid())
                    ]]
                    if child:hear() ~= "true\ttrue" or not is_held() then
                        return false
                    end
                    child:say "unlock"
                    local unlocked = child:hear()
                    child:expect "false"
                    assert.equal(0, child:wait())
                    assert.is_false(is_held())
                    return unlocked == "unlock\t1"
                end)
            end)

            it("a renewed lock does not keep a loop from ending, and a second loop also renews it", function ()
                local child = start([[
                    local locks = {}
                    for round = 1, 2 do
                        local start = now()
                        spawn(function ()
                            locks[round] = new { exptime = 60, renew = true }
                            assert(locks[round]:lock("key" .. round))
                            sleep(0.01)
                        end)
                        run()
                        say(now() - start < 10)
                    end
                ]] .. LOSE .. [[
                    for round = 1, 2 do say(locks[round]:unlock()) end
                ]])
                assert.equal("true\ntrue\ntrue\n1\n1\n", child:hear_all())
                assert.equal(0, child:wait())
            end)

            it("the renewal that finds a lock lost calls on_lost once, which may wait and may fail", function ()
                local text = start([[
                    local sleep_here = require("resty.holdfast").sleep
                    local calls, ended = 0, false
                    spawn(function ()
                        local lock
                        lock = new { exptime = 0.3, renew = true, on_lost = function (object, key, reason)
                            calls = calls + 1
                            local waiting = new { timeout = 30 }
                            say("lost", object == lock, key, reason, waiting:lock("other") > 0, waiting:unlock())
                            say(sleep_here(0.01))
                            ended = true
                            error("failed on purpose")
                        end }
                        local held = new()
                        assert(held:lock("other"))
                        assert(lock:lock("key"))
                        shdict.open("spec_hosts"):delete("key")
                        local patience = now() + 20
                        while calls == 0 and now() < patience do sleep(0.01) end
                        held:unlock()
                        while not ended and now() < patience do sleep(0.01) end
                        sleep(0.3)
                        say("calls", calls, lock:unlock())
                    end)
                    run()
                ]], { stderr = true }):hear_all()
                assert.matches("^lost\ttrue\tkey\tnot owner\ttrue\t1\ntrue\n", text)
                assert.matches("on_lost failed: [^\n]*failed on purpose\n", text)
                assert.matches("calls\t1\tnil\tnot owner\n$", text)
            end)

            it("a loop that stalls for longer than exptime loses its lock, and on_lost is called", function ()
                local child = start [[
                    local lost
                    spawn(function ()
                        local lock = new { exptime = 0.3, renew = true,
                                           on_lost = function (_, key, reason) lost = key .. " " .. reason end }
                        assert(lock:lock("key"))
                        say "locked"
                        hear()
                        await(function () return lost end)
                        say(lost)
                    end)
                    run()
                ]]
                child:expect "locked"
                local lock = assert(resty_lock:new("spec_hosts", { timeout = 20 }))
                assert.is_number((lock:lock("key")))
                child:say "go on"
                child:expect "key not owner"
                lock:unlock()
            end)
        end)
    end
end


describe("if no loop runs the caller", function ()
    after_each(process.clean_up)

    for _, name in ipairs(loops.names) do
        if name ~= "neovim" then
            it("nothing is renewed, and no lock is taken: " .. name, function ()
                assert.equal("nil\t" .. CANNOT_RENEW .. "\n", loops.start(name, [[
                    say(new({ renew = true }):lock("key"))
                ]]):hear_all())
            end)
        end
    end

    for _, name in ipairs { "luv", "neovim" } do
        it(name .. ": a lock taken in a callback of the loop is renewed while its object exists", function ()
            assert.equal("true\tlost\n", loops.start(name, [[
                local uv = vim and vim.loop or require "luv"
                local lost, lock, over
                local timer = uv.new_timer()
                timer:start(1, 0, function ()
                    timer:close()
                    lock = new { exptime = 0.6, renew = true, on_lost = function () lost = true end }
                    say(lock:trylock("key"), "lost")
                    shdict.open("spec_hosts"):delete("key")
                    over = true
                end)
                spawn(function ()
                    await(function () return lost end)
                    assert(over and lost)
                end)
                run()
            ]]):hear_all())
        end)
    end

    it("neovim: on_lost may call the editor, even for a lock that the main program took", function ()
        assert.equal("false\t1\n", loops.start("neovim", [[
            local lost
            local lock = new { exptime = 0.6, renew = true, on_lost = function ()
                lost = true
                say(vim.in_fast_event(), vim.api.nvim_get_current_buf())
            end }
            assert(lock:lock("key"))
            shdict.open("spec_hosts"):delete("key")
            vim.wait(20000, function () return lost end)
        ]]):hear_all())
    end)

    it("luv: after a program has closed all handles, its next locks are renewed", function ()
        assert.equal("true\n", loops.start("luv", [[
            local kept = {}
            spawn(function ()
                local lock = new { exptime = 60, renew = true }
                assert(lock:lock("first"))
                kept[1] = lock
                sleep(60)
            end)
            uv.walk(function (handle) if not handle:is_closing() then handle:close() end end)
            run()
        ]] .. LOSE .. [[
        ]]):hear_all())
    end)
end)
