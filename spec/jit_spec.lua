-- Tests that hot loops that call the methods are compiled. No trace may be aborted because LuaJIT cannot compile
-- something. Each loop must become a trace that loops, or a trace that continues after a call to string.buffer, which
-- cannot be compiled.

local process = require "spec.support.process"

-- Runs LOOP in a new process. Prints why traces were aborted, and then whether the loop was compiled.
local HARNESS = [[
local shdict = require "resty.shdict"
local resty_lock = require "resty.lock"
local dict = assert(shdict.open("spec_jit", { size = "1m" }))
dict:flush_all()
local lock = resty_lock:new("spec_jit")
local other = resty_lock:new("spec_jit")
local fair = resty_lock:new("spec_jit", { fair = true })
other:lock("held")
local rwlock = require("resty.rwlock"):new("spec_jit")
local reader = require("resty.rwlock"):new("spec_jit")
reader:rdlock("read")
local semaphore = require("resty.semaphore"):new("spec_jit", { permits = 2 })
dict:set("text", "some text")
dict:set("long", ("x"):rep(10000))
dict:set("number", 1)
dict:set("boolean", true)
dict:set("flags", 1, 0, 7)
dict:set("swapped", 0)
dict:set("expired", 1, 0.001)
dict:rpush("list", 1)
require("resty.holdfast.scheduler").sleep(0.01)
local versions = assert(shdict.open("spec_jit_versions", { size = "64k", versions = true }))
local tables = assert(shdict.open("spec_jit_tables", { size = "64k", tables = true }))
tables:set("key", { 1, 2 })

local function loop()
    LOOP
end

local errors = require("jit.vmdef").traceerr
local links, reasons = {}, {}
local function watch(what, trace, _, _, code, info)
    if what == "stop" then
        links[require("jit.util").traceinfo(trace).linktype] = true
    elseif what == "abort" then
        reasons[#reasons + 1] = type(code) == "number" and tostring(errors[code]):format(info) or tostring(code)
    end
end
jit.off(watch)
jit.flush()
jit.attach(watch, "trace")
loop()
jit.attach(watch)
for _, reason in ipairs(reasons) do
    if reason:find("NYI") or reason:find("blacklisted") then
        say(reason)
    end
end
say(links.loop and "compiled" or links.stitch and "compiled around a call"
    or "not compiled: " .. table.concat(reasons, "; "))
]]

local LOOPS = {
    ["get of a string"] = 'for _ = 1, 300 do dict:get("text") end',
    ["get of a string longer than the buffer"] = 'for _ = 1, 300 do dict:get("long") end',
    ["get of a number"] = 'for _ = 1, 300 do dict:get("number") end',
    ["get of a boolean"] = 'for _ = 1, 300 do dict:get("boolean") end',
    ["get of a value with flags"] = 'for _ = 1, 300 do dict:get("flags") end',
    ["get of nothing"] = 'for _ = 1, 300 do dict:get("nothing") end',
    ["get with a number as key"] = 'for i = 1, 300 do dict:get(i) end',
    ["get of values of many types"] = [[
        local keys = { "text", "number", "boolean", "flags", "nothing", "list", "long" }
        for i = 1, 3000 do dict:get(keys[i % #keys + 1]) end]],
    ["set of values of many types"] = [[
        local values = { 1, "text", true, 1.5, false, "other" }
        for i = 1, 3000 do dict:set("key" .. i % 10, values[i % #values + 1], i % 2, i % 3) end]],
    ["set of a string"] = 'for _ = 1, 300 do dict:set("key", "value") end',
    ["set of a number"] = 'for i = 1, 300 do dict:set("key", i) end',
    ["set of a boolean"] = 'for i = 1, 300 do dict:set("key", true) end',
    ["set with exptime and flags"] = 'for i = 1, 300 do dict:set("key", i, 10, 3) end',
    ["add of an existing key"] = 'for i = 1, 300 do dict:add("number", i) end',
    ["replace"] = 'for i = 1, 300 do dict:replace("number", i) end',
    ["add and delete"] = 'for i = 1, 300 do dict:add("new", i) dict:delete("new") end',
    ["incr"] = 'for _ = 1, 300 do dict:incr("number", 1) end',
    ["incr with init"] = 'for _ = 1, 300 do dict:incr("counter", 1, 0, 10) end',
    ["get_stale"] = 'for _ = 1, 300 do dict:get_stale("text") end',
    ["get_stale of an expired key"] = 'for _ = 1, 300 do dict:get_stale("expired") end',
    ["safe_set of a string"] = 'for _ = 1, 300 do dict:safe_set("key", "value") end',
    ["safe_add and delete"] = 'for i = 1, 300 do dict:safe_add("new", i) dict:delete("new") end',
    ["cas of numbers"] = 'for i = 1, 300 do dict:cas("swapped", i - 1, i) end',
    ["cas of strings"] = 'for _ = 1, 300 do dict:cas("text", "some text", "some text") end',
    ["cas that fails"] = 'for i = 1, 300 do dict:cas("text", i, "other") end',
    ["cas of nil"] = 'for i = 1, 300 do dict:cas("absent", nil, i) dict:cas("absent", i, nil) end',
    ["version"] = 'for _ = 1, 300 do versions:version("key") end',
    ["get_changed"] = 'for _ = 1, 300 do versions:get_changed("key") end',
    ["set_unless_changed"] = [[
        local version = versions:version("key")
        for i = 1, 300 do version = versions:set_unless_changed("key", version, i) end]],
    ["lpush and lpop"] = 'for i = 1, 300 do dict:lpush("list", i) dict:lpop("list") end',
    ["rpush and rpop of strings"] = 'for _ = 1, 300 do dict:rpush("list", "text") dict:rpop("list") end',
    ["llen"] = 'for _ = 1, 300 do dict:llen("list") end',
    ["scan"] = 'for _ = 1, 300 do dict:scan(0, 10) end',
    ["flush_expired"] = 'for _ = 1, 300 do dict:flush_expired(1) end',
    ["ttl and expire"] = 'for _ = 1, 300 do dict:ttl("number") dict:expire("number", 10) end',
    ["lock and unlock"] = 'for _ = 1, 300 do lock:lock("key") lock:unlock() end',
    ["lock and unlock of a number"] = 'for i = 1, 300 do lock:lock(i) lock:unlock() end',
    ["new, lock and unlock"] = 'for _ = 1, 300 do local new = resty_lock:new("spec_jit") new:lock(1) new:unlock() end',
    ["trylock and unlock"] = 'for _ = 1, 300 do lock:trylock("key") lock:unlock() end',
    ["trylock of a held lock"] = 'for _ = 1, 300 do lock:trylock("held") end',
    ["lock and unlock of a fair object"] = 'for _ = 1, 300 do fair:lock("key") fair:unlock() end',
    ["remaining and valid"] = 'lock:lock("key") for _ = 1, 300 do lock:remaining() lock:valid() end',
    ["rdlock and unlock"] = 'for _ = 1, 300 do rwlock:rdlock("shared") rwlock:unlock() end',
    ["wrlock, downgrade, unlock"] = 'for _ = 1, 300 do rwlock:wrlock("shared") rwlock:downgrade() rwlock:unlock() end',
    ["rdlock, upgrade, unlock"] = 'for _ = 1, 300 do rwlock:rdlock("shared") rwlock:upgrade() rwlock:unlock() end',
    ["trywrlock of a held lock"] = 'for _ = 1, 300 do rwlock:trywrlock("read") end',
    ["wait and post"] = 'for _ = 1, 300 do semaphore:wait("permits") semaphore:post("permits") end',
    ["count"] = 'for _ = 1, 300 do semaphore:count("permits") end',
    ["expire and token"] = 'lock:lock("key") for _ = 1, 300 do lock:expire() lock:token() end',
}

local LOOPS_AROUND_A_CALL = {
    ["get of a table"] = 'for _ = 1, 300 do tables:get("key") end',
    ["set of a table"] = 'local value = { 1, 2 } for _ = 1, 300 do tables:set("key", value) end',
}


describe("compiled:", function ()
    after_each(process.clean_up)

    local function compile(loop)
        local source = HARNESS:gsub("LOOP", function () return loop end, 1)
        return { process.run(source, { stderr = true }) }
    end

    for name, loop in pairs(LOOPS) do
        it(name, function ()
            assert.same({ "compiled\n", 0 }, compile(loop))
        end)
    end

    for name, loop in pairs(LOOPS_AROUND_A_CALL) do
        it(name, function ()
            assert.matches("^compiled", compile(loop)[1])
        end)
    end

    it("this spec detects code that cannot be compiled", function ()
        assert.matches("NYI", compile("for _ = 1, 300 do (function () end)() end")[1], 1, true)
    end)
end)
