-- Who holds a lock, and why.

local expect = require "spec.support.expect"
local process = require "spec.support.process"
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"

local pack = expect.pack

local getpid = require("ffi").C.getpid


describe("holder", function ()
    local dict

    before_each(function ()
        dict = assert(shdict.open("spec_holder", { size = "1m" }))
        dict:flush_all()
    end)

    after_each(function ()
        process.clean_up()
        collectgarbage()
        collectgarbage()
    end)

    local function new(opts)
        return assert(resty_lock:new("spec_holder", opts))
    end

    it("is nil where nobody holds the key", function ()
        local lock = new()
        assert.same(pack(nil), pack(lock:holder("key")))
        lock:lock("key")
        lock:unlock()
        assert.same(pack(nil), pack(lock:holder("key")))
        dict:set("value", 5)
        assert.same(pack(nil), pack(lock:holder("value")))
    end)

    it("tells who it is, since when, for how long, and why", function ()
        local lock = new()
        local before = scheduler.now()
        lock:lock("key", { exptime = 100, why = "to write the report" })
        local holder = new():holder("key")
        assert.equal(getpid(), holder.process)
        assert.equal("string", type(holder.program))
        assert.is_nil(holder.worker)
        assert.is_true(holder.alive)
        assert.equal("to write the report", holder.why)
        assert.equal(lock:token(), holder.token)
        assert.equal(0, holder.waiters)
        assert.is_true(math.abs(holder.since - before) < 5)
        assert.is_true(holder.held >= 0 and holder.held < 5)
        assert.is_true(holder.remaining > 50 and holder.remaining <= 100.005)
        lock:unlock()
    end)

    it("has an endless time left where the lock never expires, and no reason where none was given", function ()
        local lock = new { exptime = 0 }
        lock:trylock("key")
        local holder = lock:holder("key")
        assert.equal(math.huge, holder.remaining)
        assert.is_nil(holder.why)
    end)

    it("counts those who wait", function ()
        local lock = new()
        lock:lock("key", { why = "first" })
        for _ = 1, 3 do
            scheduler.spawn(function ()
                local waiting = new()
                waiting:lock("key", { why = "next" })
                assert.equal("next", waiting:holder("key").why)
                waiting:unlock()
            end)
        end
        scheduler.spawn(function ()
            scheduler.sleep(0.01)
            assert.same({ 3, "first" }, { lock:holder("key").waiters, lock:holder("key").why })
            lock:unlock()
        end)
        assert.is_true(scheduler.run())
    end)

    it("forgets the reason with the lock", function ()
        local lock = new()
        assert.is_true(lock:trylock("key", { why = "once" }))
        assert.equal("once", lock:holder("key").why)
        lock:unlock()
        lock:lock("key")
        assert.is_nil(lock:holder("key").why)
        lock:unlock()
        lock:with("key", { why = "in with" }, function () assert.equal("in with", lock:holder("key").why) end)
    end)

    it("keeps as much of a long reason as there is room for", function ()
        local lock = new()
        lock:lock("key", { why = ("x"):rep(127) .. "y" })
        assert.equal(("x"):rep(127), lock:holder("key").why)
        lock:unlock()
        lock:lock("key", { why = "" })
        assert.is_nil(lock:holder("key").why)
    end)

    it("is another process, and then a dead one", function ()
        local child = process.start [[
            local lock = require("resty.lock"):new("spec_holder", { exptime = 0 })
            say(lock:lock("key", { why = "from afar" }))
            hear()
        ]]
        assert.equal("0", child:hear())
        local holder = new():holder("key")
        assert.same({ child.pid, "luajit", "from afar", true },
                    { holder.process, holder.program, holder.why, holder.alive })
        child:kill(process.KILL)
        child:wait()
        assert.is_false(new():holder("key").alive)
        assert.equal(0, new():lock("key"))
        assert.equal(getpid(), new():holder("key").process)
    end)

    it("takes keys as lock does", function ()
        local lock = new()
        assert.same(pack(nil, "nil key"), pack(lock:holder()))
        assert.same(pack(nil, "empty key"), pack(lock:holder("")))
        assert.same(pack(nil, "bad key type"), pack(lock:holder({})))
        lock:lock(12)
        assert.equal(lock:token(), lock:holder("12").token)
        assert.error_matches(function () lock.holder("key") end,
                             '^bad receiver of holder: a lock object expected, got "key"; call it as obj:holder')
        assert.error_matches(function () new():trylock("key", { why = 5 }) end,
                             '^bad option "why" to trylock: a string expected, got 5$')
    end)

    it("says that the dictionary was removed", function ()
        shdict.open("spec_removed_holder", { size = "64k" })
        local lock = assert(resty_lock:new("spec_removed_holder"))
        lock:lock("key")
        shdict.remove("spec_removed_holder")
        assert.same(pack(nil, "dictionary not found"), pack(lock:holder("key")))
    end)
end)
