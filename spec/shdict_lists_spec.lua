-- Tests resty.shdict: lists.

local fixture, pack = require "spec.support" ("fixture", "pack")


describe("shdict, lists:", function ()
    local dict = fixture.dictionary("spec_dict")

    it("lpush adds at the head, rpush at the tail, and both return the length", function ()
        assert.same(pack(1), pack(dict:rpush("list", "b")))
        assert.same(pack(2), pack(dict:rpush("list", "c")))
        assert.same(pack(3), pack(dict:lpush("list", "a")))
        assert.same(pack("a"), pack(dict:lpop("list")))
        assert.same(pack("c"), pack(dict:rpop("list")))
        assert.same(pack("b"), pack(dict:rpop("list")))
    end)

    it("lpop and rpop return pushed values with the same type", function ()
        local values = { 0, -1.5, 1e300, "", "text", "a\0b\255", ("x"):rep(50000) }
        for _, value in ipairs(values) do
            dict:rpush("list", value)
        end
        for _, value in ipairs(values) do
            assert.same(pack(value), pack(dict:lpop("list")))
        end
    end)

    it("work as a queue from one end to the other, and as a stack at one end", function ()
        for i = 1, 100 do
            dict:lpush("queue", i)
            dict:lpush("stack", i)
        end
        for i = 1, 100 do
            assert.equal(i, dict:rpop("queue"))
            assert.equal(101 - i, dict:lpop("stack"))
        end
    end)

    it("llen returns the length, or 0 for a missing list", function ()
        assert.same(pack(0), pack(dict:llen("list")))
        dict:lpush("list", 1)
        dict:lpush("list", 2)
        assert.same(pack(2), pack(dict:llen("list")))
    end)

    it("are removed with the last element", function ()
        dict:lpush("list", 1)
        dict:lpop("list")
        assert.same(pack(nil), pack(dict:lpop("list")))
        assert.same(pack(nil), pack(dict:rpop("list")))
        assert.same({}, dict:get_keys())
        assert.is_true((dict:add("list", "a value now")))
    end)

    it("are not values, and values are not lists", function ()
        dict:rpush("list", 1)
        assert.same(pack(nil, "value is a list"), pack(dict:get("list")))
        assert.same(pack(nil, "value is a list"), pack(dict:get_stale("list")))
        assert.same(pack(nil, "not a number"), pack(dict:incr("list", 1)))
        dict:set("text", "text")
        dict:set("number", 1)
        for _, key in ipairs { "text", "number" } do
            assert.same(pack(nil, "value not a list"), pack(dict:lpush(key, 1)))
            assert.same(pack(nil, "value not a list"), pack(dict:rpush(key, 1)))
            assert.same(pack(nil, "value not a list"), pack(dict:lpop(key)))
            assert.same(pack(nil, "value not a list"), pack(dict:rpop(key)))
            assert.same(pack(nil, "value not a list"), pack(dict:llen(key)))
        end
        assert.equal("text", dict:get("text"))
    end)

    it("count as existing for add, replace, set, delete and get_keys", function ()
        dict:rpush("list", 1)
        assert.same(pack(false, "exists", false), pack(dict:add("list", 2)))
        assert.same({ "list" }, dict:get_keys())
        assert.is_true((dict:replace("list", "replaced")))
        assert.equal("replaced", dict:get("list"))
        dict:delete("list")
        dict:rpush("list", 1)
        assert.is_true((dict:set("list", "set")))
        assert.equal("set", dict:get("list"))
        dict:delete("list")
        dict:rpush("list", 1)
        assert.is_true((dict:delete("list")))
        assert.equal(0, dict:llen("list"))
    end)

    it("accept only numbers and strings", function ()
        for _, value in ipairs { true, false, {}, print, 5LL } do
            assert.same(pack(nil, "bad value type"), pack(dict:lpush("list", value)))
            assert.same(pack(nil, "bad value type"), pack(dict:rpush("list", value)))
        end
        assert.same(pack(nil, "bad value type"), pack(dict:lpush("list", nil)))
        assert.equal(0, dict:llen("list"))
    end)

    it("report a lack of memory, and lose nothing", function ()
        dict:set("other", 1)
        local length, err = 0, nil
        while not err and length < 100000 do
            local now
            now, err = dict:rpush("list", ("x"):rep(1000))
            length = now or length
        end
        assert.equal("no memory", err)
        assert.equal(length, dict:llen("list"))
        assert.equal(1, dict:get("other"))
        local none, why, sentence = dict:lpush("another", ("x"):rep(2 ^ 21))
        assert.same(pack(nil, "no memory"), pack(none, why))
        assert.matches("^key and value are too large: ", sentence)
        assert.equal(("x"):rep(1000), dict:lpop("list"))
        assert.equal(length, dict:rpush("list", ("x"):rep(1000)))
    end)
end)
