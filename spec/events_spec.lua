-- Tests resty.holdfast.events.

local blamed = require("spec.support.expect").blamed
local events = require "resty.holdfast.events"
local fixture, pack, process = require "spec.support" ("fixture", "pack", "process")
local shdict = require "resty.shdict"

local OPEN = [[
    local events = require "resty.holdfast.events"
    local bus = assert(events.open("spec_events", { keep = 100 }))
]]


describe("events", function ()
    local dict = fixture.dictionary("spec_events", { size = "1m", versions = true, tables = true })
    local state = fixture.dictionary("spec_events.state", { size = "12k", versions = true })
    local bus

    before_each(function ()
        state:set("first", 0, 0, 100)  -- so that the first event has the number 1
        bus = assert(events.open("spec_events", { keep = 100 }))
    end)

    local function all(sub)
        local got = {}
        repeat
            local topic, data, number, missed = sub:next(0)
            if topic then
                got[#got + 1] = { topic, data, number, missed }
            end
        until not topic
        return got
    end

    it("reach a subscriber in order, with their topic, data and number", function ()
        local sub = assert(bus:subscribe())
        assert.equal(1, (bus:publish("config", { limit = 7 })))
        assert.equal(2, (bus:publish("cache", "key")))
        assert.equal(3, (bus:publish("empty")))
        assert.same({ { "config", { limit = 7 }, 1, 0 }, { "cache", "key", 2, 0 }, { "empty", nil, 3, 0 } }, all(sub))
        assert.equal(3, sub:position())
        assert.same(pack(nil, "timeout"), pack(sub:next(0)))
        assert.same(pack(nil, "timeout"), pack(sub:next(0.01)))
    end)

    it("that were published before the subscription do not arrive, unless the subscriber requests them", function ()
        bus:publish("old", 1)
        local new, from_start = assert(bus:subscribe()), assert(bus:subscribe { from = 0 })
        bus:publish("new", 2)
        assert.same({ { "new", 2, 2, 0 } }, all(new))
        assert.same({ { "old", 1, 1, 0 }, { "new", 2, 2, 0 } }, all(from_start))
        assert.same({ { "new", 2, 2, 0 } }, all(bus:subscribe { from = 1 }))
    end)

    it("with other topics do not reach the subscriber of one topic", function ()
        local sub = assert(bus:subscribe { topic = "b" })
        for i = 1, 10 do
            bus:publish(i % 5 == 0 and "b" or "a", i)
        end
        assert.same({ { "b", 5, 5, 0 }, { "b", 10, 10, 0 } }, all(sub))
        assert.equal(10, sub:position())
    end)

    it("that were overwritten are counted", function ()
        local sub = assert(bus:subscribe())
        for i = 1, 250 do
            bus:publish("a", i)
        end
        local got = all(sub)
        assert.same({ "a", 151, 151, 150 }, got[1])
        assert.same({ "a", 250, 250, 0 }, got[#got])
        assert.equal(100, #got)
    end)

    it("that were evicted or flushed are counted, and later events arrive", function ()
        local sub = assert(bus:subscribe())
        bus:publish("a", 1)
        bus:publish("a", 2)
        dict:delete("e:1")
        assert.same({ { "a", 2, 2, 1 } }, all(sub))
        dict:flush_all()
        bus:publish("a", 3)
        assert.same({ { "a", 3, 3, 0 } }, all(sub))
        bus:publish("a", 4)
        dict:flush_all()
        bus:publish("a", 5)
        assert.same({ { "a", 5, 5, 1 } }, all(sub))
    end)

    it("of a bus that was removed and created again are not mistaken for earlier events", function ()
        local sub = assert(bus:subscribe())
        for i = 1, 3 do
            bus:publish("old", i)
            sub:next(0)
        end
        local position = sub:position()
        dict:flush_all()
        state:flush_all()
        for i = 1, 5 do
            bus:publish("new", i)
        end
        for _, reader in ipairs { sub, assert(bus:subscribe { from = position }) } do
            local topic, data, number, missed = reader:next(0)
            assert.same({ "new", 1, 1 }, { topic, data, missed })
            assert.is_true(number > 3)
            assert.equal(4, #all(reader))
        end
    end)

    it("reach a subscriber with a position from before a restart of the machine, which learns of the loss", function ()
        bus:publish("a", 1)
        assert.same({ { "a", 1, 1, 1 } }, all(bus:subscribe { from = 1e9 }))
    end)

    it("that were lost are counted by the next call that returns an event", function ()
        local sub = assert(bus:subscribe { topic = "config" })
        bus:publish("config", 1)
        for i = 1, 150 do
            bus:publish("other", i)
        end
        assert.same(pack(nil, "timeout"), pack(sub:next(0)))
        assert.same(pack(nil, "timeout"), pack(sub:next(0)))
        local restarted = assert(bus:subscribe { topic = "config", from = sub:position() })
        bus:publish("config", 2)
        assert.same({ { "config", 2, 152, 51 } }, all(sub))
        assert.equal(152, sub:position())
        assert.same({ { "config", 2, 152, 52 } }, all(restarted))
    end)

    it("keep their numbers if the dictionary is too small, and the bus does not change `keep`", function ()
        local small = assert(events.open("spec_small_events", { keep = 200, size = "12k", persist = false }))
        local sub = assert(small:subscribe())
        local first = sub:position()
        for i = 1, 300 do
            assert.equal(first + i, assert(small:publish("a", ("x"):rep(300))))
        end
        assert.equal(first + 301, (assert(events.open("spec_small_events")):publish("a", 1)))
        local sum = 0
        for _, _, _, missed in function () return sub:next(0) end do
            sum = sum + missed + 1
        end
        assert.equal(301, sum)
    end)

    it("wake a subscriber that waits in another process", function ()
        local child = process.start(OPEN .. [[
            local sub = assert(bus:subscribe())
            say("listens")
            for _ = 1, 3 do
                local topic, data, number = sub:next(20)
                say(topic, data, number)
            end
        ]])
        child:expect("listens")
        for i = 1, 3 do
            bus:publish("a", i)
            child:expect(("a\t%d\t%d"):format(i, i))
        end
    end)

    it("of four publishers reach every subscriber once, in the same order", function ()
        local publish = OPEN .. [[
            local before = 0
            for i = 1, 500 do
                local n = assert(bus:publish(tostring(worker), i))
                assert(n > before)
                before = n
            end
        ]]
        local subscribers = {}
        for i = 1, 2 do
            subscribers[i] = process.start [[
                local bus = assert(require("resty.holdfast.events").open("spec_many_events", { keep = 5000 }))
                local sub = assert(bus:subscribe())
                say("listens")
                local sum, order, last = 0, {}, {}
                for _ = 1, 2000 do
                    local topic, i, n, missed = sub:next(30)
                    assert(topic and missed == 0, i)
                    assert(i == (last[topic] or 0) + 1)
                    last[topic] = i
                    sum = (sum * 31 + n * 7 + topic * i) % 1000003
                end
                say(sum)
            ]]
            subscribers[i]:expect("listens")
        end
        local sources = {}
        for i = 1, 4 do
            sources[i] = ("local worker = %d; "):format(i) .. publish:gsub("spec_events", "spec_many_events")
                         :gsub("keep = 100", "keep = 5000")
        end
        process.run_together(sources)
        local sum = subscribers[1]:hear(30)
        assert.is_truthy(tonumber(sum), sum)
        assert.equal(sum, subscribers[2]:hear(30))
    end)

    it("survive a publisher that dies after any of its stores", function ()
        -- The publisher has stored the event, but has not incremented "last".
        bus:publish("a", 1)
        dict:set("e:2", { 2, "a", "of the dead" })
        local sub = assert(bus:subscribe { from = 1 })
        assert.same({ { "a", "of the dead", 2, 0 } }, all(sub))
        assert.equal(2, (state:get("last")))
        dict:set("e:3", { 3, "a", "of another" })
        assert.equal(3, assert(bus:subscribe()):position())
        assert.equal(4, (bus:publish("a", 4)))
        assert.same({ { "a", "of another", 3, 0 }, { "a", 4, 4, 0 } }, all(sub))
    end)

    it("never cause an endless loop, whatever another program has stored", function ()
        -- Runs in a child process, because an endless loop can be ended only by killing its process.
        process.start(OPEN .. [[
            for _, key in ipairs { "e:0", "e:1", "e:2", "last", "first" } do
                local dict = key:find(":") and bus.dict or bus.state
                for _, n in ipairs { 1, 2, 5, 100, 101, 201, 1e15, 1e15 + 1, 2 ^ 53 - 1, 2 ^ 53 - 91, 2 ^ 53, -1 } do
                    for _, value in ipairs { n, { n, "a" } } do
                        bus.dict:flush_all()
                        bus.state:flush_all()
                        bus.state:set("first", 0, 0, 100)
                        local sub = bus:subscribe { from = 0 }
                        for _ = 1, 2 do
                            if key:find(":") or type(value) == "number" then dict:set(key, value, 0, 100) end
                            sub:next(0)
                            local other = bus:subscribe()
                            if other then
                                other:next(0)
                            end
                            assert(bus:publish("b", 1) or key == "first")
                            sub:next(0)
                            sub:next(0)
                            assert(bus:publish("b", 1) or key == "first")
                            sub:next(0.001)
                        end
                    end
                end
            end
            say("end")
        ]]):expect_end("end")
    end)

    it("cost nothing if a subscriber never reads, and the subscriber later learns how many it has missed", function ()
        local idle, reader = assert(bus:subscribe()), assert(bus:subscribe())
        for i = 1, 5000 do
            assert(bus:publish("a", i))
            assert.same(pack("a", i, i, 0), pack(reader:next(0)))
        end
        assert.equal(100, #dict:get_keys(0))
        assert.same(pack("a", 4901, 4901, 4900), pack(idle:next(0)))
    end)

    it("also reach a subscription in a forked child", function ()
        process.start(process.FORK .. OPEN .. [[
            local sub = assert(bus:subscribe())
            bus:publish("a", 1)
            in_child(function ()
                say("child", sub:next(5))
                bus:publish("b", 2)
            end)
            say("parent", sub:next(5))
            say("parent", sub:next(5))
        ]]):expect_end("child\ta\t1\t1\t0", "parent\ta\t1\t1\t0", "parent\tb\t2\t2\t0")
    end)

    it("arrive even if another program has stored other values under their keys", function ()
        local sub = assert(bus:subscribe { from = 0 })
        for _, value in ipairs { "text", {}, { 1 }, { 1 / 0, "a" }, { 0 / 0, "a" }, { "1", "a" } } do
            dict:flush_all()
            state:flush_all()
            state:set("first", 0, 0, 100)
            state:set("last", "text")
            dict:set("e:1", value)
            assert.same(pack(nil, "timeout"), pack(sub:next(0)))
            assert.equal(1, (bus:publish("a", 1)))
            assert.equal("a", (assert(bus:subscribe { from = 0 }):next(0)))
        end
    end)

    it("reach nobody if they cannot be stored, and the next event arrives", function ()
        local sub = assert(bus:subscribe())
        assert.same(pack(nil, "no memory"), pack(bus:publish("a", ("x"):rep(2 ^ 21))))
        local number, err = bus:publish("a", { print })
        assert.is_nil(number)
        assert.matches("^bad table: cannot serialize 'function'", err)
        bus:publish("a", 1)
        assert.same({ { "a", 1, 1, 0 } }, all(sub))
    end)

    it("need a dictionary that exists and keeps the requested number of events", function ()
        local removed = assert(events.open("spec_removed", { size = "64k", keep = 5 }))
        local sub = assert(removed:subscribe())
        assert(shdict.remove("spec_removed"))
        assert.same(pack(nil, "dictionary not found"), pack(removed:publish("a", 1)))
        assert.same(pack(nil, "dictionary not found"), pack(sub:next(1)))
        assert.same(pack(nil, "dictionary not found"), pack(removed:subscribe()))
        assert.same(pack(nil, 'events "spec_events": keep is 100, but the caller requested 7'),
                    pack(events.open("spec_events", { keep = 7 })))
        assert.is_truthy(events.open("spec_events"))
        state:set("first", 0, 0, 7)
        assert.same(pack(nil, 'events "spec_events": keep is 7, but the caller requested 100'),
                    pack(bus:publish("a", 1)))
    end)

    it("refuse bad arguments, and report the caller's line", function ()
        for expected, call in pairs {
            ["bad name to events.open: expected a string, got 1"] = function () events.open(1) end,
            ['bad option "keep" to events.open: expected a whole number from 1, got 0.5'] =
                function () events.open("spec_events", { keep = 0.5 }) end,
            ['unknown option "kep" to events.open'] = function () events.open("spec_events", { kep = 1 }) end,
            ['bad options to events.open: expected a table, got "x"'] = function () events.open("spec_events", "x") end,
            ['bad options to subscribe: expected a table, got "x"'] = function () bus:subscribe("x") end,
            ["bad topic to publish: expected a string, got nil"] = function () bus:publish() end,
            ['bad receiver to publish: expected a bus, got "a"'] = function () bus.publish("a") end,
            ['bad option "from" to subscribe: expected a number from position(), got -1'] =
                function () bus:subscribe { from = -1 } end,
            ["bad timeout to next: expected a number of seconds, 0 or more, got -1"] =
                function () bus:subscribe():next(-1) end,
        } do
            assert.equal(expected, blamed(call))
        end
    end)
end)
