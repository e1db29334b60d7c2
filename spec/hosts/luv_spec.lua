-- Tests host/uv.lua with programs that run luv's loop. conformance_spec.lua tests the behaviour that all loops share.

local fixture, process = require "spec.support" ("fixture", "process")

local missing = not package.searchpath("luv", package.cpath) and "luv is not installed"
local it = fixture.it_unless(missing)


describe("in luv", function ()
    after_each(process.clean_up)

    it("a program that closes all handles during a wait continues without them, and its loops end", function ()
        local said, status = process.run([[
            local uv = require "luv"
            local resty_lock = require "resty.lock"
            assert(require("resty.shdict").open("spec_luv", { size = "200k" }))
            local function new(opts) return assert(resty_lock:new("spec_luv", opts)) end
            local function close_all()
                uv.walk(function (handle) if not handle:is_closing() then handle:close() end end)
            end
            local holder = new()
            for round = 1, 3 do
                assert(holder:lock("key"))
                for _ = 1, 3 do
                    coroutine.wrap(function () new({ timeout = 60 }):lock("key") error "never" end)()
                end
                close_all()
                uv.run()
                assert(holder:unlock())

                assert(holder:lock("other"))
                coroutine.wrap(function ()
                    local lock = new({ timeout = 60 })
                    assert(lock:lock("other"))
                    assert(lock:unlock())
                end)()
                local timer = uv.new_timer()
                timer:start(20, 0, function () timer:close() holder:unlock() end)
                uv.run()
                local last = new({ timeout = 5 })
                say(round, assert(last:lock("key")) < 1)
                assert(last:unlock())
            end
        ]], {})
        assert.equal("1\ttrue\n2\ttrue\n3\ttrue\n", said)
        assert.equal(0, status)
    end)
end)
