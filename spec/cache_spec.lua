-- Tests cache.lua, cache/copies.lua, cache/entries.lua, cache/loads.lua, cache/options.lua and cache/bulk.lua.

local expect, fixture, pack, process, tasks = require "spec.support" ("expect", "fixture", "pack", "process", "tasks")
local cache = require "resty.holdfast.cache"
local scheduler = require "resty.holdfast.scheduler"
local sleep = require("resty.holdfast.host.none").sleep

-- Opens, in child processes, a cache in the spec's dictionary.
local OPEN = [[
    local cache = assert(require("resty.holdfast.cache").new("spec", "spec_cache"))
    local sleep = require("resty.holdfast.host.none").sleep
]]

-- Lets child processes act in the middle of a store. If they are set, before() and after() are called once, before and
-- after the next store of a value. start() begins a load of "key", which ends at the next call to finish().
local RACE = [[
    local core = require "resty.holdfast.core"
    local C, before, after = core.C, nil, nil
    core.C = setmetatable({ holdfast_store_unless_changed = function (dict, key, length, version, ...)
        local fn, number = before, version[0].number
        before = nil
        if fn then fn() end
        version[0].number = number  -- fn() uses the same variable
        fn, after = after, nil
        local code = C.holdfast_store_unless_changed(dict, key, length, version, ...)
        number = version[0].number
        if fn then fn() end
        version[0].number = number
        return code
    end }, { __index = C })
]] .. OPEN .. [[
    local other = assert(require("resty.holdfast.cache").new("spec", "spec_cache"))
    local co
    local function start()
        co = coroutine.create(function ()
            cache:get("key", nil, function () coroutine.yield() return "old" end)
        end)
        assert(coroutine.resume(co))
    end
    local function finish() assert(coroutine.resume(co)) end
]]


