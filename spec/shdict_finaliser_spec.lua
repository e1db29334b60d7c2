-- Tests the scratch memory in core.lua. A finaliser may run whenever Lua allocates memory, even in the middle of a
-- method, and may itself call methods.

local process = require "spec.support.process"

-- Prints the number of wrong results, and whether any finaliser ran. `%s` is on or off.
local SOURCE = [[
    local shdict = require "resty.shdict"
    jit["%s"]()
    shdict.remove("spec_finaliser_mine")
    shdict.remove("spec_finaliser_other")
    local mine = assert(shdict.open("spec_finaliser_mine", { size = "4m", tables = true }))
    local other = assert(shdict.open("spec_finaliser_other", { size = "4m" }))
    local finalised = 0

    local function leave_garbage(finaliser)
        getmetatable(newproxy(true)).__gc = function ()
            finalised = finalised + 1
            finaliser()
        end
    end

    -- Counts the wrong results in `rounds` calls of `check`, which returns true for a correct result.
    local function count(rounds, finaliser, check)
        local wrong = 0
        for i = 1, rounds do
            if i %% 3 == 0 then
                leave_garbage(finaliser)
            end
            if not check(i) then
                wrong = wrong + 1
            end
        end
        return wrong
    end
]]

local function run(mode, source)
    local output, status = process.run(SOURCE:format(mode) .. source)
    assert.equal(0, status)
    return output
end


for _, mode in ipairs { "on", "off" } do
    describe("with the compiler " .. mode .. ", a finaliser that uses a dictionary", function ()
        after_each(process.clean_up)

        it("does not change the results of get and get_stale", function ()
            assert.equal("0\t0\ttrue\n", run(mode, [[
                other:set("short", "o", 0, 99)
                other:set("stale", "o", 0.001)
                local value = ("b"):rep(3000)
                for i = 0, 49 do mine:set("k" .. i, value .. i, 0, 7) end
                say(count(60000, function () other:get("short") end, function (i)
                    mine:set("k" .. i % 50, value .. i, 0, 7)
                    local got, flags = mine:get("k" .. i % 50)
                    return #got > 3000 and flags == 7
                end), count(60000, function () other:get_stale("stale") end, function (i)
                    local got, flags, stale = mine:get_stale("k" .. i % 50)
                    return #got > 3000 and flags == 7 and not stale
                end), finalised > 0)
            ]]))
        end)

        it("does not change the results of get_keys and scan", function ()
            assert.equal("0\t0\ttrue\n", run(mode, [[
                for i = 1, 2000 do
                    mine:set("a" .. i, i)
                    other:set(("b"):rep(100) .. i, i)
                end
                local function all_mine(keys)
                    for _, key in ipairs(keys) do
                        if not key:find("^a%d+$") then
                            return false
                        end
                    end
                    return #keys == 2000
                end
                say(count(200, function () other:get_keys(0) end, function ()
                    return all_mine(mine:get_keys(0))
                end), count(200, function () other:scan(0, 2000) end, function ()
                    local _, keys = mine:scan(0, 3000)
                    return all_mine(keys)
                end), finalised > 0)
            ]]))
        end)

        it("does not change the effects of incr, cas and lists", function ()
            assert.equal("0\t0\t0\ttrue\n", run(mode, [[
                other:set("n", 1000000)
                other:set("fin", "FIN")
                say(count(20000, function () other:incr("n", 1) end, function (i)
                    return mine:incr("n", 1, 0) == i
                end), count(60000, function () other:cas("fin", "FIN", "FIN") end, function ()
                    mine:set("key", "FIN")
                    return not mine:cas("key", "mine", { i, tostring(i), { i } })
                end), count(20000, function () other:rpush("l", "other") other:lpop("l") end, function (i)
                    return mine:rpush("l", "mine" .. i) == 1 and mine:lpop("l") == "mine" .. i
                end), finalised > 0)
            ]]))
        end)
    end)
end
