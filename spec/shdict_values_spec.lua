-- Tests the values of resty.shdict, their times to live, and what happens when there is no room for them.

local fixture, pack = require "spec.support" ("fixture", "pack")
local sleep = require("resty.holdfast.host.none").sleep


describe("shdict, values:", function ()
    local dict = fixture.dictionary("spec_dict")

    describe("set and get", function ()
        it("return the stored value, with the same type", function ()
            for _, value in ipairs { true, false, 0, 10, -1.5, 1e300, "", "text", "a\0b\255", ("x"):rep(50000) } do
                assert.same(pack(true, nil, false), pack(dict:set("key", value)))
                assert.same(pack(value), pack(dict:get("key")))
            end
        end)

        it("keep not-a-number and the infinities", function ()
            dict:set("nan", 0 / 0)
            local nan = dict:get("nan")
            assert.is_true(nan ~= nan)
            dict:set("huge", -math.huge)
            assert.equal(-math.huge, dict:get("huge"))
        end)

        it("return nil for missing keys", function ()
            assert.same(pack(nil), pack(dict:get("nothing")))
        end)

        it("delete the key if the value is nil", function ()
            dict:set("key", 1)
            assert.same(pack(true, nil, false), pack(dict:set("key", nil)))
            assert.is_nil(dict:get("key"))
        end)

        it("keep user flags and omit them when they are 0", function ()
            dict:set("key", "value", 0, 4294967295)
            assert.same(pack("value", 4294967295), pack(dict:get("key")))
            dict:set("key", "value", 0, 0)
            assert.same(pack("value"), pack(dict:get("key")))
        end)

        it("read strings that are longer than any earlier string", function ()
            for power = 0, 17 do
                local value = ("v"):rep(2 ^ power)
                assert.is_true(dict:set("key", value))
                assert.equal(value, dict:get("key"))
            end
        end)
    end)

    describe("get_stale", function ()
        it("returns the results of get, and a third result, for values that have not expired", function ()
            dict:set("text", "text", 100)
            dict:set("flags", false, 0, 7)
            assert.same(pack("text", nil, false), pack(dict:get_stale("text")))
            assert.same(pack(false, 7, false), pack(dict:get_stale("flags")))
            assert.same(pack(nil), pack(dict:get_stale("nothing")))
        end)

        it("returns expired and flushed values while they exist", function ()
            local long = ("x"):rep(100000)
            dict:set("expires", 1, 0.01, 7)
            dict:set("long", long, 0.01)
            dict:set("flushed", "text")
            sleep(0.02)
            assert.same(pack(nil), pack(dict:get("expires")))
            assert.same(pack(1, 7, true), pack(dict:get_stale("expires")))
            assert.same(pack(long, nil, true), pack(dict:get_stale("long")))
            dict:flush_all()
            assert.same(pack("text", nil, true), pack(dict:get_stale("flushed")))
            dict:flush_expired()
            assert.same(pack(nil), pack(dict:get_stale("flushed")))
        end)

        it("does not return deleted or replaced values", function ()
            dict:set("deleted", 1)
            dict:delete("deleted")
            assert.same(pack(nil), pack(dict:get_stale("deleted")))
            dict:set("replaced", 1, 0.01)
            sleep(0.02)
            dict:set("replaced", 2)
            assert.same(pack(2, nil, false), pack(dict:get_stale("replaced")))
        end)
    end)

    describe("safe_set and safe_add", function ()
        it("work like set and add while there is room", function ()
            assert.same(pack(true, nil, false), pack(dict:safe_set("key", 1, 100, 7)))
            assert.same(pack(1, 7), pack(dict:get("key")))
            assert.is_true(dict:ttl("key") > 90)
            assert.same(pack(false, "exists", false), pack(dict:safe_add("key", 2)))
            assert.same(pack(true, nil, false), pack(dict:safe_set("key", nil)))
            assert.is_nil(dict:get("key"))
            assert.same(pack(true, nil, false), pack(dict:safe_add("key", 3)))
            assert.same(pack(false, "attempt to add or replace nil values", false), pack(dict:safe_add("new", nil)))
        end)
    end)

    describe("a full dictionary", function ()
        it("makes room by evicting live entries, and reports this", function ()
            local forced = 0
            for i = 1, 5000 do
                local ok, err, forcible = dict:set("key " .. i, ("x"):rep(1000))
                assert.same(pack(true, nil), pack(ok, err))
                forced = forced + (forcible and 1 or 0)
            end
            assert.is_true(forced > 0)
            assert.is_true(dict:stats().evictions >= forced)
            assert.equal(("x"):rep(1000), dict:get("key 5000"))
            local sum, err, forcible
            for i = 1, 20000 do
                sum, err, forcible = dict:incr("counter " .. i, 1, 41)
                assert.same(pack(42, nil), pack(sum, err))
                if forcible then
                    break
                end
            end
            assert.is_true(forcible)
        end)
    end)

    describe("add and replace", function ()
        it("add only if there is no value", function ()
            assert.same(pack(true, nil, false), pack(dict:add("key", 1)))
            assert.same(pack(false, "exists", false), pack(dict:add("key", 2)))
            assert.equal(1, dict:get("key"))
        end)

        it("replace only if there is a value", function ()
            assert.same(pack(false, "not found", false), pack(dict:replace("key", 1)))
            dict:set("key", 1)
            assert.same(pack(true, nil, false), pack(dict:replace("key", 2)))
            assert.equal(2, dict:get("key"))
        end)

        it("refuse nil", function ()
            assert.same(pack(false, "attempt to add or replace nil values", false), pack(dict:add("key", nil)))
            assert.same(pack(false, "attempt to add or replace nil values", false), pack(dict:replace("key", nil)))
        end)
    end)

    it("delete returns true with or without a value", function ()
        dict:set("key", 1)
        assert.is_true((dict:delete("key")))
        assert.is_true((dict:delete("key")))
        assert.is_nil(dict:get("key"))
    end)

    describe("incr", function ()
        it("adds to a number, even a negative or fractional amount", function ()
            dict:set("key", 32)
            assert.same(pack(42), pack(dict:incr("key", 10)))
            assert.same(pack(41.5), pack(dict:incr("key", -0.5)))
        end)

        it("accepts a number in a string, as ngx.shared does", function ()
            dict:set("key", 1)
            assert.equal(3, (dict:incr("key", "2")))
        end)

        it("starts from init if there is no value", function ()
            assert.same(pack(nil, "not found"), pack(dict:incr("key", 1)))
            assert.same(pack(20, nil, false), pack(dict:incr("key", 10, 10)))
            assert.same(pack(30, nil, false), pack(dict:incr("key", 10, 10)))
        end)

        it("gives init_ttl to a new value, but not to an existing value", function ()
            dict:incr("new", 1, 0, 0.01)
            dict:set("old", 1)
            dict:incr("old", 1, 0, 0.01)
            sleep(0.02)
            assert.is_nil(dict:get("new"))
            assert.equal(2, dict:get("old"))
        end)

        it("refuses values that are not numbers", function ()
            dict:set("key", "1")
            assert.same(pack(nil, "not a number"), pack(dict:incr("key", 1)))
        end)

        it("keeps the flags and the time to live", function ()
            dict:set("key", 1, 100, 7)
            dict:incr("key", 1)
            assert.same(pack(2, 7), pack(dict:get("key")))
            assert.is_true(dict:ttl("key") > 90)
        end)
    end)

    describe("ttl and expire", function ()
        it("return and change a value's time to live", function ()
            dict:set("key", 1)
            assert.equal(0, dict:ttl("key"))
            assert.is_true(dict:expire("key", 100))
            local left = dict:ttl("key")
            assert.is_true(left > 90 and left <= 100, left)
            assert.is_true(dict:expire("key", 0))
            assert.equal(0, dict:ttl("key"))
        end)

        it("return an error for missing and flushed values", function ()
            for _, key in ipairs { "never there", "flushed" } do
                dict:set("flushed", 1, 100)
                dict:flush_all()
                assert.same(pack(nil, "not found"), pack(dict:ttl(key)))
                assert.same(pack(nil, "not found"), pack(dict:expire(key, 1)))
            end
        end)
    end)

    it("refuses a value that can never fit, and loses nothing", function ()
        dict:set("other", 1)
        dict:set("key", 2)
        local ok, err, forcible, why = dict:set("key", ("x"):rep(2 * 1048576))
        assert.same(pack(false, "no memory", false), pack(ok, err, forcible))
        assert.matches("^key and value are too large: a dictionary of %d+ bytes takes at most %d+ for both", why)
        assert.equal(1, dict:get("other"))
        assert.equal(2, dict:get("key"))
    end)
end)
