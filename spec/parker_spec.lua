local core = require "resty.holdfast.core"
local parker = require "resty.holdfast.parker"
local process = require "spec.support.process"

local C = core.C


describe("parker", function ()
    after_each(process.clean_up)


    it("is one per Lua state", function ()
        local first = parker.get()
        assert.equal(first, parker.get())
        assert.is_true(parker.is_mine(first))
    end)


    it("is another one in a forked child, which leaves its parent's alone", function ()
        assert.equal("child true true\nparent true\n", (process.run [[
            local ffi = require "ffi"
            ffi.cdef "int fork(void); int waitpid(int, int *, int);"
            local parker = require "resty.holdfast.parker"
            local C = require("resty.holdfast.core").C
            local mine = parker.get()
            local waiter = C.holdfast_waiter_open(mine)
            local pid = ffi.C.fork()
            if pid == 0 then
                local ours = not parker.is_mine(mine)
                local other = parker.get()
                say("child " .. tostring(ours) .. " " .. tostring(other ~= mine))
                os.exit(0, true)
            end
            ffi.C.waitpid(pid, nil, 0)
            parker.sleep(0)
            C.holdfast_waiter_close(mine, waiter)
            say("parent " .. tostring(parker.is_mine(mine)))
        ]]))
    end)


    it("sleeps as long as it is told when nothing comes", function ()
        local start = C.holdfast_now()
        repeat
            parker.sleep(0.02)
        until C.holdfast_now() - start >= 0.02
        parker.sleep(0)
    end)


    it("tells who listens to a waiter that it is woken, and nobody else", function ()
        local shdict = require "resty.shdict"
        local dict = assert(shdict.open("spec_locks", { size = "1m" }))
        dict:flush_all()
        local ffi = require "ffi"
        local held, wanted = ffi.new("holdfast_lease"), ffi.new("holdfast_lease")
        local pause = ffi.new("double[1]")
        local here = parker.get()
        local first, second = C.holdfast_waiter_open(here), C.holdfast_waiter_open(here)
        local told = {}
        for _, waiter in ipairs { first, second } do
            parker.listen(waiter, { wake = function () told[#told + 1] = waiter end })
        end
        assert.is_true(parker.has_listeners())
        assert.equal(core.OK, C.holdfast_lock_try(dict[1], "key", 3, 0, held))
        assert.equal(core.LOCKED, C.holdfast_lock_wait(dict[1], "key", 3, 0, here, second, wanted, pause))
        parker.sleep(0)
        assert.same({}, told)
        assert.equal(core.OK, C.holdfast_unlock(dict[1], "key", 3, held))
        parker.sleep(5)
        assert.same({ second }, told)
        C.holdfast_lock_leave(dict[1], "key", 3, here, second)
        for _, waiter in ipairs { first, second } do
            parker.forget(waiter)
            C.holdfast_waiter_close(here, waiter)
        end
        assert.is_false(parker.has_listeners())
    end)


    it("says why it cannot be had", function ()
        local text = process.run([[
            local scheduler = require "resty.holdfast.scheduler"
            local ok, err = pcall(scheduler.sleep, 0.01)
            say(ok, err)
        ]], { env = { HOLDFAST_DIR = "/proc" } })
        assert.matches("^false\tholdfast: cannot sleep: .*/proc", text)
    end)
end)
