-- Tests resty.holdfast.wait.parker, in which a Lua state sleeps until it is woken, alone or in an event loop.

local core = require "resty.holdfast.core"
local parker = require "resty.holdfast.wait.parker"
local process = require "spec.support.process"

local C = core.C


describe("parker", function ()
    after_each(process.clean_up)

    it("is the same for the whole Lua state", function ()
        local first = parker.get()
        assert.equal(first, parker.get())
        assert.is_true(parker.is_mine(first))
    end)

    it("is replaced by a new parker in a forked child, which does not affect the parent's", function ()
        assert.equal("child\ttrue\ttrue\nparent\ttrue\n", (process.run(process.FORK .. [[
            local parker = require "resty.holdfast.wait.parker"
            local C = require("resty.holdfast.core").C
            local mine = parker.get()
            local waiter = C.holdfast_waiter_open(mine)
            in_child(function ()
                say("child", not parker.is_mine(mine), parker.get() ~= mine)
                os.exit(0, true)
            end)
            parker.sleep(0)
            C.holdfast_waiter_close(mine, waiter)
            say("parent", parker.is_mine(mine))
        ]])))
    end)

    it("sleeps for the given number of seconds in steps, of which a wake-up or a signal ends only one", function ()
        local start, steps = C.holdfast_now(), 0
        parker.for_seconds(0.02, function (left)
            assert.is_true(left > 0 and left <= 0.02)
            steps = steps + 1
            parker.sleep(math.min(left, 0.002))
        end)
        assert.is_true(C.holdfast_now() - start >= 0.02)
        assert.is_true(steps > 1)

        steps = 0
        parker.for_seconds(60, function () steps = steps + 1 end, function () return steps == 3 end)
        assert.equal(3, steps)
    end)

    it("calls only the listener of the waiter that is woken", function ()
        local shdict = require "resty.shdict"
        local dict = assert(shdict.open("spec_locks", { size = "1m" }))
        dict:flush_all()
        local ffi = require "ffi"
        local held, wanted = ffi.new("holdfast_lease"), ffi.new("holdfast_lease")
        local here = parker.get()
        local first, second = C.holdfast_waiter_open(here), C.holdfast_waiter_open(here)
        local wait = ffi.new("holdfast_wait")
        wait.parker, wait.waiter = here, second
        local told = {}
        for _, waiter in ipairs { first, second } do
            parker.listen(waiter, { wake = function () told[#told + 1] = waiter end })
        end
        assert.is_true(parker.has_listeners())
        assert.equal(core.OK, C.holdfast_lock_try(dict[1], "key", 3, 0, 0, 0, held))
        assert.equal(core.LOCKED, C.holdfast_lock_wait(dict[1], "key", 3, 0, wait, wanted))
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

    describe("with a descriptor, in an event loop", function ()
        -- Prepended to each child: a lock that a different process holds, and poll(2) for the descriptor.
        local LOOP = [[
            local ffi = require "ffi"
            ffi.cdef "struct pollfd { int fd; short events, revents; }; int poll(struct pollfd *, unsigned long, int);"
            local core = require "resty.holdfast.core"
            local parker = require "resty.holdfast.wait.parker"
            local dict = require("resty.shdict").open("spec_parker", { size = "1m" })
            local C = core.C
            local here = parker.get()
            local wait, lease = ffi.new("holdfast_wait"), ffi.new("holdfast_lease")
            wait.parker, wait.waiter = here, C.holdfast_waiter_open(here)
            local function try() return core.C.holdfast_lock_wait(dict[1], "key", 3, 0, wait, lease) end
            local function readable(fd, ms)
                local item = ffi.new("struct pollfd", fd, 1, 0)
                return ffi.C.poll(item, 1, ms) == 1
            end
            local fd = C.holdfast_parker_fd(here)
        ]]
        local holder

        before_each(function ()
            assert(require("resty.shdict").open("spec_parker", { size = "1m" }))
            holder = process.start_holder('require("resty.lock"):new("spec_parker")', "lock", "unlock")
        end)

        it("is readable from another process's release until the parker's next sleep", function ()
            local waiter = process.start(LOOP .. [[
                say(fd >= 0, try() == core.LOCKED, readable(fd, 30))
                say(readable(fd, 20000), readable(fd, 0))
                local told = 0
                parker.listen(wait.waiter, { wake = function () told = told + 1 end })
                parker.sleep(0)
                say(told, readable(fd, 0), try() == core.OK)
            ]])
            assert.equal("true\ttrue\tfalse", waiter:hear())
            holder:say("release")
            assert.equal("true\ttrue", waiter:hear())
            assert.equal("1\tfalse\ttrue", waiter:hear())
        end)

        it("can instead send a byte over a connection with itself", function ()
            local waiter = process.start(LOOP .. [[
                ffi.cdef "struct address { unsigned short family; char path[108]; };"
                ffi.cdef "int socket(int, int, int); int connect(int, const struct address *, unsigned int);"
                ffi.cdef "ssize_t recv(int, void *, size_t, int);"
                local function connect(path)
                    local address = ffi.new("struct address", 1, path)
                    local stream = ffi.C.socket(1, 1, 0)
                    return ffi.C.connect(stream, address, ffi.sizeof(address)) == 0 and stream
                end
                local buffer = ffi.new("char[16]")
                local function bytes(stream, ms)
                    return readable(stream, ms) and tonumber(ffi.C.recv(stream, buffer, 16, 0)) or 0
                end
                local path = parker.listen_at()
                say((select(2, parker.accept()):match(": (.*)$")))
                local stream = connect(path)
                say(parker.accept(), connect(path), try() == core.LOCKED, bytes(stream, 30))
                say(bytes(stream, 20000))
                local told = 0
                parker.listen(wait.waiter, { wake = function () told = told + 1 end })
                parker.sleep(0)
                say(told, bytes(stream, 0), try() == core.OK)
                parker.timer(0.02)
                say(bytes(stream, 20000))
                parker.disconnect()
                parker.disconnect()
                say(readable(stream, 0), bytes(stream, 0))
            ]])
            assert.equal("nobody has connected", waiter:hear())
            assert.equal("true\tfalse\ttrue\t0", waiter:hear())
            holder:say("release")
            assert.equal("1", waiter:hear())
            assert.equal("1\t0\ttrue", waiter:hear())
            assert.equal("1", waiter:hear())
            assert.equal("true\t0", waiter:hear())
            assert.is_nil(waiter:hear())
        end)

        it("lets the process end in any way while the wake thread listens", function ()
            for _, ending in ipairs { "os.exit(7)", "os.exit(7, true)", "C.exit(7)", "ffi.C.raise(15)" } do
                local text, status = process.run(LOOP .. [[
                    ffi.cdef "void exit(int); int raise(int);"
                    C = ffi.C
                    say(try() == core.LOCKED)
                ]] .. ending)
                assert.equal("true\n", text, ending)
                assert.equal(ending:find("raise", 1, true) and -15 or 7, status, ending)
            end
        end)

        it("keeps the code of the thread mapped when the library is collected", function ()
            assert.equal("true\ttrue\ttrue\n", (process.run [[
                local ffi = require "ffi"
                ffi.cdef "int usleep(unsigned int);"
                local core = require "resty.holdfast.core"
                local function mapped()
                    for line in io.lines("/proc/self/maps") do
                        if line:find("libholdfast", 1, true) then
                            return true
                        end
                    end
                    return false
                end
                local function threads()
                    local file = io.open("/proc/self/status")
                    local count = tonumber(file:read("*a"):match("Threads:%s+(%d+)"))
                    file:close()
                    return count
                end
                local parker = core.C.holdfast_parker_new()
                assert(core.C.holdfast_parker_timer(parker, 0.3) == 0)
                say(threads() == 2, mapped(), (function ()
                    for name in pairs(package.loaded) do
                        if name:find("^resty") then package.loaded[name] = nil end
                    end
                    core, parker = nil, nil
                    collectgarbage()
                    collectgarbage()
                    ffi.C.usleep(500000) -- the thread makes the descriptor readable, for which its code must be mapped
                    return mapped()
                end)())
            ]]))
        end)
    end)

    it("reports why there is no descriptor", function ()
        local text = process.run([[
            local scheduler = require "resty.holdfast.scheduler"
            local ok, err = pcall(scheduler.sleep, 0.01)
            say(ok, err)
        ]], { env = { HOLDFAST_DIR = "/proc" } })
        assert.matches("^false\tholdfast: cannot sleep: .*/proc", text)
    end)
end)
