-- Tests resty_lock:all(), which takes several locks together.

local blamed = require("spec.support.expect").blamed
local fixture, pack, process = require "spec.support" ("fixture", "pack", "process")
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"


describe("several locks", function ()
    local _, new = fixture.locks(resty_lock, "spec_locks")
    local other

    before_each(function () other = new() end)

    local function all(keys, opts)
        return assert(resty_lock:all("spec_locks", keys, opts))
    end

    local function is_free(key)
        local taken = other:trylock(key)
        return taken and other:unlock() == 1 or false
    end

    it("are taken and released together", function ()
        local locks = all { "b", "a", "b", 3 }
        assert.is_number(locks:lock())
        assert.same({ false, false, false, true }, { is_free("a"), is_free("b"), is_free("3"), is_free("c") })
        assert.is_true(locks:valid())
        assert.is_true(locks:expire(100))
        assert.equal(1, locks:unlock())
        assert.same({ true, true, true }, { is_free("a"), is_free("b"), is_free("3") })
        assert.is_false(locks:valid())
        assert.same(pack(nil, "unlocked"), pack(locks:unlock()))
    end)

    it("are not held if one of them cannot be taken", function ()
        local locks = all({ "a", "b", "c" }, { timeout = 0.02 })
        assert(other:lock("b"))
        assert.same(pack(nil, "held"), pack(locks:trylock()))
        assert.same(pack(nil, "timeout"), pack(locks:lock()))
        assert.same(pack(nil, "timeout"), pack(locks:lock { timeout = 0 }))
        assert(other:unlock())
        assert.same({ true, true, true }, { is_free("a"), is_free("b"), is_free("c") })
        assert.is_true(locks:trylock())
        assert.same(pack(nil, "locked"), pack(locks:lock()))
        assert.is_true(locks:valid())
        assert.equal(1, locks:unlock())
    end)

    it("share one timeout", function ()
        local first, second = new(), new()
        assert(first:lock("a"))
        assert(second:lock("b"))
        local start, got, err = scheduler.now(), nil, nil
        scheduler.spawn(function () got, err = all({ "a", "b" }, { timeout = 0.3 }):lock() end)
        scheduler.spawn(function ()
            scheduler.sleep(0.2)
            first:unlock()
        end)
        assert(scheduler.run())
        assert.same(pack(nil, "timeout"), pack(got, err))
        local seconds = scheduler.now() - start
        assert.is_true(seconds >= 0.3)
        assert.is_true(is_free("a"))
        second:unlock()
    end)

    it("never deadlock, in whatever order the keys are given", function ()
        local function work(keys)
            return ([[
                local locks = assert(require("resty.lock"):all("spec_locks", { %s }, { timeout = 30 }))
                for _ = 1, 200 do
                    assert(locks:lock())
                    assert(locks:unlock() == 1)
                end
            ]]):format(keys)
        end
        process.run_together { work('"a", "b", "c"'), work('"c", "b", "a"'), work('"b", "c"'), work('"c", "a"') }
    end)

    it("are released after a function, even if it raises an error", function ()
        local locks = all { "a", "b" }
        local function fn(...)
            assert.is_false(is_free("a"))
            assert.is_false(is_free("b"))
            return "result", ...
        end
        assert.same({ "result", 1, 2 }, { locks:with(fn, 1, 2) })
        assert.same({ "result" }, { locks:with({ timeout = 1, why = "test" }, fn) })
        assert.has_error(function () locks:with(function () error("mine", 0) end) end, "mine")
        assert.is_true(is_free("a"))
        assert(other:lock("b"))
        assert.same(pack(nil, "timeout"), pack(locks:with({ timeout = 0.01 }, fn)))
        other:unlock()
        assert.is_true(is_free("a"))
    end)

    it("show the reason why they are held", function ()
        local locks = all { "a", "b" }
        assert(locks:lock { why = "report" })
        assert.equal("report", other:holder("a").why)
        assert.equal("report", other:holder("b").why)
        locks:unlock()
    end)

    it("need valid keys and options", function ()
        assert.same({ nil, "empty key" }, { resty_lock:all("spec_locks", { "a", "" }) })
        assert.same({ nil, "dictionary not found" }, { resty_lock:all("spec_nowhere", { "a" }) })
        for expected, call in pairs {
            ["bad keys to all: expected an array of keys, got an empty table"] =
                function () return (resty_lock:all("spec_locks", {})) end,
            ['bad keys to all: expected an array of keys, got "a"'] =
                function () return (resty_lock:all("spec_locks", "a")) end,
        } do
            assert.equal(expected, blamed(call))
        end
    end)
end)
