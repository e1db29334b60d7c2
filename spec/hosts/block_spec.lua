-- Tests the option `block`. With this option, the whole process waits if the host reports that the caller cannot wait.

local fixture, primitives, process, site = require "spec.support" ("fixture", "primitives", "process", "site")
local hosts = require "resty.holdfast.host"
local none = require "resty.holdfast.host.none"
local shdict = require "resty.shdict"

local REFUSAL = "cannot wait here (host callback): in a callback"

local COMMON = [[
    local shdict = require "resty.shdict"
    shdict.open("spec_hosts", { size = "1m" })
    local resty_lock = require "resty.lock"
]]

-- Takes "key" whenever other processes want it, and releases it a moment after one of them has begun to wait.
local HOLDER = COMMON .. [[
    local lock = resty_lock:new("spec_hosts")
    assert(lock:lock("key"))
    say("taken")
    hear()
    local sleep = require("resty.holdfast.host.none").sleep
    repeat sleep(0.005) until lock:holder("key").waiters == 1
    sleep(0.1)
    assert(lock:unlock())
    say("released")
]]


describe("if the host reports that no caller can wait", function ()
    local untouched

    before_each(function ()
        assert(shdict.open("spec_hosts", { size = "1m" })):flush_all()
        untouched = true
        hosts.set_host {
            name = "callback",
            sleep = function () untouched = false end,
            is_yieldable = function () return false, "in a callback" end,
        }
    end)

    after_each(function ()
        hosts.set_host(nil)
        process.clean_up()
        assert.is_true(untouched, "the host was asked to sleep")
    end)

    for _, name in ipairs(primitives.names) do
        local new, take, give = primitives.functions(name, "spec_hosts")

        describe("a " .. name, function ()
            for _, way in ipairs { "wake", "poll" } do
                it("is refused without block and waits with block, also by " .. way, function ()
                    local holder = new {}
                    assert(take(holder))
                    assert.same({ nil, REFUSAL }, { take(new { wait = way }) })
                    assert.same({ nil, REFUSAL }, { take(new { wait = way, block = false }) })
                    local start = none.now()
                    local patient = new { wait = way, block = true, timeout = 0.05 }
                    assert.same({ nil, "timeout" }, { take(patient) })
                    assert.is_true(none.now() - start >= 0.05)
                    assert(give(holder))
                end)
            end

            it("does not need block if the lock is free, or if the call does not wait", function ()
                local first = new {}
                assert.truthy(take(first))
                assert.same({ nil, "timeout" }, { take(new { timeout = 0 }) })
                assert.same({ nil, "timeout" }, { take(new { timeout = 0, block = true }) })
                assert(give(first))
            end)
        end)
    end
end)


describe("block in a callback of luv's loop", function ()
    after_each(process.clean_up)

    it("stops the loop until the lock is released", function ()
        local holder = process.start(HOLDER)
        assert.equal("taken", holder:hear())
        local child = process.start(COMMON .. [[
            local uv = require "luv"
            local ticks, ticker, once = 0, uv.new_timer(), uv.new_timer()
            ticker:start(1, 1, function () ticks = ticks + 1 end)
            once:start(20, 0, function ()
                local _, refused = resty_lock:new("spec_hosts"):lock("key")
                say(refused)
                local before = ticks
                local lock = resty_lock:new("spec_hosts", { block = true })
                say(lock:lock("key") > 0, lock:unlock(), ticks - before)
                ticker:close()
                once:close()
            end)
            uv.run()
        ]])
        assert.equal("cannot wait here (host luv): in a callback of the loop; start a coroutine there", child:hear())
        holder:say("release")
        assert.equal("true\t1\t0", child:hear())
        assert.equal(0, child:wait())
    end)
end)


describe("block in nginx", function ()
    local dict, held = fixture.site("spec_hosts")
    local it = fixture.it_unless(site.missing())

    before_each(function ()
        assert(held:lock("held"))
    end)

    it("waits until the timeout or a release in phases that cannot wait", function ()
        local probe = [[
            function probe(phase)
                local dict = require("resty.shdict").open("spec_hosts")
                local function new(options) return require("resty.lock"):new(dict, options) end
                local start = require("resty.holdfast.host.none").now()
                local _, err = new({ block = true, timeout = 0.05 }):lock("held")
                local waited = require("resty.holdfast.host.none").now() - start
                dict:set(phase, tostring(err) .. " " .. tostring(waited >= 0.05))
                if phase == "log" then
                    local lock = new({ block = true, timeout = 20 })
                    dict:set("got", lock:lock("held") and lock:unlock())
                end
            end
        ]]
        local here = site.start {
            http = "init_by_lua_block {" .. probe .. [[ probe "init" }
                init_worker_by_lua_block { probe "init_worker" }
            ]],
            locations = { ["/"] = {
                content = "ngx.print('done')",
                header_filter = "probe 'header_filter'",
                body_filter = "if not ngx.arg[2] then probe 'body_filter' end",
                log = "probe 'log'",
            } },
        }
        assert.equal("done", (here:get("/")))
        for _, phase in ipairs { "init", "init_worker", "header_filter", "body_filter", "log" } do
            assert.equal("timeout true", site.await(phase, function () return dict:get(phase) end), phase)
        end
        assert.is_nil(dict:get("got"))
        held:unlock()
        assert.equal(1, site.await("the log phase gets the lock", function () return dict:get("got") end))
    end)
end)
