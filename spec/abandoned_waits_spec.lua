-- Tests wait/wait.lua.
-- A waiter that never comes back (a request that was aborted, a coroutine that is not resumed) holds up the others no
-- longer than it would have waited.

local hosts = require "resty.holdfast.host"
local parker = require "resty.holdfast.wait.parker"
local rwlock = require "resty.rwlock"
local shdict = require "resty.shdict"

local now = require("resty.holdfast.scheduler").now

local abandoned


local function new(opts)
    return assert(rwlock:new("spec_abandoned", opts))
end


-- Begins to wait, in a coroutine that is never resumed.
local function abandon(timeout)
    hosts.set_host { name = "aborting", sleep = function () coroutine.yield() end }
    abandoned = coroutine.create(function ()
        new({ timeout = timeout }):wrlock("key")
    end)
    assert(coroutine.resume(abandoned))
    assert.equal("suspended", coroutine.status(abandoned))
    hosts.set_host(nil)
end


describe("a writer that waits and is never resumed", function ()
    local reader, other

    before_each(function ()
        assert(shdict.open("spec_abandoned", { size = "100k" })):flush_all()
        reader, other = new(), new({ timeout = 10 })
        assert(reader:rdlock("key"))
    end)

    after_each(function ()
        hosts.set_host(nil)
        abandoned = nil
        collectgarbage()
        collectgarbage()
        assert.is_false(parker.has_listeners())
        reader:unlock()
        other:unlock()
    end)


    it("keeps readers out as long as it waits", function ()
        abandon(60)
        assert.same({ nil, "held" }, { other:tryrdlock("key") })
    end)


    it("is overtaken by those that come after its timeout", function ()
        abandon(0.1)
        local passed = now() + 0.15
        repeat
            collectgarbage("stop")
        until now() > passed
        collectgarbage("restart")
        assert.is_true(other:tryrdlock("key"))
    end)


    it("is overtaken by those that came behind it", function ()
        abandon(0.1)
        assert.is_number((other:rdlock("key")))
    end)


    it("is passed after a while though its timeout is long", function ()
        abandon(60)
        assert.is_number((other:rdlock("key")))
    end)
end)
