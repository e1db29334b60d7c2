-- Tests the methods of resty.shdict that operate on a whole dictionary.

local fixture, pack = require "spec.support" ("fixture", "pack")
local core = require "resty.holdfast.core"
local sleep = require("resty.holdfast.host.none").sleep


describe("shdict, as a whole:", function ()
    local dict = fixture.dictionary("spec_dict")

    it("flush_all leaves nothing behind", function ()
        for i = 1, 100 do
            dict:set(i, i)
        end
        dict:flush_all()
        assert.same({}, dict:get_keys(0))
        assert.is_nil(dict:get(1))
        assert.is_true((dict:set(1, 2)))
        assert.equal(2, dict:get(1))
    end)

    describe("get_keys", function ()
        before_each(function ()
            for i = 1, 1500 do
                dict:set("key" .. i, i)
            end
        end)

        it("returns at most 1024 keys, or the given number, or all keys for 0", function ()
            assert.equal(1024, #dict:get_keys())
            assert.equal(7, #dict:get_keys(7))
            assert.equal(1500, #dict:get_keys(0))
            assert.equal(1500, #dict:get_keys(5000))
        end)

        it("returns each key once, whatever bytes it contains", function ()
            dict:set("odd\0\1\255", 1)
            dict:set(("l"):rep(3001), 1)
            local seen = {}
            for _, key in ipairs(dict:get_keys(0)) do
                assert.is_nil(seen[key])
                seen[key] = true
            end
            for i = 1, 1500 do
                assert.is_true(seen["key" .. i])
            end
            assert.is_true(seen["odd\0\1\255"])
            assert.is_true(seen[("l"):rep(3001)])
        end)
    end)

    it("capacity returns the size, and free_space shrinks and grows", function ()
        assert.equal(1048576, dict:capacity())
        dict:flush_expired()
        local before = dict:free_space()
        dict:set("key", ("x"):rep(100000))
        assert.is_true(dict:free_space() <= before - 100000)
        dict:delete("key")
        assert.is_true(dict:free_space() > before - 100000)
    end)

    describe("flush_expired", function ()
        before_each(function ()
            dict:flush_expired()
            for i = 1, 100 do
                dict:set("goes " .. i, i, 0.01)
                dict:set("stays " .. i, i, 100)
            end
            sleep(0.02)
        end)

        it("frees expired entries, and returns their number", function ()
            local before = dict:free_space()
            assert.same(pack(100), pack(dict:flush_expired()))
            assert.is_true(dict:free_space() > before)
            assert.same(pack(0), pack(dict:flush_expired()))
            assert.equal(100, #dict:get_keys())
        end)

        it("frees at most the given number of entries, or all for 0", function ()
            assert.equal(30, dict:flush_expired(30))
            assert.equal(1, dict:flush_expired(1))
            assert.equal(69, dict:flush_expired(0))
        end)
    end)

    describe("scan", function ()
        -- Returns how often a walk returns each key, and the number of steps of the walk.
        local function walk(count, prefix)
            local seen, steps, cursor = {}, 0, 0
            repeat
                local keys
                cursor, keys = dict:scan(cursor, count, prefix)
                assert(cursor, keys)
                for _, key in ipairs(keys) do
                    seen[key] = (seen[key] or 0) + 1
                end
                steps = steps + 1
                assert.is_true(steps < 100000)
            until cursor == 0
            return seen, steps
        end

        local function fill(count)
            local all = {}
            for i = 1, count do
                all["key " .. i] = 1
                dict:set("key " .. i, i)
            end
            return all
        end

        it("returns each key once, in steps of any size", function ()
            local all = fill(1500)
            for _, count in ipairs { 1, 7, 1000, 5000, 4294967295 } do
                assert.same(all, (walk(count)))
            end
            assert.same(all, (walk()))
            assert.same({ ["key 1500"] = 1 }, (walk(7, "key 1500")))
            local _, few = walk(5000)
            local _, many = walk(10)
            assert.is_true(few < many)
        end)

        it("refuses invalid cursors, counts and prefixes", function ()
            for _, cursor in ipairs { -1, 0.5, 0 / 0, 2 ^ 53, math.huge, "0", {} } do
                assert.has_error(function () dict:scan(cursor) end,
                                 'bad "cursor" argument: expected 0 or the cursor that scan returned last, got ' ..
                                 core.describe(cursor))
            end
            assert.has_error(function () dict:scan() end,
                             'bad "cursor" argument: expected 0 or the cursor that scan returned last, got nil')
            for _, count in ipairs { 0, -1, 0.5, 0 / 0, 4294967296, "1", {} } do
                assert.has_error(function () dict:scan(0, count) end,
                                 'bad "count" argument: expected a whole number from 1 to 4294967295, got ' ..
                                 core.describe(count))
            end
            for _, prefix in ipairs { 1, true, {} } do
                assert.has_error(function () dict:scan(0, 1, prefix) end,
                                 'bad "prefix" argument: expected a string, got ' .. core.describe(prefix))
            end
        end)
    end)

    describe("stats", function ()
        it("count hits and misses", function ()
            local before = dict:stats()
            dict:set("key", 1)
            for _ = 1, 7 do dict:get("key") end
            for _ = 1, 3 do dict:get("nothing") end
            dict:get_stale("key")
            local after = dict:stats()
            assert.equal(8, after.hits - before.hits)
            assert.equal(3, after.misses - before.misses)
        end)

        it("contain only numbers, under exactly these names", function ()
            local names = {}
            for name, value in pairs(dict:stats()) do
                assert.is_number(value)
                names[#names + 1] = name
            end
            table.sort(names)
            assert.same({ "bytes_free", "bytes_used", "entries", "evictions", "expirations", "hits", "lives_unknown",
                          "lock_reserved_ms", "lock_waits", "lock_wakes", "misses", "mutex_waits", "repairs",
                          "words_mended" }, names)
        end)
    end)
end)
