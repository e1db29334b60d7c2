-- resty.rwlock over several processes: shares, deaths, stops, forks.

local fixture = require "spec.support.fixture"
local pack = require "spec.support.pack"
local process = require "spec.support.process"
local run = require("spec.support.tasks").run
local rwlock = require "resty.rwlock"
local scheduler = require "resty.holdfast.scheduler"


describe("rwlock, across processes:", function ()
    local dict, new = fixture.locks(rwlock, "spec_rwlock")

    -- Takes a share and keeps it.
    local function start_holder(method)
        local child = process.start(([[
            local lock = require("resty.rwlock"):new("spec_rwlock")
            say(lock:%s("key"))
            hear()
            say(tostring(lock:unlock()))
            hear()
        ]]):format(method))
        assert.equal("0", child:hear())
        return child
    end

    it("readers share, writers do not", function ()
        local child = start_holder("rdlock")
        assert.is_true(new():tryrdlock("key"))
        assert.same(pack(nil, "timeout"), pack(new({ timeout = 0.02 }):wrlock("key")))
        child:say("unlock")
        assert.equal("1", child:hear())
    end)

    for method, count in pairs { rdlock = 2, wrlock = 1 } do
        it("shares die with their processes: " .. method, function ()
            local children = {}
            for i = 1, count do
                children[i] = start_holder(method)
            end
            for _, child in ipairs(children) do
                assert.same(pack(nil, "held"), pack(new():trywrlock("key")))
                child:kill(process.KILL)
            end
            local writer = new { timeout = 20 }
            assert(writer:wrlock("key"))
            assert.equal(1, writer:unlock())
        end)
    end

    it("who waits while its holder is killed goes on", function ()
        local child = start_holder("wrlock")
        local reader = new { timeout = 20 }
        run(function ()
            scheduler.spawn(function ()
                scheduler.sleep(0.01)
                child:kill(process.KILL)
            end)
            assert.is_true(reader:rdlock("key") < 15)
        end)
        assert.equal(1, reader:unlock())
    end)

    it("a share of a process that is stopped stays, until it expires", function ()
        local child = process.start [[
            local lock = require("resty.rwlock"):new("spec_rwlock", { exptime = 2 })
            say(lock:rdlock("key"))
            hear()
            say(select(2, lock:unlock()))
            hear()
        ]]
        assert.equal("0", child:hear())
        child:kill(process.STOP)
        assert.same(pack(nil, "held"), pack(new():trywrlock("key")))
        local writer = new()
        assert.is_true(writer:wrlock("key") > 0)
        child:kill(process.CONT)
        child:say("unlock")
        assert.equal("not owner", child:hear())
        assert.is_true(writer:valid())
    end)

    it("readers see both halves of what a writer changes", function ()
        dict:set("left", 0)
        dict:set("right", 0)
        local writer = [[
            local lock = require("resty.rwlock"):new("spec_rwlock", { timeout = 20 })
            local dict = require("resty.shdict").shared.spec_rwlock
            for _ = 1, 150 do
                assert(lock:wrlock("key"))
                dict:set("left", dict:get("left") + 1)
                dict:set("right", dict:get("right") + 1)
                assert(lock:unlock())
            end
        ]]
        local reader = [[
            local lock = require("resty.rwlock"):new("spec_rwlock", { timeout = 20 })
            local dict = require("resty.shdict").shared.spec_rwlock
            for _ = 1, 150 do
                assert(lock:rdlock("key"))
                assert(dict:get("left") == dict:get("right"))
                assert(lock:unlock())
            end
        ]]
        process.run_together { writer, reader, writer, reader }
        assert.equal(300, dict:get("left"))
    end)
end)
