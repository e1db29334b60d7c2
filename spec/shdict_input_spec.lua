-- Tests dictionary/checks.lua.

local blamed = require("spec.support.expect").blamed
local core = require "resty.holdfast.core"
local fixture = require "spec.support.fixture"


describe("shdict, bad input", function ()
    local dict = fixture.dictionary("spec_dict")

    describe("bad input", function ()
        local METHODS = {
            "get", "get_stale", "set", "safe_set", "add", "safe_add", "replace", "delete", "cas", "incr", "ttl",
            "expire", "lpush", "rpush", "lpop", "rpop", "llen", "version", "get_changed", "set_unless_changed", "wait",
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

        it("is refused as a value, and nothing changes", function ()
            dict:set("key", 1)
            for _, value in ipairs { {}, print, coroutine.create(print), 5LL } do
                for _, method in ipairs(STORES) do
                    assert.same({ nil, "bad value type" }, { dict[method](dict, "key", value) })
                end
            end
            assert.equal(1, dict:get("key"))
        end)

        it("is refused as exptime, and the error reports the caller's line", function ()
            local function check(method, exptime)
                local ok, err = pcall(function ()
                    local result = dict[method](dict, "key", method == "expire" and exptime or 1, exptime)
                    return result
                end)
                assert.is_false(ok, method)
                assert.matches('^[^:]*shdict_%w+_spec.lua:%d+: bad "exptime" argument: expected a number of ' ..
                               "seconds, 0 or more, got ", err)
                assert.matches(core.describe(exptime), err, 1, true)
            end
            for _, method in ipairs(STORES) do
                for _, exptime in ipairs { -1, -0.001, -math.huge, "1", {}, true } do
                    check(method, exptime)
                end
            end
            for _, exptime in ipairs { "x", {}, true } do
                check("expire", exptime)
            end
            for _, exptime in ipairs { -1, 0 / 0, math.huge, "1", {} } do
                assert.has_error(function () dict:cas("key", 1, 1, exptime) end,
                                 'bad "exptime" argument: expected a number of seconds, 0 or more, got ' ..
                                 core.describe(exptime))
            end
        end)

        it("is refused as flags", function ()
            for _, flags in ipairs { "1", {}, print } do
                assert.has_error(function () dict:set("key", 1, 0, flags) end,
                                 'bad "flags" argument: expected a number, got ' .. core.describe(flags))
            end
            for _, flags in ipairs { -1, 1.5, 0 / 0, 4294967296, "1" } do
                assert.has_error(function () dict:cas("key", 1, 1, 0, flags) end,
                                 'bad "flags" argument: expected a whole number from 0 to 4294967295, got ' ..
                                 core.describe(flags))
            end
        end)

        it("is refused as an argument of incr, with ngx.shared's message", function ()
            local function message(...)
                local ok, err = pcall(dict.incr, dict, "key", ...)
                assert.is_false(ok)
                return err
            end
            assert.equal("bad value arg: number expected, got string", message("bar"))
            assert.equal("bad value arg: number expected, got nil", message())
            assert.equal("bad init arg: number expected, got string", message(1, "bar"))
            assert.equal("bad init_ttl arg: number expected, got string", message(1, 0, "bar"))
            local start = 'bad "init_ttl" argument: expected a number of seconds, 0 or more, got '
            assert.equal(start .. "-1", message(1, 0, -1))
            assert.equal('must provide "init" when providing "init_ttl"', message(1, nil, 0.01))
        end)

        it("is refused as max_count", function ()
            for _, count in ipairs { "x", {}, true, print } do
                for _, method in ipairs { "get_keys", "flush_expired" } do
                    local message = blamed(function () dict[method](dict, count) end)
                    assert.equal('bad "max_count" argument: expected a number, got ' .. core.describe(count), message)
                end
            end
        end)

        it("is refused as receiver by every method", function ()
            local null = require("ffi").new("void *")
            for name, method in pairs(getmetatable(dict).__index) do
                if type(method) == "function" then
                    for _, zone in ipairs { "dict", 1, {}, { 1 }, { io.stdout }, { null } } do
                        local blame = 'bad "zone" argument: expected a dictionary, got ' .. core.describe(zone) ..
                                      "; call it as dict:" .. name .. "(...)"
                        -- The arguments are also bad, because the receiver must be checked first.
                        for _, arguments in ipairs { { "key" }, { "key", 1 }, { {}, {}, {}, {}, {} },
                                                     { "key", 1, {} }, { "key", 1, 0, {} }, { "key", 1, -1 },
                                                     { "key", 1, 1, -1 } } do
                            assert.same({ false, blame }, { pcall(method, zone, unpack(arguments)) })
                        end
                    end
                    assert.is_false((pcall(method)))
                end
            end
        end)

        -- ngx.shared also accepts numbers that are probably mistakes.
        it("is accepted if ngx.shared accepts it", function ()
            for _, never in ipairs { math.huge, 0 / 0, 1e300, 0LL } do
                assert.is_true((dict:set("key", 1, never)))
                assert.equal(0, dict:ttl("key"))
            end
            for _, never in ipairs { math.huge, 0 / 0, -1, "-1" } do
                assert.is_true((dict:expire("key", never)))
                assert.equal(0, dict:ttl("key"))
            end
            dict:delete("key")
            assert.equal(1, dict:incr("key", 1, 0, math.huge))
            assert.equal(0, dict:ttl("key"))
            assert.is_true((dict:set("key", 1, 100LL)))
            assert.is_true(dict:ttl("key") > 90)
            assert.is_true((dict:expire("key", "1000")))
            assert.is_true(dict:ttl("key") > 900)
            for given, expected in pairs { [-1] = 4294967295, [1.5] = 1, [-1.5] = 4294967295, [2 ^ 32 + 7] = 7 } do
                assert.is_true((dict:set("key", 1, 0, given)))
                assert.equal(expected, (select(2, dict:get("key"))))
            end
            dict:set("other", 1)
            for _, all in ipairs { -1, 0, 0.5, 0 / 0, "-1" } do
                assert.equal(2, #dict:get_keys(all))
            end
            assert.equal(1, #dict:get_keys("1"))
            dict:flush_expired()
            dict:flush_all()
            assert.equal(2, dict:flush_expired(-1))
        end)
    end)
end)
