local core = require "resty.holdfast.core"
local shdict = require "resty.shdict"



describe("shdict, bad input", function ()
    local dict

    before_each(function ()
        dict = assert(shdict.open("spec_dict", { size = "1m" }))
        dict:flush_all()
    end)


    describe("bad input", function ()
        local METHODS = {
            "get", "get_stale", "set", "safe_set", "add", "safe_add", "replace", "delete", "cas", "incr", "ttl",
            "expire", "lpush", "rpush", "lpop", "rpop", "llen",
        }
        local STORES = { "set", "safe_set", "add", "safe_add", "replace" }

        it("is refused as a key by every method", function ()
            for _, method in ipairs(METHODS) do
                assert.same({ nil, "nil key" }, { dict[method](dict, nil, 1) }, method)
                assert.same({ nil, "empty key" }, { dict[method](dict, "", 1) }, method)
                assert.same({ nil, "key too long" }, { dict[method](dict, ("x"):rep(65536), 1) }, method)
                assert.same({ nil, "bad key type" }, { dict[method](dict, {}, 1) }, method)
                assert.same({ nil, "bad key type" }, { dict[method](dict, print, 1) }, method)
            end
        end)

        it("is refused as a value and changes nothing", function ()
            dict:set("key", 1)
            for _, value in ipairs { {}, print, coroutine.create(print), 5LL } do
                for _, method in ipairs(STORES) do
                    assert.same({ nil, "bad value type" }, { dict[method](dict, "key", value) })
                end
            end
            assert.equal(1, dict:get("key"))
        end)

        it("is refused as exptime, at the line that called", function ()
            for _, exptime in ipairs { -1, 0 / 0, math.huge, "1", {}, -0.001 } do
                for _, method in ipairs { "expire", unpack(STORES) } do
                    local ok, err = pcall(function ()
                        local result = dict[method](dict, "key", method == "expire" and exptime or 1, exptime)
                        return result
                    end)
                    assert.is_false(ok)
                    assert.matches('^[^:]*shdict_%w+_spec.lua:%d+: bad "exptime" argument: a finite number ' ..
                                   "of seconds, 0 or more, expected, got ", err)
                    assert.matches(core.describe(exptime), err, 1, true)
                end
                assert.has_error(function () dict:cas("key", 1, 1, exptime) end,
                                 'bad "exptime" argument: a finite number of seconds, 0 or more, expected, got ' ..
                                 core.describe(exptime))
            end
        end)

        it("is refused as flags", function ()
            for _, flags in ipairs { -1, 1.5, 0 / 0, 4294967296, "1" } do
                assert.has_error(function () dict:set("key", 1, 0, flags) end,
                                 'bad "flags" argument: a whole number, 0 to 4294967295, expected, got ' ..
                                 core.describe(flags))
                assert.has_error(function () dict:cas("key", 1, 1, 0, flags) end,
                                 'bad "flags" argument: a whole number, 0 to 4294967295, expected, got ' ..
                                 core.describe(flags))
            end
        end)

        it("is refused as numbers of incr with the words of the original", function ()
            local function message(...)
                local ok, err = pcall(dict.incr, dict, "key", ...)
                assert.is_false(ok)
                return err
            end
            assert.equal("bad value arg: number expected, got string", message("bar"))
            assert.equal("bad value arg: number expected, got nil", message())
            assert.equal("bad init arg: number expected, got string", message(1, "bar"))
            assert.equal("bad init_ttl arg: number expected, got string", message(1, 0, "bar"))
            local start = 'bad "init_ttl" argument: a finite number of seconds, 0 or more, expected, got '
            assert.equal(start .. "-1", message(1, 0, -1))
            assert.equal(start .. core.describe(0 / 0), message(1, 0, 0 / 0))
            assert.equal('must provide "init" when providing "init_ttl"', message(1, nil, 0.01))
        end)

        it("is refused as max_count", function ()
            for _, count in ipairs { -1, 0.5, 0 / 0, "1" } do
                assert.has_error(function () dict:get_keys(count) end,
                                 'bad "max_count" argument: a whole number, 0 to 4294967295, expected, got ' ..
                                 core.describe(count))
                assert.has_error(function () dict:flush_expired(count) end,
                                 'bad "max_count" argument: a whole number, 0 to 4294967295, expected, got ' ..
                                 core.describe(count))
            end
        end)

        it("is refused as receiver by every method", function ()
            local null = require("ffi").new("void *")
            for name, method in pairs(getmetatable(dict).__index) do
                if type(method) == "function" then
                    for _, zone in ipairs { "dict", 1, {}, { 1 }, { io.stdout }, { null } } do
                        local ok, err = pcall(method, zone, "key", 1)
                        assert.is_false(ok, name)
                        assert.equal('bad "zone" argument: a dictionary expected, got ' .. core.describe(zone) ..
                                     "; call it as dict:" .. name .. "(...)", err)
                    end
                    assert.is_false((pcall(method)))
                end
            end
        end)

        it("names the line of the caller", function ()
            local ok, err = pcall(function ()
                local result = dict.set("key", 1)
                return result
            end)
            assert.is_false(ok)
            assert.matches('^[^:]*shdict_%w+_spec.lua:%d+: bad "zone" argument: ', err)
        end)
    end)
end)
