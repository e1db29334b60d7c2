-- Tests the methods that resty.lock has and lua-resty-lock does not: with, remaining and valid.

local expect, fixture, pack = require "spec.support" ("expect", "fixture", "pack")
local none = require "resty.holdfast.host.none"
local scheduler = require "resty.holdfast.scheduler"



describe("lock", function ()
    local dict, new = fixture.locks(require "resty.lock", "spec_with")

    describe("with", function ()
        it("holds the lock while the function runs, and passes on arguments and results, including nils", function ()
            local lock, other = new(), new()
            local results = pack(lock:with("key", function (...)
                assert.same({ nil, "held" }, { other:trylock("key") })
                assert.same(pack(1, nil, "b", nil), pack(...))
                return nil, 2, nil, nil
            end, 1, nil, "b", nil))
            assert.same(pack(nil, 2, nil, nil), results)
            assert.is_true(other:trylock("key"))
            assert.same(pack(), pack(lock:with("no results", function () end)))
        end)

        it("accepts the options of lock", function ()
            local lock = new()
            assert.equal("done", lock:with("key", { exptime = 100, timeout = 1 }, function (...)
                assert.same(pack("x"), pack(...))
                assert.is_true(dict:ttl("key") > 50)
                return "done"
            end, "x"))
            assert.equal("done", lock:with("key", nil, function (text) return text end, "done"))
        end)

        it("does not call the function if it does not get the lock", function ()
            local holder, lock = new(), new { timeout = 0.01 }
            holder:lock("key")
            local function never() error("called") end
            assert.same(pack(nil, "timeout"), pack(lock:with("key", never)))
            assert.same(pack(nil, "timeout"), pack(lock:with("key", { timeout = 0 }, never)))
            assert.same(pack(nil, "locked"), pack(holder:with("other", never)))
            assert.same(pack(nil, "nil key"), pack(lock:with(nil, never)))
        end)

        it("releases the lock on an error, and does not change the error", function ()
            local lock, other = new(), new()
            for _, err in ipairs { "text", { code = 5 }, 7, true } do
                local results = pack(pcall(lock.with, lock, "key", function () error(err, 0) end))
                assert.equal(2, results.n)
                assert.is_true(rawequal(err, results[2]))
                assert.is_true(other:trylock("key"))
                other:unlock()
            end
            assert.same(pack(false, nil), pack(pcall(lock.with, lock, "key", error)))
            local _, message = pcall(lock.with, lock, "key", function () error("with its place") end)
            assert.matches("^[^:]*lock_with_spec.lua:%d+: with its place$", message)
        end)

        it("also passes on an error from a coroutine unchanged, even an error without text", function ()
            for _, to_text in ipairs { error, function () return {} end } do
                local lock, err = new(), setmetatable({}, { __tostring = to_text })
                local co = coroutine.create(function () lock:with("key", error, err) end)
                local results = pack(coroutine.resume(co))
                assert.is_false(results[1])
                assert.is_true(rawequal(err, results[2]))
                assert.is_true(lock:trylock("key"))
                lock:unlock()
            end
        end)

        it("reports an error in a task with the line where it was raised", function ()
            local report
            local on_error = scheduler.on_error
            scheduler.on_error = function (_, message) report = message end
            local function a_function_with_a_fault() error("in the middle") end
            scheduler.spawn(function ()
                new():with("outer", function ()
                    new():with("inner", function () return a_function_with_a_fault() or 1 end)
                end)
            end)
            scheduler.run()
            scheduler.on_error = on_error
            assert.matches("in the middle", report, 1, true)
            assert.matches("a_function_with_a_fault", report, 1, true)
        end)

        it("releases only the lock that it took #local", function ()
            local lock = new()
            lock:with("key", function ()
                assert.equal(1, lock:unlock())
                assert.equal(0, lock:lock("another"))
            end)
            assert.is_nil(dict:get("key"))
            assert.is_true(dict:get("another"))
            assert.equal(1, lock:unlock())
        end)

        it("refuses a bad function and options that lock does not have, and reports the caller's line", function ()
            local lock = new()
            assert.equal("bad function to with: expected a function, got nil",
                         expect.blamed(function () lock:with("key") end))
            assert.equal("bad function to with: expected a function, got string",
                         expect.blamed(function () lock:with("key", {}, "print") end))
            assert.equal("bad options to with: expected a table, got string",
                         expect.blamed(function () lock:with("key", "opts", print) end))
            assert.equal('bad option "timeout" to with: expected a number, 0 or more, got -1',
                         expect.blamed(function () lock:with("key", { timeout = -1 }, print) end))
            assert.matches('^unknown option "timeuot" to with: expected ',
                           expect.blamed(function () lock:with("key", { timeuot = 1 }, print) end))
            assert.matches("^bad receiver of with: expected a lock object, got \"key\"",
                           expect.blamed(function () lock.with("key", print) end))
            assert.is_nil(dict:get("key"))
        end)
    end)

    describe("remaining and valid", function ()
        it("tell how much longer the lock will be held, and change nothing", function ()
            local lock = new { exptime = 20 }
            assert.same(pack(nil, "unlocked"), pack(lock:remaining()))
            assert.same(pack(false), pack(lock:valid()))
            lock:lock("key")
            local left = lock:remaining()
            assert.is_true(left > 10 and left <= 21.1, left)
            assert.same(pack(true), pack(lock:valid()))
            lock:expire(100)
            assert.is_true(lock:remaining() > 50)
            lock:unlock()
            assert.same(pack(nil, "unlocked"), pack(lock:remaining()))
        end)

        it("have no limit without exptime #local", function ()
            local lock = new { exptime = 0 }
            lock:lock("key", { timeout = 0 })
            assert.same(pack(math.huge), pack(lock:remaining()))
            assert.is_true(lock:valid())
        end)

        it("detect that the lock has a different holder, has expired, or was flushed", function ()
            local lock, other = new(), new()
            lock:lock("key", { exptime = 0.01 })
            none.sleep(0.02)
            assert.same(pack(nil, "not owner"), pack(lock:remaining()))
            other:lock("key")
            assert.same(pack(nil, "not owner"), pack(lock:remaining()))
            assert.is_false(lock:valid())
            assert.is_true(other:valid())
            dict:flush_all()
            assert.is_false(other:valid())
        end)
    end)
end)
