-- Tests resty.semaphore: permits in one process and in several processes.

local expect, fixture, keep, pack, process, tasks =
    require "spec.support" ("expect", "fixture", "keep", "pack", "process", "tasks")
local none = require "resty.holdfast.host.none"
local scheduler = require "resty.holdfast.scheduler"
local semaphore = require "resty.semaphore"


describe("semaphore", function ()
    fixture.locks(semaphore, "spec_semaphore")

    local function new(permits, opts)
        opts = opts or {}
        opts.permits = permits
        return assert(semaphore:new("spec_semaphore", opts))
    end

    describe("new", function ()
        it("requires the number of permits, and refuses invalid values", function ()
            local message = expect.refusal_of(semaphore, "spec_semaphore")
            local start = 'bad option "permits" to new: expected a whole number from 1 to 1073741823, got '
            assert.equal(start .. "nil", message(nil))
            for _, permits in ipairs { 0, -1, 1.5, 2 ^ 30, 1 / 0, "5" } do
                assert.matches(start, message { permits = permits }, 1, true)
            end
            assert.matches(start, message { permits = 0 / 0 }, 1, true)
            assert.equal("bad options to new: expected a table, got number", message(5))
            assert.equal('unknown option "renew" to new: expected block, exptime, fair, log_timeouts, '
                         .. "max_step, permits, ratio, step, timeout or wait", message { permits = 1, renew = true })
            for _, name in ipairs { "exptime", "timeout", "step", "ratio" } do
                assert.equal('bad option "' .. name .. '" to new: expected a number, 0 or more, got -1',
                             message { permits = 1, [name] = -1 })
            end
            assert.equal('bad option "wait" to new: expected "wake" or "poll", got "sleep"',
                         message { permits = 1, wait = "sleep" })
            assert.equal('bad option "fair" to new: expected a boolean, got 1', message { permits = 1, fair = 1 })
            assert.equal('bad option "block" to new: expected a boolean, got "yes"',
                         message { permits = 1, block = "yes" })
        end)
    end)

    describe("wait and post", function ()
        it("admit at most the given number of holders", function ()
            local first, second = new(3), new(3)
            assert.same(pack(true), pack(first:wait("key")))
            assert.same(pack(true), pack(first:wait("key", 0)))
            assert.same(pack(true), pack(second:wait("key", 1)))
            assert.same(pack(nil, "timeout"), pack(second:wait("key", 0)))
            assert.same(pack(nil, "timeout"), pack(first:wait("key", 0.01)))
            assert.is_true(second:wait("another", 0))
            assert.same(pack(true), pack(first:post("key")))
            assert.same(pack(true), pack(second:wait("key", 0)))
        end)

        it("release only permits that the same object took", function ()
            local first, second = new(3), new(3)
            first:wait("key")
            first:wait("key")
            assert.same(pack(nil, "not owner"), pack(second:post("key")))
            assert.same(pack(nil, "not owner"), pack(first:post("another")))
            assert.same(pack(nil, "not owner"), pack(first:post("key", 3)))
            assert.same(pack(1, 0), pack(first:count("key")))
            assert.same(pack(true), pack(first:post("key", 2)))
            assert.same(pack(3, 0), pack(first:count("key")))
            assert.same(pack(nil, "not owner"), pack(first:post("key")))
            assert.is_nil(next(first.held), "keys without permits take memory")
        end)

        it("use the timeout of new by default", function ()
            keep(new(1)):wait("key")
            local start = none.now()
            assert.same(pack(nil, "timeout"), pack(new(1, { timeout = 0.05 }):wait("key")))
            assert.is_true(none.now() - start >= 0.05)
        end)

        it("wake one waiter for each post, in order of arrival", function ()
            local order = {}
            tasks.run(function ()
                local shared = new(2)
                shared:wait("key")
                shared:wait("key")
                for i = 1, 3 do
                    scheduler.spawn(function ()
                        local object = new(2)
                        assert.is_true(object:wait("key"))
                        order[#order + 1] = i
                        scheduler.sleep(0.05)
                        object:post("key")
                    end)
                    scheduler.sleep(0.002)
                end
                assert.same(pack(0, 3), pack(shared:count("key")))
                shared:post("key")
                scheduler.sleep(0.01)
                assert.same({ 1 }, order)
                shared:post("key")
            end)
            assert.same({ 1, 2, 3 }, order)
        end)

        it("serve any number of coroutines with one object", function ()
            local inside, most, done = 0, 0, 0
            local shared = new(3, { timeout = 20 })
            for _ = 1, 20 do
                scheduler.spawn(function ()
                    assert(shared:wait("key"))
                    inside = inside + 1
                    most = math.max(most, inside)
                    scheduler.sleep(0.002)
                    inside = inside - 1
                    done = done + 1
                    assert(shared:post("key"))
                end)
            end
            assert.is_true(scheduler.run())
            assert.same({ 20, 3 }, { done, most })
            assert.same(pack(3, 0), pack(shared:count("key")))
        end)

        it("release the oldest of several permits first", function ()
            expect.in_time(function ()
                local object = new(2, { exptime = 0.1 })
                object:wait("key")
                none.sleep(0.11)
                local start = none.now()
                object:wait("key")
                assert.same(pack(nil, "not owner"), pack(object:post("key")))
                local posted = object:post("key")
                return none.now() - start < 0.1 and assert.is_true(posted)
            end)
        end)
    end)

    describe("wait and with", function ()
        it("accept the options of locks: timeout, exptime and why", function ()
            local object, other = new(1), new(1)
            assert.is_true(object:wait("key", { exptime = 100, why = "by wait" }))
            local holder = object:holder("key")
            assert.same({ "by wait", true }, { holder.why, holder.remaining > 50 })
            assert.same(pack(nil, "timeout"), pack(other:wait("key", { timeout = 0.01 })))
            assert.same(pack(nil, "timeout"), pack(other:with("key", { timeout = 0 }, error)))
            object:post("key")
            assert.equal("done", other:with("key", { exptime = 100, why = "in with" }, function (text)
                assert.same({ "in with", true }, { object:holder("key").why, object:holder("key").remaining > 50 })
                return text
            end, "done"))
            assert.equal(math.huge, object:with("key", function () return object:holder("key").remaining end))
        end)

        it("report an unknown option by name", function ()
            local object = new(1)
            assert.equal('unknown option "fair" to wait: expected exptime, timeout or why',
                         expect.blamed(function () object:wait("key", { fair = true }) end))
            assert.equal('unknown option "fair" to with: expected exptime, timeout or why',
                         expect.blamed(function () object:with("key", { fair = true }, print) end))
        end)
    end)

    describe("with", function ()
        it("holds a permit while the function runs, and passes on results", function ()
            local object = new(1)
            assert.same(pack(nil, 1, nil), pack(object:with("key", function (...)
                assert.same(pack(nil, "timeout"), pack(object:wait("key", 0)))
                return ...
            end, nil, 1, nil)))
            assert.equal("with timeout", object:with("key", 0, function () return "with timeout" end))
            assert.same(pack(1, 0), pack(object:count("key")))
            object:wait("key")
            assert.same(pack(nil, "timeout"), pack(object:with("key", 0.01, error)))
        end)

        it("releases the permit on an error, and does not change the error", function ()
            local object = new(1)
            local err = {}
            local _, caught = pcall(object.with, object, "key", error, err)
            assert.is_true(rawequal(err, caught))
            assert.same(pack(1, 0), pack(object:count("key")))
        end)
    end)

    describe("the collector", function ()
        it("releases all permits of an object", function ()
            local object = new(5)
            object:wait("key")
            object:wait("key")
            object:wait("another")
            object = nil
            collectgarbage()
            collectgarbage()
            assert.is_nil(object)
            assert.same(pack(5, 0), pack(new(5):count("key")))
            assert.same(pack(5, 0), pack(new(5):count("another")))
        end)
    end)

    describe("across processes", function ()
        local function start_holder()
            return process.start_holder('require("resty.semaphore"):new("spec_semaphore", { permits = 2 })',
                                        "wait", "post")
        end

        it("the permits are shared", function ()
            local first, second = start_holder(), start_holder()
            local object = new(2)
            assert.same(pack(nil, "timeout"), pack(object:wait("key", 0.02)))
            first:say("post")
            assert.equal("true", first:hear())
            assert.is_true(object:wait("key", 0))
            second:say("post")
            assert.equal("true", second:hear())
        end)
    end)

    it("raises an error for misuse, and reports the caller's line", function ()
        local object = new(1)
        for _, timeout in ipairs { -1, "1", print, false } do
            assert.matches("^bad timeout to wait: expected a number, 0 or more, got ",
                           expect.blamed(function () object:wait("key", timeout) end))
        end
        assert.matches("^bad timeout to with: expected a number, 0 or more, got ",
                       expect.blamed(function () object:with("key", -1, print) end))
        assert.equal("bad function to with: expected a function, got nil",
                     expect.blamed(function () object:with("key") end))
        for _, n in ipairs { 0, -1, 1.5, 1 / 0, "1", {} } do
            assert.matches("^bad number of permits to post: expected a whole number, 1 or more, got ",
                           expect.blamed(function () object:post("key", n) end))
        end
    end)
end)
