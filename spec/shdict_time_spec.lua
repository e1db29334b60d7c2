-- Tests when values and locks end if the process only sleeps.

local pack, process = require "spec.support" ("pack", "process")

local COMMON = [[
    local dict = assert(require("resty.shdict").open("spec_time", { size = "64k" }))
    local resty_lock = require "resty.lock"
    local now = require("resty.holdfast.core").C.holdfast_now
    local sleep = require("resty.holdfast").sleep
    local random = math.random
]]


describe("time in a plain script", function ()
    after_each(process.clean_up)

    it("a value no longer exists after a sleep of its exptime", function ()
        local text = process.run(COMMON .. [[
            local stores = {
                set = function (exptime) dict:set("key", "value", exptime) end,
                safe_set = function (exptime) dict:safe_set("key", 1, exptime) end,
                add = function (exptime) dict:add("key", true, exptime) end,
                replace = function (exptime) dict:set("key", 1) dict:replace("key", 2, exptime) end,
                cas = function (exptime) dict:delete("key") dict:cas("key", nil, 1, exptime) end,
                incr = function (exptime) dict:incr("key", 1, 0, exptime) end,
                expire = function (exptime) dict:set("key", 1) dict:expire("key", exptime) end,
                list = function (exptime) dict:lpush("key", 1) dict:expire("key", exptime) end,
            }
            for name, store in pairs(stores) do
                for _ = 1, 40 do
                    local exptime = random(1, 5) / 1000
                    store(exptime)
                    sleep(exptime)
                    if dict:get("key") ~= nil or dict:llen("key") ~= 0 then say("late", name, exptime) end
                    dict:delete("key")
                end
            end
            say("end")
        ]])
        assert.equal("end\n", text)
    end)

    it("a lock ends when its exptime has passed, and not earlier", function ()
        local text = process.run(COMMON .. [[
            local lock, other = resty_lock:new("spec_time"), resty_lock:new("spec_time")
            for _ = 1, 100 do
                local exptime = random(1, 5) / 1000
                lock:lock("key", { exptime = exptime })
                sleep(exptime + 0.001)
                if not other:trylock("key") then say("late", exptime) end
                other:unlock()
                lock:unlock()
                local taken = now()
                lock:lock("key", { exptime = exptime })
                repeat until other:trylock("key")
                if now() - taken < exptime then say("early", exptime) end
                other:unlock()
                lock:unlock()
            end
            say("end")
        ]])
        assert.equal("end\n", text)
    end)

    it("a wait for a key with a value ends when the value expires", function ()
        assert.same(pack("true\n", 0), pack(process.run(COMMON .. [[
            dict:set("key", "a value", 0.05)
            local start = now()
            local elapsed = resty_lock:new("spec_time"):lock("key")
            say(elapsed ~= nil and now() - start >= 0.048)
        ]])))
    end)
end)
