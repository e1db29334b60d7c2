-- Tests lock/acquire.lua, lock/contended.lua and lock/held_lock.lua: the behaviour that resty.lock, resty.rwlock and
-- resty.semaphore share.

local expect, fixture, pack, primitives, process, tasks =
    require "spec.support" ("expect", "fixture", "pack", "primitives", "process", "tasks")
local hosts = require "resty.holdfast.host"
local none = require "resty.holdfast.host.none"
local shdict = require "resty.shdict"

-- The functions of a module that are not methods of its objects.
local NO_METHODS = { all = true, new = true, ref_obj = true, unref_obj = true }

-- The methods that take a key, and the methods that only a holder calls, except the one that releases the key.
local KEYED = {
    lock = { "lock", "trylock", "wait", "holder", "holders", "waiters" },
    rwlock = { "rdlock", "wrlock", "tryrdlock", "trywrlock", "holder", "holders", "waiters" },
    semaphore = { "wait", "post", "count", "holder", "holders", "waiters" },
}
-- The methods that describe a key and take nothing.
local LOOKS = { holder = true, holders = true, waiters = true, count = true }
local HELD = {
    lock = { "expire", "remaining" },
    rwlock = { "downgrade", "expire", "remaining", "upgrade" },
    semaphore = {},
}

-- The calls that a forked child makes on its parent's object, and their results.
local ASKED_IN_CHILD = {
    lock = {
        [[say(mine:valid(), select(2, mine:expire(100)), select(2, mine:remaining()), select(2, mine:hand_over()))]],
        "false\tnot owner\tnot owner\tnot owner",
    },
    rwlock = {
        [[say(mine:valid(), select(2, mine:expire(100)), select(2, mine:remaining()), select(2, mine:downgrade()),
              select(2, mine:upgrade()))]],
        "false\tnot owner\tnot owner\tnot owner\tnot owner",
    },
    semaphore = { [[say(mine:count("key"))]], "0\t0" },
}


local function take_share(rwlock)
    return rwlock:rdlock("key")
end


