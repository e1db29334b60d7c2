-- Tests lock/renewal.lua, that is, resty.lock with the options renew and on_lost.

local expect, fixture, process, reports, tasks =
    require "spec.support" ("expect", "fixture", "process", "reports", "tasks")
local background_jobs = require("resty.holdfast.tasks.queues").background_jobs
local hosts = require "resty.holdfast.host"
local none = require "resty.holdfast.host.none"
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"

local EXPTIME = 30


describe("lock", function ()
    local dict, new = fixture.locks(resty_lock, "spec_renew")

    -- Returns whether the lock would be renewed in the next third of EXPTIME.
    local function is_renewed(lock)
        local before = lock:remaining()
        dict:expire("key", 5)
        dict:expire("first", 5)
        background_jobs.run(none.now() + EXPTIME / 3)
        local after = lock:remaining()
        if after <= 5.005 and before < math.huge then
            lock:expire(before)
        end
        return after > 5.005
    end

    -- Creates an object that records the calls to on_lost.
    local function observed(opts)
        local calls = {}
        opts.on_lost = function (lock, key, reason) calls[#calls + 1] = { lock, key, reason } end
        return new(opts), calls
    end

    describe("renew", function ()
        it("happens after each third of exptime", function ()
            tasks.run(function ()
                local lock = new { exptime = EXPTIME, renew = true }
                lock:lock("key")
                for _ = 1, 3 do
                    assert.is_true(is_renewed(lock))
                end
                dict:expire("key", 5)
                background_jobs.run(none.now() + EXPTIME / 3 - 5)
                assert.is_true(lock:remaining() <= 5.005)
                lock:unlock()
                background_jobs.run(none.now() + EXPTIME)
                assert.is_nil(dict:get("key"))
            end)
        end)

        it("happens for a lock that was granted after a wait, and while its task waits for a second lock", function ()
            tasks.run(function ()
                local blocker = new()
                blocker:lock("first")
                scheduler.spawn(function ()
                    scheduler.sleep(0.02)
                    blocker:unlock()
                    blocker:lock("second")
                end)
                local lock = new { exptime = EXPTIME, renew = true }
                assert.is_true(lock:lock("first") > 0)
                scheduler.spawn(function ()
                    scheduler.sleep(0.01)
                    assert.is_true(is_renewed(lock))
                    blocker:unlock()
                end)
                assert.is_true(new():lock("second") > 0)
                assert.equal(1, lock:unlock())
            end)
        end)

        it("uses the exptime of the call, and of expire #local", function ()
            tasks.run(function ()
                local lock = new { exptime = 1000, renew = true }
                assert.equal(0, lock:lock("key", { exptime = EXPTIME }))
                assert.is_true(is_renewed(lock))
                assert.is_true(lock:expire(1000))
                assert.is_false(is_renewed(lock))
                assert.is_true(lock:expire(EXPTIME))
                assert.is_true(is_renewed(lock))
                assert.is_true(lock:expire(0))
                assert.equal(math.huge, lock:remaining())
                assert.is_false(is_renewed(lock))
                lock:unlock()
            end)
        end)

        it("works for trylock and with", function ()
            tasks.run(function ()
                local lock = new { exptime = EXPTIME, renew = true }
                assert.is_true(lock:trylock("key"))
                assert.is_true(is_renewed(lock))
                assert.equal(1, lock:unlock())
                assert.is_true(lock:with("key", is_renewed, lock))
            end)
        end)

        it("works in a coroutine that a task runs", function ()
            tasks.run(function ()
                local lock = new { exptime = EXPTIME, renew = true }
                local inner = coroutine.wrap(function ()
                    assert.equal(0, lock:lock("key"))
                    coroutine.yield()
                end)
                inner()
                assert.is_true(is_renewed(lock))
                inner()
                assert.is_false(is_renewed(lock))
                assert.equal(1, lock:unlock())
            end)
        end)

        it("ends with the coroutine, and the lock lapses", function ()
            local lock, calls = observed { exptime = EXPTIME, renew = true }
            tasks.run(function () assert(lock:lock("key")) end)
            tasks.run(function () assert.is_false(is_renewed(lock)) end)
            assert.same({}, calls)
            assert.equal(1, lock:unlock())
        end)

        it("does not keep an object from the collector, which releases the lock", function ()
            tasks.run(function ()
                do
                    local lock = new { exptime = 30, renew = true }
                    lock:lock("key")
                end
                collectgarbage()
                collectgarbage()
                assert.is_nil(dict:get("key"))
            end)
        end)

        it("continues while the task that holds the lock sleeps forever", function ()
            expect.in_time(function ()
                local child = process.start [[
                    local scheduler = require "resty.holdfast.scheduler"
                    local lock = require("resty.lock"):new("spec_renew", { exptime = 0.3, renew = true })
                    scheduler.spawn(function () assert(lock:lock("key")) say "has it" scheduler.sleep(math.huge) end)
                    say(pcall(scheduler.run))
                ]]
                child:expect "has it"
                local holder = dict:holder("key")
                local grant, left, renewals = holder and holder.token, math.huge, 0
                while holder and holder.token == grant and renewals < 3 do
                    renewals = renewals + (holder.remaining > left and 1 or 0)
                    left = holder.remaining
                    none.sleep(0.01)
                    holder = dict:holder("key")
                end
                child:kill()
                child:wait()
                return renewals == 3
            end)
        end)

        it("refuses to take a lock that nothing could renew", function ()
            local lock = new { renew = true }
            local reason = "cannot renew here: renewal needs a resty.holdfast.scheduler task or a "
                           .. "coroutine of an event loop"
            assert.same({ nil, reason }, { lock:lock("key") })
            assert.same({ nil, reason }, { lock:trylock("key") })
            assert.same({ nil, reason }, { lock:with("key", print) })
            coroutine.wrap(function () assert.same({ nil, reason }, { lock:lock("key") }) end)()
            hosts.set_host { name = "sleeps", sleep = none.sleep }
            assert.same({ nil, reason }, { lock:lock("key") })
            assert.is_nil(dict:get("key"))
        end)

        it("does nothing for a lock that does not expire", function ()
            local lock = new { exptime = 0, renew = true }
            assert.equal(0, lock:lock("key"))
            assert.equal(1, lock:unlock())
        end)

        it("does not happen in a forked child", function ()
            local text = process.run(process.FORK .. [[
                local scheduler = require "resty.holdfast.scheduler"
                local lock = require("resty.lock"):new("spec_renew", {
                    exptime = 30, renew = true, on_lost = function () say("lost") end })
                scheduler.spawn(function ()
                    lock:lock("key")
                    in_child(function ()
                        require("resty.holdfast.tasks.queues").background_jobs.run(scheduler.now() + 10)
                        scheduler.sleep(0)
                        say("child", lock:valid(), lock:unlock())
                    end)
                    say("parent", lock:valid(), lock:unlock())
                end)
                scheduler.run()
            ]])
            assert.equal("child\tfalse\tnil\tnot owner\nparent\ttrue\t1\n", text)
        end)
    end)

    describe("on_lost", function ()
        for _, method in ipairs { "unlock", "expire", "remaining", "valid" } do
            it("is called when " .. method .. " detects the loss, and is not called by a later method", function ()
                local lock, calls = observed {}
                lock:lock("key")
                dict:delete("key")
                assert.is_falsy(lock[method](lock))
                assert.equal(1, #calls)
                assert.equal(lock, calls[1][1])
                assert.same({ "key", "not owner" }, { calls[1][2], calls[1][3] })
                lock:valid()
                lock:expire()
                lock:unlock()
                assert.equal(1, #calls)
            end)
        end

        it("is called again for each lock that is lost", function ()
            local lock, calls = observed {}
            for i = 1, 3 do
                lock:lock("key")
                dict:flush_all()
                lock:unlock()
                assert.equal(i, #calls)
            end
        end)

        it("is not called for a lock that was unlocked in time, or for a different error", function ()
            local lock, calls = observed {}
            lock:unlock()
            lock:lock("key")
            lock:lock("key")
            lock:unlock()
            lock:valid()
            lock:remaining()
            assert.same({}, calls)
        end)

        it("is called if with loses the lock in its function, and the results are still returned", function ()
            local lock, calls = observed {}
            assert.equal(5, lock:with("key", function ()
                dict:delete("key")
                return 5
            end))
            assert.equal(1, #calls)
        end)

        it("is called when the dictionary was removed", function ()
            shdict.open("spec_removed_renew", { size = "64k" })
            local told
            local lock = resty_lock:new("spec_removed_renew", { on_lost = function (_, _, why) told = why end })
            lock:lock("key")
            shdict.remove("spec_removed_renew")
            lock:unlock()
            assert.equal("dictionary not found", told)
        end)

        it("may fail: the error is reported, and nothing else changes", function ()
            local reported = {}
            local on_error = scheduler.on_error
            scheduler.on_error = function (task, message) reported[#reported + 1] = { task or false, message } end
            local lock = new { exptime = EXPTIME, renew = true, on_lost = function () error("a fault") end }
            tasks.run(function ()
                lock:lock("key")
                dict:delete("key")
                assert.same({ nil, "not owner" }, { lock:unlock() })
                lock:lock("key")
                dict:delete("key")
                background_jobs.run(none.now() + EXPTIME / 3)
                scheduler.sleep(0)
                lock:unlock()
            end)
            scheduler.on_error = on_error
            assert.equal(2, #reported)
            for _, report in ipairs(reported) do
                assert.is_false(report[1])
                assert.matches("^on_lost failed: .*lock_renew_spec.lua:%d+: a fault\n", report[2])
            end
        end)

        it("may fail with an error without text, and unlock returns as usual", function ()
            local told, stop_collecting = reports.collect()
            for i, to_text in ipairs { error, function () return {} end } do
                local lock = new { on_lost = function () error(setmetatable({}, { __tostring = to_text })) end }
                lock:lock("key")
                dict:delete("key")
                assert.same({ true, nil, "not owner" }, { pcall(lock.unlock, lock) })
                assert.equal(i, #told)
                assert.matches("on_lost failed: (error object is a table value)\nstack traceback:", told[i], 1, true)
            end
            stop_collecting()
        end)

        it("works without the scheduler and without renew", function ()
            local text = process.run [[
                local dict = require("resty.shdict").open("spec_renew")
                local lock = require("resty.lock"):new("spec_renew", {
                    on_lost = function (_, key, reason) say("lost", key, reason) end })
                lock:lock("key")
                dict:delete("key")
                say("unlock", lock:unlock())
            ]]
            assert.equal("lost\tkey\tnot owner\nunlock\tnil\tnot owner\n", text)
        end)
    end)

    it("refuses invalid values, and reports the caller's line #local", function ()
        local refusal = expect.refusal_of(resty_lock, "spec_renew")
        for name, expected in pairs { renew = "boolean", fair = "boolean", on_lost = "function" } do
            for _, value in ipairs { 1, "yes", {}, name == "on_lost" or print } do
                assert.matches('^bad option "' .. name .. '" to new: expected a ' .. expected .. ", got ",
                               refusal { [name] = value })
            end
        end
        assert.equal(0, new({ renew = false, fair = false }):lock("key"))
    end)
end)
