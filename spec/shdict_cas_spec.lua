-- Tests cas of resty.shdict, which stores a value only if the current value is the expected value.

local fixture, pack = require "spec.support" ("fixture", "pack")
local sleep = require("resty.holdfast.host.none").sleep


describe("shdict, cas", function ()
    local dict = fixture.dictionary("spec_dict")

    it("stores if the value equals old, whatever types old and new have", function ()
        local values = { 1, "1", true, false, "", "text", "a\0b", ("x"):rep(10000), -0.5, math.huge }
        for _, old in ipairs(values) do
            for _, new in ipairs(values) do
                dict:set("key", old)
                assert.same(pack(true, nil, false), pack(dict:cas("key", old, new)))
                assert.equal(new, dict:get("key"))
            end
        end
    end)

    it("changes nothing if the value differs, even only in its type", function ()
        for _, case in ipairs {
            { 1, 2 }, { 1, "1" }, { 1, true }, { true, false }, { "a", "b" }, { "a", "a\0" },
            { "12345678", "12345679" }, { "", false }, { ("x"):rep(9999), ("x"):rep(10000) },
        } do
            for _, pair in ipairs { case, { case[2], case[1] } } do
                dict:set("key", pair[1])
                assert.same(pack(false, "value differs", false), pack(dict:cas("key", pair[2], "new")))
                assert.equal(pair[1], dict:get("key"))
            end
        end
    end)

    it("returns an error if the key does not exist", function ()
        assert.same(pack(false, "not found", false), pack(dict:cas("key", 1, 2)))
        dict:set("key", 1, 0.01)
        sleep(0.02)
        assert.same(pack(false, "not found", false), pack(dict:cas("key", 1, 2)))
        assert.is_nil(dict:get("key"))
    end)

    it("with nil as old, stores only if there is no value", function ()
        assert.same(pack(true, nil, false), pack(dict:cas("key", nil, "first")))
        assert.same(pack(false, "exists", false), pack(dict:cas("key", nil, "second")))
        assert.equal("first", dict:get("key"))
    end)

    it("with nil as new, deletes the key", function ()
        dict:set("key", "old")
        assert.same(pack(false, "value differs", false), pack(dict:cas("key", "other", nil)))
        assert.same(pack(true, nil, false), pack(dict:cas("key", "old", nil)))
        assert.same({}, dict:get_keys())
        assert.same(pack(true, nil, false), pack(dict:cas("key", nil, nil)))
        dict:set("key", "old")
        assert.same(pack(false, "exists", false), pack(dict:cas("key", nil, nil)))
    end)

    it("accepts exptime and flags as set does, and does not compare flags", function ()
        dict:set("key", 1, 0, 5)
        assert.is_true((dict:cas("key", 1, 2, 100, 7)))
        assert.same(pack(2, 7), pack(dict:get("key")))
        assert.is_true(dict:ttl("key") > 90)
        assert.is_true((dict:cas("key", 2, 3)))
        assert.same(pack(3), pack(dict:get("key")))
        assert.equal(0, dict:ttl("key"))
        assert.is_true((dict:cas("key", 3, 4, 0.01)))
        sleep(0.02)
        assert.is_nil(dict:get("key"))
    end)

    it("refuses values that it cannot compare or store", function ()
        dict:set("key", 1)
        for _, bad in ipairs { {}, print, 5LL } do
            assert.same(pack(nil, "bad old value type: expected string, number, boolean or nil, got " .. type(bad)),
                        pack(dict:cas("key", bad, 1)))
            assert.same(pack(nil, "bad value type"), pack(dict:cas("key", 1, bad)))
        end
        local ok, err, forcible, why = dict:cas("key", 1, ("x"):rep(2 ^ 21))
        assert.same(pack(false, "no memory", false), pack(ok, err, forcible))
        assert.matches("^key and value are too large: ", why)
        assert.equal(1, dict:get("key"))
    end)
end)