describe("cache", function ()
    local dict = fixture.dictionary("spec_cache", { size = "1m", versions = true, tables = true })
    local one, other, calls

    before_each(function ()
        one = assert(cache.new("spec", "spec_cache"))
        other = assert(cache.new("spec", "spec_cache"))
        calls = 0
    end)

    local function load(...)
        calls = calls + 1
        return ...
    end

    -- Runs get(key, opts, loader) in `count` tasks, and returns the results of all of them.
    local function together(count, opts, loader)
        local results = {}
        tasks.run(function ()
            for i = 1, count do
                scheduler.spawn(function () results[i] = pack(one:get("key", opts, loader)) end)
            end
        end)
        return results
    end

    it("gets a value from the loader, then from this process, and in other processes from the dictionary", function ()
        for i, value in ipairs { 1, -0.5, "text", "", ("x"):rep(20000), true, false, { 1, a = { 2 } } } do
            local key = "key" .. i
            assert.same(pack(value, nil, 3), pack(one:get(key, nil, load, value)))
            assert.same(pack(value, nil, 1), pack(one:get(key, nil, load, "other")))
            assert.same(pack(value, nil, 2), pack(other:get(key, nil, load, "other")))
            assert.same(pack(value, nil, 1), pack(other:get(key)))
        end
        assert.equal(8, calls)
    end)

    it("returns the same table for each hit in the process", function ()
        local value = one:get("key", nil, load, { 1 })
        assert.equal(value, (one:get("key")))
        local copy = other:get("key")
        assert.are_not.equal(value, copy)
        assert.equal(copy, (other:get("key")))
    end)

    it("returns level -1 if there is neither a value nor a loader", function ()
        assert.same(pack(nil, nil, -1), pack(one:get("key")))
    end)

    it("keeps nil for neg_ttl, even if the loader returns nothing", function ()
        assert.same(pack(nil, nil, 3), pack(one:get("key", { neg_ttl = 50 }, load)))
        assert.same(pack(nil, nil, 1), pack(one:get("key", nil, load, 1)))
        assert.same(pack(nil, nil, 2), pack(other:get("key", nil, load, 1)))
        one:get("short", { neg_ttl = 0.02 }, load)
        sleep(0.03)
        assert.same(pack(1, nil, 3), pack(one:get("short", nil, load, 1)))
    end)

    it("ends a value in all levels after its ttl, which the loader may choose", function ()
        one:get("key", { ttl = 0.05 }, load, 1)
        one:get("chosen", { ttl = 50 }, load, 1, nil, 0.05)
        other:get("key")
        sleep(0.06)
        assert.same(pack(nil, nil, -1), pack(one:get("key")))
        assert.same(pack(nil, nil, -1), pack(other:get("key")))
        assert.same(pack(nil, nil, -1), pack(one:get("chosen")))
        one:get("forever", { ttl = 0 }, load, 1)
        assert.equal(0, (one:peek("forever")))
    end)

    it("does not store a value if the loader returns a negative ttl", function ()
        assert.same(pack(1, nil, 3), pack(one:get("key", nil, load, 1, nil, -1)))
        assert.same(pack(nil, nil, -1), pack(one:get("key")))
    end)

    it("keeps at least the last lru_size values in the process", function ()
        local small = assert(cache.new("spec", "spec_cache", { lru_size = 10 }))
        for i = 1, 100 do
            small:set("key" .. i, nil, i)
            assert.equal(1, (small:get("key1")))
            assert.is_truthy(small.young.key1 or small.old.key1)
        end
        for i = 92, 100 do
            assert.is_truthy(small.young["key" .. i] or small.old["key" .. i])
        end
        local kept = 0
        for _, generation in ipairs { small.young, small.old } do
            for _ in pairs(generation) do kept = kept + 1 end
        end
        assert.is_true(kept <= 20, kept)
    end)

    it("also reads often-used values in the dictionary, so that they are not evicted", function ()
        one:get("hot", { ttl = 0 }, load, "hot")
        for i = 1, 20000 do
            other:set("cold" .. i, { ttl = 0 }, ("x"):rep(200))
            for _ = 1, 20 do
                one:get("hot")
            end
        end
        assert.is_true(dict:stats().evictions > 0)
        assert.equal("hot", dict:get("spec:hot"))
    end)

    it("all other processes see the effect of set and delete at once", function ()
        for i = 1, 100 do
            assert.is_true(one:set("key", nil, i))
            assert.same(pack(i, nil), { n = 2, (other:get("key")) })
            assert.equal(i, (one:get("key")))
        end
        assert.is_true(one:delete("key"))
        assert.same(pack(nil, nil, -1), pack(other:get("key")))
        assert.is_true(one:set("key", nil, nil))
        assert.same(pack(nil, nil, 2), pack(other:get("key", nil, load, 1)))
    end)

    it("peek returns the remaining time and the value, and changes nothing", function ()
        assert.same(pack(nil, nil), pack(one:peek("key")))
        one:set("key", { ttl = 50, stale_ttl = 100 }, { 1 })
        local left, err, value = other:peek("key")
        assert.is_true(left > 40 and left <= 50)
        assert.is_nil(err)
        assert.same({ 1 }, value)
        assert.equal(2, (select(3, other:get("key"))))
        one:set("key", { ttl = 0.01, stale_ttl = 100 }, 5)
        sleep(0.02)
        assert.same(pack(nil, nil), pack(one:peek("key")))
        left, err, value = one:peek("key", true)
        assert.is_true(left < 0)
        assert.same(pack(nil, 5), pack(err, value))
    end)

    it("caches with different names are separate, and caches with the same name share their values", function ()
        local apart = assert(cache.new("apart", "spec_cache"))
        one:set("key", nil, 1)
        assert.same(pack(nil, nil, -1), pack(apart:get("key")))
        apart:set("key", nil, 2)
        assert.equal(1, (one:get("key")))
        assert.equal(2, (apart:get("key")))
    end)

    describe("loads:", function ()
        it("a hundred waiters share the value of one load", function ()
            local results = together(100, nil, function () scheduler.sleep(0.05) return load("value") end)
            for i = 1, 100 do
                assert.equal("value", results[i][1])
            end
            assert.equal(1, calls)
        end)

        it("a hundred waiters share the error of one load, which is not kept", function ()
            local results = together(100, nil, function ()
                scheduler.sleep(0.05)
                return load(nil, "error " .. calls)
            end)
            for i = 1, 100 do
                assert.same(pack(nil, "error 0"), { n = 2, unpack(results[i], 1, 2) })
            end
            assert.equal(1, calls)
            assert.same(pack(1, nil, 3), pack(one:get("key", nil, load, 1)))
        end)

        it("a waiter does not get the error of an earlier load", function ()
            one:get("key", nil, load, nil, "earlier")
            tasks.run(function ()
                scheduler.spawn(function ()
                    one:get("key", nil, function () scheduler.sleep(0.02) return 1, nil, -1 end)
                end)
                scheduler.sleep(0)
                assert.same(pack(2, nil, 3), pack(one:get("key", nil, load, 2)))
            end)
        end)

        it("an error is kept for error_ttl, until set or delete is called", function ()
            local opts = { error_ttl = 50 }
            for _, forget in ipairs { function () one:delete("key") end, function () one:set("key", nil, 2) end } do
                assert.same(pack(nil, "sorry", nil), pack(one:get("key", opts, load, nil, "sorry")))
                assert.same(pack(nil, "sorry"), pack(other:get("key", nil, load, 1)))
                forget()
                assert.is_nil((select(2, other:get("key", nil, load, 1))))
                one:delete("key")
            end
            one:get("key", { error_ttl = 0.02 }, load, nil, "sorry")
            sleep(0.03)
            assert.equal(1, (one:get("key", nil, load, 1)))
        end)

        it("a raised error is returned with its traceback, and leaves no lock", function ()
            local value, err = one:get("key", nil, function () error("raised") end)
            assert.is_nil(value)
            assert.matches("^callback threw an error: .*raised\nstack traceback:", err)
            assert.matches("error object is a table", (select(2, one:get("key", nil, function () error {} end)):gsub(
                           "table: 0x%x+", "error object is a table")))
            assert.is_nil(dict:holder("!spec:key"))
            assert.same(pack("value", "5"), { n = 2, unpack({ one:get("key", nil, load, "value", 5) }, 1, 2) })
            assert.same(pack(nil, nil, -1), pack(one:get("key")))
        end)

        it("a loader that requests its own value gets an error at once", function ()
            local function recurse()
                return one:get("key", nil, function ()
                    return select(2, other:get("key", nil, load, 1))
                end)
            end
            local message = 'deadlock: the loader of "key" asks for the value that it loads'
            assert.equal(message, (recurse()))
            one:delete("key")
            tasks.run(function () assert.equal(message, (recurse())) end)
            assert.equal(0, calls)
            assert.equal(2, (one:get("outer", nil, function ()  -- a load of a different key is not a recursion
                return (one:get("inner", nil, load, 1)) + 1
            end)))
        end)

        it("a value that cannot be stored causes an error, which waiters share", function ()
            for _, bad in ipairs { print, coroutine.create(print), { print } } do
                local results = together(2, nil, function () scheduler.sleep(0.02) return load(bad) end)
                assert.matches("^cannot store the value: bad ", results[1][2])
                assert.equal(results[1][2], results[2][2])
            end
            assert.equal(3, calls)
        end)

        it("a value that is too large for the dictionary is kept in the process, and counted", function ()
            local large = ("x"):rep(2 ^ 21)
            assert.equal(3, (select(3, one:get("key", nil, load, large))))
            assert.equal(1, (select(3, one:get("key", nil, load, large))))
            assert.equal(1, one:stats().not_stored)
            assert.same(pack(nil, "no memory"), pack(one:set("key", nil, large)))
            one:set("key", nil, 1)
            assert.same(pack(1, nil), { n = 2, (one:get("key")) })
        end)

        it("in a dictionary full of held locks, the process keeps what it loads, and others get an error", function ()
            local resty_lock = require "resty.lock"
            local full, locks = assert(cache.new("spec", "spec_full", { size = "64k" })), {}
            local function fill()
                repeat
                    local lock = resty_lock:new("spec_full", { timeout = 0 })
                    locks[#locks + 1] = lock
                until not lock:lock(tostring(#locks))
                return load(("x"):rep(500))
            end
            assert.equal(3, (select(3, full:get("key", nil, fill))))
            assert.equal(1, (select(3, full:get("key", nil, load))))
            assert.equal(1, full:stats().not_stored)
            local refusal = "could not acquire callback lock: no memory"
            local another = assert(cache.new("spec", "spec_full"))
            local long = ("k"):rep(500)  -- the lock's entry does not fit into the memory of the first load's lock
            assert.same(pack(nil, refusal), pack(another:get(long, nil, load, 1)))
            assert.equal("mine", (another:get(long, { on_timeout = "load" }, load, "mine")))
            assert.equal(2, calls)
            for _, lock in ipairs(locks) do
                lock:unlock()
            end
            assert.same(pack(2, nil, 3), pack(another:get(long, nil, load, 2)))
            assert.equal(2, (full:get(long)))
        end)

        it("a waiter loads when the loader's process dies", function ()
            local child = process.start(OPEN .. [[
                cache:get("key", nil, function () say("loading") hear() end)
            ]])
            child:expect("loading")
            local task = scheduler.spawn(function () return one:get("key", nil, load, "mine") end)
            scheduler.spawn(function ()
                while one:stats().waits == 0 do scheduler.sleep(0.001) end
                child:kill()
            end)
            scheduler.run()
            assert.same(pack(true, "mine", nil, 3), pack(task:join()))
        end)

        it("a waiter in another process gets the value and the error of this process's loader", function ()
            local child = process.start(OPEN .. [[
                for _, key in ipairs { "value", "error" } do
                    hear()
                    say(key)
                    local value, err, level = cache:get(key, nil, error)
                    say(tostring(value) .. " " .. tostring(err) .. " " .. tostring(level))
                end
            ]])
            for i, key in ipairs { "value", "error" } do
                local answer = i == 1 and "5 nil 2" or "nil sorry nil"
                one:get(key, nil, function ()
                    child:say(key)
                    local heard = child:hear()
                    if heard ~= key then return nil, "heard " .. heard end
                    while dict:waiters("!spec:" .. key) == 0 do sleep(0.001) end
                    if key == "error" then return nil, "sorry" end
                    return 5
                end)
                child:expect(answer)
            end
        end)

        for _, case in ipairs { { "set", "new" }, { "delete", nil } } do
            it(case[1] .. " during a load discards the load's value", function ()
                for _, before in ipairs { false, "stored" } do
                    dict:flush_all()
                    if before then
                        one:set("key", { ttl = 0.01 }, before)
                        sleep(0.02)
                    end
                    local changed
                    tasks.run(function ()
                        local task = scheduler.spawn(function ()
                            one:get("key", nil, function ()
                                while not changed do scheduler.sleep(0.001) end
                                return "old"
                            end)
                            assert.equal(case[2], (one:get("key")))
                        end)
                        scheduler.sleep(0.01)
                        assert.is_true((other[case[1]](other, "key", nil, case[2])))
                        assert.equal(case[2], (other:get("key")))
                        changed = true
                        assert(task:join())
                    end)
                    assert.equal(case[2], (other:get("key")))
                end
            end)
        end

        for what, source in pairs {
            ["a load that stores while set does"] = [[
                start()
                after = finish
                other:set("key", nil, "new")
                say(other:get("key"))
            ]],
            ["a load that begins while set stores"] = [[
                before = start
                other:set("key", nil, "new")
                finish()
                say(other:get("key"))
            ]],
            ["a load that has checked its lock when the value is set"] = [[
                start()
                before = function () other:set("key", nil, "new") end
                finish()
                say(other:get("key"))
            ]],
            ["a load that has checked its lock when the value is deleted"] = [[
                start()
                before = function () other:delete("key") end
                finish()
                say(other:get("key") or "new")
            ]],
            ["a load that finds a value when it has the lock"] = [[
                local lock = require "resty.lock"
                local with = lock.with
                function lock.with(...)
                    other:set("key", nil, "new")
                    return with(...)
                end
                say(cache:get("key", nil, function () return "old" end))
            ]],
        } do
            it(what .. " does not bring back an older value", function ()
                assert.matches("^new", process.run(RACE .. source))
            end)
        end

        it("purge during a load discards the load's value, whether it purges a tag or everything", function ()
            for _, tag in ipairs { "tag", false } do
                local purged
                tasks.run(function ()
                    scheduler.spawn(function ()
                        one:get("key", { tags = "tag" }, function ()
                            while not purged do scheduler.sleep(0.001) end
                            return "old"
                        end)
                    end)
                    scheduler.sleep(0.01)
                    assert.is_true((other:purge(tag or nil)))
                    purged = true
                end)
                assert.same(pack(nil, nil, -1), pack(other:get("key")))
                assert.same(pack(nil, nil, -1), pack(one:get("key")))
            end
        end)

        it("a load that takes longer than its lock's exptime stores nothing, and another load follows", function ()
            local opts = { resty_lock_opts = { exptime = 0.05 } }
            local level, over
            tasks.run(function ()
                scheduler.spawn(function ()
                    level = select(3, one:get("key", opts, function ()
                        while not over do scheduler.sleep(0.01) end
                        return load("slow")
                    end))
                end)
                scheduler.sleep(0.01)
                assert.same(pack("fast", nil, 3), pack(other:get("key", opts, load, "fast")))
                over = true
            end)
            assert.equal(2, level)
            assert.equal("fast", (one:get("key")))
            assert.equal(2, calls)
        end)

        it("a load whose lock is renewed may take as long as it needs", function ()
            local opts = { resty_lock_opts = { exptime = 0.2, renew = true } }
            expect.in_time(function ()
                calls = 0
                one:delete("key")
                tasks.run(function ()
                    scheduler.spawn(function ()
                        one:get("key", opts, function () scheduler.sleep(0.5) return load("slow") end)
                    end)
                    scheduler.sleep(0.01)
                    other:get("key", opts, load, "fast")
                end)
                return calls == 1 and one:get("key") == "slow"
            end)
            local _, err = one:get("other", opts, load, 1)
            assert.matches("^could not acquire callback lock: cannot renew here: ", err)
        end)

        it("on_timeout decides what happens if a load takes longer than the wait", function ()
            for way, expected in pairs {
                error = pack(nil, "could not acquire callback lock: timeout"),
                load = pack("mine", nil, 3),
                stale = pack("expired", nil, 4),
                resurrect = pack("expired", nil, 4),
            } do
                dict:flush_all()
                one:set("key", { ttl = 0.001 }, "expired")
                sleep(0.01)
                local over
                tasks.run(function ()
                    scheduler.spawn(function ()
                        one:get("key", nil, function ()
                            while not over do scheduler.sleep(0.01) end
                            return 1
                        end)
                    end)
                    scheduler.sleep(0)
                    local opts = { on_timeout = way, resty_lock_opts = { timeout = 0.02 } }
                    if way == "resurrect" then
                        opts.on_timeout, opts.resurrect_ttl = "error", 50
                    end
                    assert.same(expected, pack(other:get("key", opts, load, "mine")))
                    opts.l1_serializer = function (value) return "our " .. value end
                    assert.same(expected[1] and "our " .. expected[1], (other:get("key", opts, load, "mine")))
                    over = true
                end)
                assert.equal(1, (other:get("key")))
            end
        end)

        it("a change of another key with the same version does not prevent a load from storing its value", function ()
            assert.equal("old\t2\n", process.run(RACE .. [[
                local dict = cache.dict
                local version, number = dict:version("spec:key"), 0
                repeat
                    number = number + 1
                    dict:set("noise" .. number, 1)
                until dict:version("spec:key") ~= version
                start()
                before = function () dict:set("noise" .. number, 2) end
                finish()
                local value, _, level = other:get("key")
                say(value, level)
            ]]))
        end)

        it("a loader runs in a forked child as it does in the parent", function ()
            assert.equal("child 1\nparent 2\n", process.run(process.FORK .. OPEN .. [[
                cache:get("key", nil, function () return 1 end)
                in_child(function ()
                    print("child " .. cache:get("key"))
                    cache:set("key", nil, 2)
                end)
                print("parent " .. cache:get("key"))
            ]]))
        end)
    end)

    describe("stale values:", function ()
        local STALE = { ttl = 0.02, stale_ttl = 50 }

        it("are served at once while one caller loads in the background", function ()
            one:set("key", STALE, "old")
            sleep(0.03)
            local function slow()
                scheduler.sleep(0.05)
                return load("new")
            end
            tasks.run(function ()
                for _ = 1, 20 do
                    assert.same(pack("old", nil, 4), pack(one:get("key", STALE, slow)))
                    assert.same(pack("old", nil, 4), pack(other:get("key", STALE, slow)))
                end
                scheduler.sleep(0.06)
                while calls == 0 do scheduler.sleep(0.01) end
            end)
            assert.equal(1, calls)
            assert.equal("new", dict:get("spec:key"))
            assert.equal(40, one:stats().stale + other:stats().stale)
        end)

        it("are loaded by their caller if nothing can run in the background", function ()
            one:set("key", STALE, "old")
            sleep(0.03)
            assert.same(pack("old", nil, 4), pack(one:get("key")))
            assert.same(pack("new", nil, 3), pack(one:get("key", STALE, load, "new")))
        end)

        it("are served while loads fail, and a load is tried once per error_ttl", function ()
            one:set("key", STALE, "old")
            sleep(0.03)
            for _ = 1, 5 do
                assert.same(pack("old", nil, 4), pack(one:get("key", { error_ttl = 50 }, load, nil, "down")))
            end
            assert.equal(1, calls)
            assert.equal(1, one:stats().load_errors)
        end)

        it("are not served for a shorter time when a load fails", function ()
            one:set("key", STALE, "old")
            sleep(0.03)
            local opts = { stale_ttl = 50, resurrect_ttl = 0.02 }
            assert.same(pack("old", nil, 4), pack(one:get("key", opts, load, nil, "down")))
            assert.equal(1, calls)
            sleep(0.03)
            assert.same(pack("old", nil, 4), pack(one:get("key")))
        end)

        it("end after ttl and stale_ttl", function ()
            one:set("key", { ttl = 0.02, stale_ttl = 0.02 }, "old")
            sleep(0.05)
            assert.same(pack(nil, nil, -1), pack(one:get("key")))
        end)
    end)

    describe("expired values:", function ()
        local AGAIN = { resurrect_ttl = 50 }

        before_each(function ()
            one:set("key", { ttl = 0.001 }, "old")
            sleep(0.01)
        end)

        it("are served again for resurrect_ttl if the loader returns an error", function ()
            assert.same(pack("old", nil, 4), pack(one:get("key", AGAIN, load, nil, "down")))
            assert.same(pack("old", nil, 4), pack(one:get("key", AGAIN, load, "early")))
            assert.same(pack("old", nil, 4), pack(other:get("key")))
            assert.equal(1, calls)
        end)

        it("are not served for longer than resurrect_ttl", function ()
            assert.same(pack("old", nil, 4), pack(one:get("key", { resurrect_ttl = 0.01 }, load, nil, "down")))
            sleep(0.03)
            assert.same(pack(nil, nil, -1), pack(one:get("key")))
            assert.same(pack("new", nil, 3), pack(one:get("key", AGAIN, load, "new")))
        end)

        it("are served to a hundred callers that wait for the load that fails", function ()
            local results = together(100, AGAIN, function ()
                scheduler.sleep(0.02)
                return load(nil, "down")
            end)
            for i = 1, 100 do
                assert.same(pack("old", nil, 4), results[i])
            end
            assert.equal(1, calls)
        end)

        it("are not served if the loader raises an error, after purge or delete, or without resurrect_ttl", function ()
            assert.matches("^callback threw an error: oh", (select(2, one:get("key", AGAIN, error, "oh"))))
            assert.same(pack(nil, "down", nil), pack(one:get("key", nil, load, nil, "down")))
            for _, method in ipairs { "purge", "delete" } do
                one:set(method, { ttl = 0.001 }, "old")
                sleep(0.01)
                one[method](one, method == "delete" and method or nil)
                assert.same(pack(nil, "down", nil), pack(one:get(method, AGAIN, load, nil, "down")))
                assert.same(pack(1, nil, 3), pack(one:get(method, AGAIN, load, 1)))
            end
        end)

        it("keep their tags when they are served again", function ()
            one:set("key", { ttl = 0.001, tags = "tag" }, "old")
            sleep(0.01)
            local opts = { resurrect_ttl = 50, tags = "tag" }
            assert.same(pack("old", nil, 4), pack(one:get("key", opts, load, nil, "down")))
            one:purge("tag")
            assert.same(pack(nil, nil, -1), pack(one:get("key")))
        end)
    end)

    it("early_refresh loads before the end, with growing probability, while the old value is served", function ()
        local opts = { ttl = 50, early_refresh = 1 }
        local function slow()
            sleep(0.05)
            return load("value " .. calls)
        end
        assert.equal("value 0", (one:get("key", opts, slow)))
        for _ = 1, 1000 do  -- the value's end is 50 s away, and a load takes 0.05 s
            cache.new("spec", "spec_cache"):get("key", opts, slow)
        end
        assert.equal(1, calls)
        expect.in_time(function ()
            one:get("key", { ttl = 50, early_refresh = 1e9 }, slow)
            return select(3, other:get("key", { ttl = 50, early_refresh = 1e9 }, slow)) == 3
        end)
        assert.is_true(calls > 1)
    end)

    it("set and delete fail if they cannot stop a load, which might store an older value", function ()
        process.start([[
            local core = require "resty.holdfast.core"
            local C, ffi_str = core.C, require("ffi").string
            core.C = setmetatable({ holdfast_delete = function (dict, key, length)
                return ffi_str(key, 1) == "!" and core.TIMEOUT or C.holdfast_delete(dict, key, length)
            end }, { __index = C })
            local cache = assert(require("resty.holdfast.cache").new("spec", "spec_cache"))
            say(cache:set("key", nil, 1))
            say(cache:delete("key"))
        ]]):expect_end("nil\ttimeout", "nil\ttimeout")
    end)

    it("early_refresh also works in the process that has loaded the value, and in get_bulk", function ()
        local function slow()
            sleep(0.001)
            return load("value " .. calls)
        end
        local early = assert(cache.new("early", "spec_cache", { ttl = 1e6, early_refresh = 1e15 }))
        for count = 1, 5 do
            early:get("key", nil, slow)
            assert.equal(count, calls)
        end
        for count = 6, 10 do
            local bulk = cache.new_bulk()
            bulk:add("key", nil, slow)
            assert.equal(3, early:get_bulk(bulk)[3])
            assert.equal(count, calls)
        end
        early:get("key", { early_refresh = 0 }, slow)
        assert.equal(10, calls)
    end)

    describe("tags:", function ()
        it("purge of a tag ends the tag's values in all processes, but no other values", function ()
            one:get("a", { tags = { "red", "big" } }, load, 1)
            one:get("b", { tags = "red" }, load, nil)
            one:get("c", { tags = "blue" }, load, { 3 })
            for _, key in ipairs { "a", "b", "c" } do
                assert.equal(2, (select(3, other:get(key))))
                assert.equal(1, (select(3, other:get(key))))
            end
            assert.is_true(one:purge("big"))
            assert.same(pack(nil, nil, -1), pack(other:get("a")))
            assert.same(pack(nil, nil), pack(other:peek("a")))
            assert.is_true(select(3, other:get("b")) > 0)
            assert.is_true(one:purge("red"))
            assert.same(pack(nil, nil, -1), pack(one:get("b")))
            assert.same(pack({ 3 }, nil), { n = 2, (other:get("c")) })
            assert.is_true(one:purge("unknown"))
        end)

        it("a tag whose generation was evicted ends its values", function ()
            one:set("a", { tags = "red" }, 1)
            dict:delete("#spec:red")
            assert.same(pack(nil, nil, -1), pack(other:get("a")))
            other:set("b", { tags = "red" }, 2)
            assert.same(pack(nil, nil, -1), pack(one:get("a")))
            assert.equal(2, (one:get("b")))
        end)
    end)

    it("purge ends everything, even after a flush by another program", function ()
        one:set("a", nil, 1)
        other:get("a")
        assert.is_true(one:purge())
        assert.same(pack(nil, nil, -1), pack(other:get("a")))
        one:set("a", nil, 2)
        other:get("a")
        dict:flush_all()
        assert.same(pack(nil, nil, -1), pack(other:get("a")))
        assert.is_true(one:purge(true))
        assert.is_true(one:update())
    end)

    it("raises no error, whatever another program has stored under its keys, and continues to work", function ()
        for _, name in ipairs { "spec:key", "!spec:key", "?spec:key", "#spec:red" } do
            for _, value in ipairs { 0 / 0, -1, "text", true, {}, { 1 }, { {}, 1 }, { "red" }, "list", "lock" } do
                for kind = 0, 3 do
                    one[name == "?spec:key" and "delete" or "set"](one, "key", { tags = "red" }, "x")
                    dict:delete(name)
                    if value == "lock" then
                        assert(require("resty.lock"):new("spec_cache", { exptime = 0.01 }):lock(name))
                    elseif value == "list" then
                        assert(dict:rpush(name, 1))
                    else
                        assert(dict:set(name, value, 0, 2 ^ 32 - 4 + kind))
                    end
                    local opts = { tags = "red", on_timeout = "load", resty_lock_opts = { timeout = 0.001 } }
                    local _, err = one:get("key", opts, load, "mine")
                    assert.is_true(err == nil or type(err) == "string")
                    one:peek("key", true)
                    one:purge("red")
                    assert(one:delete("key"))
                    dict:flush_all()
                    assert.equal("mine", (other:get("key", opts, load, "mine")))
                end
            end
        end
    end)

    it("l1_serializer is called once per copy, and returns what the process keeps", function ()
        local opts = { l1_serializer = function (value) calls = calls + 1 return { text = value } end }
        assert.same({ text = "a" }, (one:get("key", opts, function () return "a" end)))
        assert.same({ text = "a" }, (one:get("key", opts)))
        assert.equal("a", dict:get("spec:key"))
        assert.same({ text = "a" }, (other:get("key", opts)))
        assert.equal(2, calls)
        for answer, serializer in pairs {
            ["l1_serializer threw an error: oh"] = function () error("oh", 0) end,
            ["l1_serializer returned a nil value"] = function () end,
            ["sorry"] = function () return nil, "sorry" end,
        } do
            assert.equal(answer, (select(2, one:get(answer, { l1_serializer = serializer }, load, 1))))
        end
    end)

    it("get_bulk gets several values at once, and returns them in the same form as mlcache", function ()
        one:set("b", nil, 2)
        local bulk = cache.new_bulk(3)
        local running, most = 0, 0
        local function slow(value, err)
            running = running + 1
            most = math.max(most, running)
            scheduler.sleep(0.01)
            running = running - 1
            return value, err
        end
        for _, key in ipairs { "a", "b", "c", "d", "e", "f" } do
            bulk:add(key, nil, slow, key)
        end
        bulk:add("g", nil, function () return nil, "sorry" end)
        local found = {}
        tasks.run(function ()
            for i, value, err, level in cache.each_bulk_res(one:get_bulk(bulk)) do
                found[i] = pack(value, err, level)
            end
        end)
        assert.same({ pack("a", nil, 3), pack(2, nil, 1), pack("c", nil, 3), pack("d", nil, 3), pack("e", nil, 3),
                      pack("f", nil, 3), pack(nil, "sorry", nil) }, found)
        assert.equal(3, most)
        local results = one:get_bulk({ "x", nil, load, 1, "y", { ttl = 1 }, load, 2, n = 2 }, { concurrency = 1 })
        assert.same({ n = 6, 1, nil, 3, 2, nil, 3 }, results)
    end)

    it("stats counts what happened", function ()
        other:get("bad", nil, load, nil, "sorry")
        one:get("key", nil, load, 1)
        one:get("key")
        one:get("key")
        other:get("key")
        local mine, its = one:stats(), other:stats()
        assert.same(pack(2, 0, 1, 0), pack(mine.l1_hits, mine.l2_hits, mine.loads, mine.load_errors))
        assert.same(pack(0, 1, 1, 1), pack(its.l1_hits, its.l2_hits, its.loads, its.load_errors))
        for i = 1, 5000 do
            one:get("key")
            assert.equal(2 + i, one:stats().l1_hits)
        end
    end)

    it("refuses bad arguments, and reports the caller's line", function ()
        local blamed = expect.blamed
        local function refuses(message, fn)
            assert.equal(message, blamed(function () local result = fn() return result end))
        end
        refuses('bad tag to purge: expected a string, a boolean or nothing, got table',
                function () return one:purge { "red" } end)
        refuses('bad key to get: expected a string, got 5', function () return one:get(5) end)
        refuses('bad key to set: expected a string, got nil', function () return one:set() end)
        refuses('bad key to delete: expected a string, got table', function () return one:delete {} end)
        refuses('bad key to peek: expected a string, got nil', function () return one:peek() end)
        refuses('bad loader to get: expected a function, got 5', function () return one:get("key", nil, 5) end)
        refuses('bad receiver of get: expected a cache, got "key"; call it as cache:get(...)',
                function () return cache.get("key") end)
        refuses('bad options to get: expected a table, got function', function () return one:get("key", load) end)
        refuses('unknown option "tll" to get', function () return one:get("key", { tll = 5 }, load) end)
        refuses('bad option "ttl" to set: expected a number of seconds, 0 or more, got -1',
                function () return one:set("key", { ttl = -1 }, 1) end)
        refuses('bad option "on_timeout" to get: expected "error", "load" or "stale", got "wait"',
                function () return one:get("key", { on_timeout = "wait" }, load) end)
        refuses('bad option "tags" to get: expected a string or an array of strings, got table',
                function () return one:get("key", { tags = { 5 } }, load) end)
        refuses('bad option "lru_size" to new: expected a whole number, 1 or more, got 0',
                function () return cache.new("a", "spec_cache", { lru_size = 0 }) end)
        refuses("bad name to new: expected letters, digits, '_', '-' and '.', got \"a:b\"",
                function () return cache.new("a:b", "spec_cache") end)
        refuses('bad shm to new: expected the name of a dictionary, got nil', function () return cache.new("a") end)
        refuses('bad bulk to get_bulk: expected a table with a field n, got table',
                function () return one:get_bulk {} end)
        refuses('bad key to lookup 2 of get_bulk: expected a string, got 5',
                function () return one:get_bulk { "a", nil, load, 1, 5, nil, load, 2, n = 2 } end)
        refuses('bad loader to lookup 2 of get_bulk: expected a function, got 5',
                function () return one:get_bulk { "a", nil, load, 1, "b", nil, 5, 2, n = 2 } end)
        refuses('bad option "ttl" to lookup 2 of get_bulk: expected a number of seconds, 0 or more, got -1',
                function () return one:get_bulk { "a", nil, load, 1, "b", { ttl = -1 }, load, 2, n = 2 } end)
        assert.same(pack(nil, "key too long"), pack(one:get(("x"):rep(70000))))
        assert.equal(0, calls)
    end)

    it("accepts and ignores options of mlcache that have no meaning here", function ()
        assert(cache.new("a", "spec_cache", { ipc_shm = "x", shm_miss = "y", shm_locks = "z", shm_set_tries = 3 }))
    end)

    it("returns an error for a dictionary that does not fit, or was removed", function ()
        local shdict = require "resty.shdict"
        assert(shdict.open("spec_plain", { size = "100k" }))
        local made, err = cache.new("a", "spec_plain")
        assert.is_nil(made)
        assert.matches('^dictionary "spec_plain" exists with ', err)
        shdict.remove("spec_plain")
        made = assert(cache.new("a", "spec_plain", { size = "200k" }))
        made:set("key", nil, 1)
        assert.equal(204800, shdict.shared.spec_plain:capacity())
        shdict.remove("spec_plain")
        assert.same(pack(nil, "dictionary not found"), pack(made:get("key", nil, load, 1)))
        assert.same(pack(nil, "dictionary not found"), pack(made:set("key", nil, 1)))
        assert.same(pack(nil, "dictionary not found"), pack(made:delete("key")))
    end)

    describe("a copy of a value that does not expire", function ()
        local FOREVER = { ttl = 0 }

        before_each(function ()
            assert(one:set("key", FOREVER, "old"))
            assert(one:set("key 2", FOREVER, "old"))
            assert.equal(1, select(3, one:get("key")))
        end)

        it("is used until its key changes", function ()
            assert(other:set("key 2", FOREVER, "new"))
            assert.same(pack("old", nil, 1), pack(one:get("key")))
            assert(other:set("key", FOREVER, "new"))
            assert.same(pack("new", nil, 2), pack(one:get("key")))
            assert.same(pack("new", nil, 1), pack(one:get("key")))
        end)

        -- Stores one byte of the version, so that the compiled loop does not know about the change, as if another
        -- process had made it.
        it("is compared at each hit, even in a compiled loop that does nothing else", function ()
            local WORD = require("resty.holdfast.cache.entries").WORD
            local CHANGED_AT, ROUNDS, added = 300, 400, {}
            for i = 1, ROUNDS do
                added[i] = i == CHANGED_AT and 2 or 0
            end
            one:set("key", FOREVER, "value")
            one:get("key")
            local bytes = require("ffi").cast("uint8_t *", one.versions.words + one.young.key[WORD])
            local misses = {}
            for i = 1, ROUNDS do
                bytes[0] = bytes[0] + added[i]
                local _, _, level = one:get("key")
                if level ~= 1 then
                    misses[#misses + 1] = i
                end
            end
            assert.same({ CHANGED_AT }, misses)
        end)

        it("is not used after the dictionary was flushed", function ()
            assert(dict:flush_all())
            assert.same(pack(nil, nil, -1), pack(one:get("key")))
        end)

        it("is not used after the dictionary was removed, but copies from the next dictionary are", function ()
            local shdict = require "resty.shdict"
            shdict.remove("spec_cache")
            assert.same(pack(nil, "dictionary not found"), pack(one:get("key")))
            dict = assert(shdict.open("spec_cache", { size = "1m", versions = true, tables = true }))
            assert.same(pack(nil, nil, -1), pack(one:get("key")))
            assert.equal(0, one.versions.retired[0])
            assert(other:set("key", FOREVER, "new"))
            assert.same(pack("new", nil, 2), pack(one:get("key")))
            assert.same(pack("new", nil, 1), pack(one:get("key")))
        end)

        it("is not kept if its writer was stopped in the middle of the change", function ()
            local child = process.start([[
                local core, ffi = require "resty.holdfast.core", require "ffi"
                local C, is_stopped = core.C, false
                core.C = setmetatable({ holdfast_get_changed = function (dict, key, length, version, value)
                    local code = C.holdfast_get_changed(dict, key, length, version, value)
                    version[0].number = version[0].number + (is_stopped and 1 or 0)
                    return code
                end }, { __index = C })
            ]] .. OPEN .. [[
                cache:set("key", { ttl = 0 }, "value")
                local stripe = cache.young.key[3]
                cache.young = {}
                is_stopped = true
                local _, _, first = cache:get("key")
                local words = ffi.cast("int64_t *", cache.versions.words)
                words[2 * stripe] = words[2 * stripe] + 1
                is_stopped = false
                local _, _, second = cache:get("key")
                say(first .. " " .. second)
            ]])
            assert.equal("2 2", child:hear())
        end)
    end)

    describe("while other processes set and delete values and are killed,", function ()
        local function read_often(reads, fault)
            local child = process.start({ "luajit", "tests/cache/coherence.lua", reads, fault })
            local text = child:hear_all(300)
            return child:wait(), text
        end

        it("no process reads an older value after a set has returned", function ()
            local status, text = read_often(os.getenv("HOLDFAST_SPEC_READS") or "1e6")
            assert.equal(0, status, text)
        end)

        for _, fault in ipairs { "no comparison", "version read after the value" } do
            it("the test above notices a planted fault: " .. fault, function ()
                local status, text = read_often("5e6", fault)
                assert.equal(1, status, text)
                assert.matches("older than a value that was set before: [1-9]", text)
            end)
        end
    end)
end)
