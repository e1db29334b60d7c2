-- Tests the methods of dictionaries with versions: version, get_changed, set_unless_changed and wait.

local fixture, pack, process = require "spec.support" ("fixture", "pack", "process")
local shdict = require "resty.shdict"
local sleep = require("resty.holdfast.host.none").sleep

local OPEN = [[
    local shdict = require "resty.shdict"
    local dict = assert(shdict.open("spec_versions", { size = "1m", versions = true, tables = true }))
]]


describe("shdict, versions", function ()
    local dict = fixture.dictionary("spec_versions", { size = "1m", versions = true, tables = true })

    local function is_changed_by(change)
        local before = assert(dict:version("key"))
        change()
        local after = assert(dict:version("key"))
        assert.is_true(after >= before)
        return after > before
    end

    it("a version changes with every change of the value, its type, its flags or its exptime", function ()
        for i, change in ipairs {
            function () dict:set("key", 1) end,
            function () dict:set("key", 2) end,
            function () dict:set("key", 2) end,
            function () dict:set("key", 2, 0, 7) end,
            function () dict:set("key", 2, 100) end,
            function () dict:incr("key", 1) end,
            function () dict:expire("key", 50) end,
            function () dict:set("key", "text") end,
            function () dict:set("key", "word") end,
            function () dict:replace("key", true) end,
            function () dict:cas("key", true, { 1 }) end,
            function () dict:delete("key") end,
            function () dict:add("key", 1) end,
            function () dict:set("key", nil) end,
            function () dict:incr("key", 1, 0) end,
            function () dict:flush_all() end,
            function () dict:rpush("key", 1) end,
            function () dict:lpush("key", 2) end,
            function () dict:rpop("key") end,
            function () dict:lpop("key") end,
        } do
            assert.is_true(is_changed_by(change), "change " .. i)
        end
    end)

    it("a version stays the same if nothing has changed", function ()
        local lock = assert(require("resty.lock"):new("spec_versions"))
        dict:set("key", 1)
        for i, call in ipairs {
            function () dict:get("key") end,
            function () dict:get_changed("key") end,
            function () dict:add("key", 1) end,
            function () dict:cas("key", 2, 3) end,
            function () dict:replace("other", 1) end,
            function () dict:lpush("key", 1) end,
            function () dict:ttl("key") end,
            function () assert(lock:lock("a lock")); assert(lock:unlock()) end,
        } do
            assert.is_false(is_changed_by(call), "call " .. i)
        end
    end)

    it("an expiry does not change the version", function ()
        dict:set("key", 1, 0.01)
        assert.is_false(is_changed_by(function ()
            sleep(0.03)
            assert.is_nil(dict:get("key"))
        end))
    end)

    it("a version is printed and compared like a plain number", function ()
        local version = dict:version("key")
        assert.is_number(version)
        assert.equal(("%.0f"):format(version), tostring(version))
        assert.is_true(version > 0 and version < 2 ^ 53)
    end)

    it("get_changed returns the value with its version, and returns it only once", function ()
        assert.same(pack(nil, nil, dict:version("key")), pack(dict:get_changed("key")))
        dict:set("key", "text", 0, 3)
        local value, flags, version = dict:get_changed("key")
        assert.same({ "text", 3, dict:version("key") }, { value, flags, version })
        assert.same(pack(nil, "unchanged", version), pack(dict:get_changed("key", version)))
        local long = ("x"):rep(100000)
        dict:set("key", long)
        value, flags, version = dict:get_changed("key", version)
        assert.same(pack(long, nil, dict:version("key")), pack(value, flags, version))
        dict:set("key", { x = { 1 } })
        assert.same({ x = { 1 } }, (dict:get_changed("key", version)))
        dict:delete("key")
        dict:rpush("key", 1)
        assert.same(pack(nil, "value is a list"), pack(dict:get_changed("key")))
    end)

    it("set_unless_changed stores only if nobody has changed the value, and returns the new version", function ()
        local version = dict:version("key")
        local mine, err, forcible = dict:set_unless_changed("key", version, 1, 100, 7)
        assert.same({ dict:version("key"), nil, false }, { mine, err, forcible })
        assert.same({ 1, 7 }, { dict:get("key") })
        assert.is_true(dict:ttl("key") > 90)
        assert.same(pack(nil, "changed", false), pack(dict:set_unless_changed("key", version, 2)))
        assert.equal(1, (dict:get("key")))
        mine = assert(dict:set_unless_changed("key", mine, { "table" }))
        assert.same({ "table" }, (dict:get("key")))
        mine = assert(dict:set_unless_changed("key", mine, nil))
        assert.is_nil((dict:get("key")))
        assert.same(pack(nil, "unchanged", mine), pack(dict:get_changed("key", mine)))
        local _, too_large, _, why = dict:set_unless_changed("key", mine, ("x"):rep(2 ^ 21))
        assert.equal("no memory", too_large)
        assert.matches("too large", why, 1, true)
        assert.same(pack(nil, "bad value type"), pack(dict:set_unless_changed("key", mine, print)))
    end)

    it("counts every increment of four processes that use set_unless_changed", function ()
        local work = OPEN .. [[
            for _ = 1, 1000 do
                local sum, _, version
                repeat
                    sum, _, version = dict:get_changed("sum")
                until dict:set_unless_changed("sum", version, (sum or 0) + 1)
            end
        ]]
        process.run_together { work, work, work, work }
        assert.equal(4000, (dict:get("sum")))
    end)

    it("wait returns the new version at once if the value has already changed", function ()
        local version = dict:version("key")
        dict:set("key", 1)
        assert.equal(dict:version("key"), (dict:wait("key", version)))
        assert.equal(dict:version("key"), (dict:wait("key", 0, 0)))
    end)

    it("wait gives up after its timeout", function ()
        local version = dict:version("key")
        assert.same(pack(nil, "timeout"), pack(dict:wait("key", version, 0)))
        assert.same(pack(nil, "timeout"), pack(dict:wait("key", version, 0.02)))
    end)

    for what, change in pairs {
        ["a set"] = 'dict:set("key", 2)', ["a delete"] = 'dict:delete("key")', ["a push"] = 'dict:rpush("list", 1)',
        ["an increment"] = 'dict:incr("key", 1)', ["a new exptime"] = 'dict:expire("key", 100)',
        ["a flush"] = "dict:flush_all()",
    } do
        it("wait ends with " .. what .. " by another process", function ()
            dict:set("key", 1)
            dict:set("list", nil)
            local key = what == "a push" and "list" or "key"
            local child = process.start(OPEN .. [[
                local version = dict:version("]] .. key .. [[")
                say("waits")
                local new, err = dict:wait("]] .. key .. [[", version, 20)
                say(new and new == dict:version("]] .. key .. [["), err)
            ]])
            child:expect("waits")
            sleep(0.02)
            assert(loadstring("local dict = ...; " .. change))(dict)
            child:expect_end("true\tnil")
        end)
    end

    it("wait ends for every process that waits", function ()
        local waiters = {}
        for i = 1, 4 do
            waiters[i] = process.start(OPEN .. [[
                local version = dict:version("key")
                say("waits")
                say((dict:wait("key", version, 20)) ~= nil)
            ]])
            waiters[i]:expect("waits")
        end
        sleep(0.02)
        dict:set("key", 1)
        for _, waiter in ipairs(waiters) do
            waiter:expect_end("true")
        end
    end)

    it("a waiter does not miss any of a thousand changes that two processes make in turn", function ()
        local child = process.start(OPEN .. [[
            local version = dict:version("ping")
            say("begins")
            for i = 1, 1000 do
                version = assert(dict:wait("ping", version, 20))
                dict:set("pong", i)
            end
            say("ends")
        ]])
        child:expect("begins")
        local version = dict:version("pong")
        for i = 1, 1000 do
            dict:set("ping", i)
            version = assert(dict:wait("pong", version, 20))
            assert.equal(i, (dict:get("pong")))
        end
        child:expect("ends")
    end)

    it("wait ends with an error if the dictionary is removed", function ()
        local removed = assert(shdict.open("spec_versions_removed", { size = "64k", versions = true }))
        local child = process.start [[
            local shdict = require "resty.shdict"
            local dict = assert(shdict.open("spec_versions_removed", { size = "64k", versions = true }))
            local version = dict:version("key")
            say("waits")
            say(dict:wait("key", version, 20))
        ]]
        child:expect("waits")
        sleep(0.02)
        shdict.remove("spec_versions_removed")
        child:expect_end("nil\tdictionary not found")
        assert.same({ nil, "dictionary not found" }, { removed:version("key") })
        assert.same({ nil, "dictionary not found" }, { removed:get_changed("key") })
        assert.same({ nil, "dictionary not found" }, { removed:wait("key", 1, 1) })
    end)

    it("a dictionary that was opened without versions returns an error that says so", function ()
        local plain = assert(shdict.open("spec_plain", { size = "64k" }))
        for _, call in ipairs {
            function () return plain:version("key") end,
            function () return plain:get_changed("key") end,
            function () return plain:set_unless_changed("key", 1, 1) end,
            function () return plain:wait("key", 1) end,
        } do
            local result, err = call()
            assert.is_nil(result)
            assert.equal("the dictionary has no versions; open it with the option versions", err)
        end
        local _, err = shdict.open("spec_plain", { size = "64k", versions = true })
        assert.matches("exists with size 65536 and mutex futex, but the caller requested size 65536 and mutex futex "
                       .. "and versions", err, 1, true)
        assert.equal(dict, (shdict.open("spec_versions", { size = "1m" })))
    end)

    it("bad arguments are refused, and the error reports the caller's line", function ()
        for _, version in ipairs { -1, 0 / 0, "1", {}, 2 ^ 53 } do
            assert.has_error(function () dict:wait("key", version) end,
                             'bad "version" argument: expected a number from dict:version(), got '
                             .. require("resty.holdfast.core").describe(version))
            assert.has_error(function () dict:set_unless_changed("key", version, 1) end)
            assert.has_error(function () dict:get_changed("key", version) end)
        end
        assert.has_error(function () dict:wait("key") end)
        assert.has_error(function () dict:wait("key", 1, -1) end,
                         'bad "timeout" argument: expected a number of seconds, 0 or more, got -1')
        assert.has_error(function () dict:set_unless_changed("key", 1, 1, -1) end)
        assert.has_error(function () shdict.open("spec_versions", { versions = 1 }) end,
                         'bad option "versions" to open: expected a boolean, got number')
    end)
end)