for _, name in ipairs(primitives.names) do
    local new, take, give = primitives.functions(name, "spec_primitives")
    local module = require("resty." .. name)
    local called = name == "semaphore" and "a semaphore" or "a lock object"

    describe("a " .. name, function ()
        local dict = fixture.locks(module, "spec_primitives")

        it("is created only for a dictionary, which is given by name or as an object", function ()
            local options = name == "semaphore" and { permits = 1 } or nil
            assert.truthy(take(module:new("spec_primitives", options), "by name"))
            assert.truthy(take(module:new(dict, options), "by itself"))
            for _, other in ipairs { "spec_nothing", 1, {}, { {} }, true } do
                assert.same(pack(nil, "dictionary not found"), pack(module:new(other, options)))
            end
            assert.same(pack(nil, "dictionary not found"), pack(module:new(nil, options)))
        end)

        for _, way in ipairs { "wake", "poll" } do
            it("waits by " .. way .. " in the scheduler, without a host, and in a host that only sleeps", function ()
                local function wait_by(enter)
                    expect.in_time(function ()
                        local first, second = new { exptime = 0.05 }, new { wait = way }
                        assert(take(first))
                        local is_held = select(2, enter(new { timeout = 0 })) == "timeout"
                        assert.truthy(enter(second))
                        assert.truthy(give(second))
                        assert.same(pack(nil, "not owner"), pack(give(first)))
                        return is_held
                    end)
                end
                for _, enter in ipairs { take, module.rdlock and take_share } do
                    tasks.run(function () wait_by(enter) end)
                    wait_by(enter)
                    hosts.set_host { name = "sleepy", sleep = none.sleep }
                    wait_by(enter)
                    hosts.set_host(nil)
                end
            end)
        end

        for _, method in ipairs(KEYED[name]) do
            it("accepts the same keys everywhere: " .. method, function ()
                local object = new { timeout = 0 }
                local function answer(key)
                    return pack(object[method](object, key))
                end
                assert.same(pack(nil, "nil key"), answer(nil))
                assert.same(pack(nil, "empty key"), answer(""))
                assert.same(pack(nil, "key too long"), answer(("k"):rep(65536)))
                assert.same(pack(nil, "bad key type"), answer({}))
                assert.same(pack(nil, "bad key type"), answer(print))
                assert.truthy(take(object, 12))
                assert.same({ nil, "timeout" }, { take(new { timeout = 0 }, "12") })
                assert.truthy(give(object, "12"))
                if name == "lock" then
                    assert.same(pack(nil, "nil key"), answer(false))  -- as in lua-resty-lock
                else
                    local other = new { timeout = 0 }
                    assert.truthy(take(other, "false"))
                    local found, err = object[method](object, false)
                    assert.not_equal("nil key", err)
                    assert.equal(LOOKS[method] or nil, found and true)
                    assert.truthy(give(other, "false"))
                end
            end)
        end

        it("reports that its dictionary was removed", function ()
            assert(shdict.open("spec_removed", { size = "64k" }))
            local new_there = primitives.functions(name, "spec_removed")
            local object, other = new_there(), new_there()
            assert(take(object))
            shdict.remove("spec_removed")
            local late = assert(module:new(object.dict, name == "semaphore" and { permits = 1 } or nil))
            assert.same({ nil, "dictionary not found" }, { take(late) })
            for _, method in ipairs(KEYED[name]) do
                if method ~= "post" then
                    assert.same(pack(nil, "dictionary not found"), pack(other[method](other, "key")), method)
                end
            end
            for _, method in ipairs(HELD[name]) do
                assert.same(pack(nil, "dictionary not found"), pack(object[method](object)), method)
            end
            assert.is_false(object.valid and object:valid() or false)
            assert.same(pack(nil, "dictionary not found"), pack(give(object)))
            assert.same(pack(nil, name == "semaphore" and "not owner" or "unlocked"), pack(give(object)))
        end)

        for method, fn in pairs(module) do
            if type(fn) == "function" and not NO_METHODS[method] then
                it("raises an error for a wrong receiver, and reports the caller's line: " .. method, function ()
                    for _, receiver in ipairs { "key", 5, {}, false, print, module } do
                        local message = expect.blamed(function ()
                            local result = fn(receiver, "key")
                            return result
                        end)
                        assert.matches("^bad receiver of " .. method .. ": expected " .. called .. ", got ", message)
                        assert.matches("; call it as %a+:" .. method .. "%(%.%.%.%)", message)
                    end
                    assert.error_matches(function () fn() end, "bad receiver of " .. method .. ": .* got nil; ")
                end)
            end
        end

        it("is neither held nor released by a forked child of its holder", function ()
            local asked, answer = unpack(ASKED_IN_CHILD[name])
            local text = process.run(process.FORK .. primitives.source(name, "spec_primitives") .. [[
                local mine, lost = new { timeout = 0 }, new()
                take(mine)
                take(lost, "another")
                in_child(function ()
                    ]] .. asked .. [[
                    say("child gives", give(mine))
                    say("child takes", take(mine))
                    mine, lost = nil, nil
                    collectgarbage()
                    collectgarbage()
                    os.exit(0, true)
                end)
                say("parent gives", mine.valid and mine:valid(), tostring(give(mine)), tostring(give(lost, "another")))
            ]])
            local given = name == "semaphore" and "nil\ttrue\ttrue" or "true\t1\t1"
            assert.equal(answer .. "\nchild gives\tnil\tnot owner\nchild takes\tnil\ttimeout\nparent gives\t" .. given
                         .. "\n", text)
        end)

        it("admits one process at a time", function ()
            dict:set("sum", 0)
            local source = primitives.source(name, "spec_primitives") .. [[
                local object = new { timeout = 20 }
                local dict = require("resty.shdict").shared.spec_primitives
                for _ = 1, 500 do
                    assert(take(object))
                    dict:set("sum", dict:get("sum") + 1)
                    assert(give(object))
                end
            ]]
            process.run_together { source, source, source, source }
            assert.equal(2000, dict:get("sum"))
        end)
    end)
end
