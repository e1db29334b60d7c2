-- Tests wait/parker.lua with descriptors: in resty.holdfast.scheduler.wait_fd, which socket libraries can use, tasks
-- wait for descriptors.

local ffi = require "ffi"
local process = require "spec.support.process"
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"

local now, sleep, spawn, wait_fd = scheduler.now, scheduler.sleep, scheduler.spawn, scheduler.wait_fd

local C = ffi.C

ffi.cdef "int socketpair(int domain, int type, int protocol, int *ends);"


-- Returns both ends of a pipe.
local function pipe()
    local ends = ffi.new("int[2]")
    assert(C.pipe(ends) == 0)
    return ends[0], ends[1]
end


describe("scheduler.wait_fd", function ()
    local open

    local function new_pipe()
        local from, to = pipe()
        open[#open + 1], open[#open + 2] = from, to
        return from, to
    end

    before_each(function () open = {} end)

    after_each(function ()
        process.clean_up()
        for _, fd in ipairs(open) do
            C.close(fd)
        end
    end)

    local function write(fd)
        assert(C.write(fd, "x", 1) == 1)
    end

    it("waits until there is something to read, and lets other tasks run", function ()
        local from, to = new_pipe()
        local order = {}
        spawn(function ()
            local answer = tostring(wait_fd(from, "r", 30))
            order[#order + 1] = answer
        end)
        spawn(function () order[#order + 1] = "others" sleep(0.01) write(to) end)
        assert.is_true(scheduler.run())
        assert.same({ "others", "true" }, order)
    end)

    it("returns immediately if the descriptor is already ready", function ()
        local from, to = new_pipe()
        write(to)
        local got = {}
        spawn(function () got[1], got[2] = wait_fd(from, "r", 30), wait_fd(to, "w") end)
        assert.is_true(scheduler.run())
        assert.same({ true, true }, got)
    end)

    it("also returns if the other side is gone", function ()
        local from, to = pipe()
        open[1] = from
        local got
        spawn(function () got = wait_fd(from, "r", 30) end)
        spawn(function () sleep(0.005) C.close(to) end)
        assert.is_true(scheduler.run())
        assert.is_true(got)
    end)

    it("ends with \"timeout\" when its time is over, and not earlier", function ()
        local from = new_pipe()
        local start, got = now(), nil
        spawn(function () got = { wait_fd(from, "r", 0.02) } end)
        assert.is_true(scheduler.run())
        assert.same({ nil, "timeout" }, got)
        assert.is_true(now() - start >= 0.02)
        assert.same({ nil, "timeout" }, { wait_fd(from, "r", 0.001) })
    end)

    it("reports an invalid descriptor", function ()
        local from, to = pipe()
        C.close(from)
        C.close(to)
        local got
        spawn(function () got = { wait_fd(from, "r", 30) } end)
        assert.is_true(scheduler.run())
        assert.same({ nil, "bad descriptor" }, got)
        assert.same({ nil, "bad descriptor" }, { wait_fd(from, "r", 30) })
        for _, fd in ipairs { 1e6, 2 ^ 31 - 1, 2 ^ 31, 2 ^ 32 + 5, 1e300 } do
            spawn(function () got = { wait_fd(fd, "r", 30) } end)
            assert.is_true(scheduler.run())
            assert.same({ nil, "bad descriptor" }, got)
            assert.same({ nil, "bad descriptor" }, { wait_fd(fd, "r", 30) })
        end
    end)

    it("polls with timeout 0, and waits forever with math.huge", function ()
        local from, to = new_pipe()
        local got = {}
        local endless = spawn(function () return wait_fd(from, "r", math.huge) end)
        spawn(function ()
            got[1] = { wait_fd(from, "r", 0) }
            sleep(0.02)
            got[2] = endless:status()
            write(to)
            got[3] = { endless:join() }
            got[4] = { wait_fd(from, "r", 0) }
        end)
        assert.is_true(scheduler.run())
        assert.same({ { nil, "timeout" }, "waiting", { true, true }, { true } }, got)
        assert.is_true(wait_fd(from, "r", 0))
        assert.is_true(wait_fd(from, "r", math.huge))
    end)

    it("continues after a signal, both in a task and in a process without tasks", function ()
        local text = process.run [[
            local ffi = require "ffi"
            ffi.cdef "int pipe(int *); void (*signal(int, void (*)(int)))(int); int getpid(void);"
            local ends = ffi.new("int[2]")
            assert(ffi.C.pipe(ends) == 0)
            local scheduler = require "resty.holdfast.scheduler"
            -- Installs a handler that is not Lua code, but a harmless C function.
            ffi.C.signal(10, ffi.cast("void (*)(int)", ffi.C.getpid))
            os.execute("for i in 1 2 3 4 5; do sleep 0.02; kill -USR1 " .. ffi.C.getpid() .. "; done &")
            local function wait()
                local start = scheduler.now()
                local answer, why = scheduler.wait_fd(ends[0], "r", 0.3)
                say(answer, why, scheduler.now() - start >= 0.3)
            end
            wait()
            os.execute("for i in 1 2 3 4 5; do sleep 0.02; kill -USR1 " .. ffi.C.getpid() .. "; done &")
            scheduler.spawn(wait)
            scheduler.run()
        ]]
        assert.equal("nil\ttimeout\ttrue\nnil\ttimeout\ttrue\n", text)
    end)

    -- Each wait is an entry in a call to poll(2), which does not accept more entries than the process may have
    -- descriptors.
    it("works for more tasks than the process may have descriptors", function ()
        local text = process.run [[
            local ffi = require "ffi"
            ffi.cdef "int pipe(int *); int setrlimit(int, const uint64_t *); ssize_t write(int, const char *, size_t);"
            assert(ffi.C.setrlimit(7, ffi.new("uint64_t[2]", 64, 64)) == 0)
            local scheduler = require "resty.holdfast.scheduler"
            local ends = ffi.new("int[2]")
            assert(ffi.C.pipe(ends) == 0)
            local woken, closed, ticks = 0, 0, 0
            for i = 1, 300 do
                scheduler.spawn(function ()
                    local ok, err = scheduler.wait_fd(i <= 200 and ends[0] or 1000 + i, "r", 30)
                    woken = woken + (ok and 1 or 0)
                    closed = closed + (err == "bad descriptor" and 1 or 0)
                end)
            end
            scheduler.spawn(function ()
                for _ = 1, 5 do
                    scheduler.sleep(0.01)
                    ticks = ticks + 1
                end
                say(woken, closed, ticks)
                assert(ffi.C.write(ends[1], "x", 1) == 1)
            end)
            scheduler.run()
            say(woken, closed, ticks)
        ]]
        assert.equal("0\t100\t5\n200\t100\t5\n", text)
    end)

    it("uses no processor time while nothing is ready", function ()
        local from, to = new_pipe()
        local start = os.clock()
        spawn(function () assert(wait_fd(from, "r", 60)) end)
        spawn(function () sleep(0.5) write(to) end)
        assert.is_true(scheduler.run())
        assert.is_true(os.clock() - start < 0.1)
    end)

    it("continues in a forked child", function ()
        local text = process.run [[
            local ffi = require "ffi"
            ffi.cdef "int pipe(int *); int fork(void); int waitpid(int, int *, int);"
            ffi.cdef "ssize_t write(int, const char *, size_t);"
            local scheduler = require "resty.holdfast.scheduler"
            local resty_lock = require "resty.lock"
            assert(require("resty.shdict").open("spec_fd_fork", { size = "100k" }))
            local ends = ffi.new("int[2]")
            assert(ffi.C.pipe(ends) == 0)
            local keeper = resty_lock:new("spec_fd_fork")
            assert(keeper:lock("key"))
            local got
            scheduler.spawn(function () got = scheduler.wait_fd(ends[0], "r", 30) end)
            scheduler.spawn(function ()
                local lock = resty_lock:new("spec_fd_fork", { timeout = 30 })
                assert(lock:lock("key"))
                assert(lock:unlock())
                assert(ffi.C.write(ends[1], "x", 1) == 1)
            end)
            local release = scheduler.spawn(function () scheduler.sleep(0.05) end)
            release:join()
            local child = ffi.C.fork()
            if child == 0 then
                local turn = scheduler.spawn(function () scheduler.sleep(0.02) end)
                turn:join()
                io.write("child waits: ", tostring(got == nil), "\n")
                io.stdout:flush()
                os.exit(true, false)
            end
            ffi.C.waitpid(child, nil, 0)
            assert(keeper:unlock())
            scheduler.run()
            say(got)
        ]]
        assert.equal("child waits: true\ntrue\n", text)
    end)

    it("wakes each of many tasks for its own descriptor", function ()
        local count, read, woken = 400, {}, {}
        for i = 1, count do
            local from, to = new_pipe()
            read[i] = to
            spawn(function ()
                assert(wait_fd(from, "r", 60))
                woken[#woken + 1] = i
            end)
        end
        spawn(function ()
            for i = count, 1, -1 do
                write(read[i])
                sleep(0)
            end
        end)
        assert.is_true(scheduler.run())
        assert.equal(count, #woken)
        table.sort(woken)
        for i = 1, count do
            assert.equal(i, woken[i])
        end
    end)

    it("wakes a task that reads a descriptor and a task that writes it separately", function ()
        local ends = ffi.new("int[2]")
        assert(C.socketpair(1, 1, 0, ends) == 0)
        open[#open + 1], open[#open + 2] = ends[0], ends[1]
        local order = {}
        spawn(function ()
            assert(wait_fd(ends[0], "r", 30))
            order[#order + 1] = "read"
        end)
        spawn(function ()
            assert(wait_fd(ends[0], "w", 30))
            order[#order + 1] = "written"
            sleep(0.005)
            write(ends[1])
        end)
        assert.is_true(scheduler.run())
        assert.same({ "written", "read" }, order)
    end)

    it("wakes both of two tasks that wait for the same descriptor", function ()
        local from, to = new_pipe()
        local woken = 0
        for _ = 1, 2 do
            spawn(function () assert(wait_fd(from, "r", 30)) woken = woken + 1 end)
        end
        spawn(function () sleep(0.005) write(to) end)
        assert.is_true(scheduler.run())
        assert.equal(2, woken)
    end)

    it("does not delay locks that another process releases, nor timers", function ()
        local dict = assert(require("resty.shdict").open("spec_fd", { size = "100k" }))
        dict:flush_all()
        local child = process.start_holder('require("resty.lock"):new("spec_fd")', "lock", "unlock")
        local from, to = new_pipe()
        local elapsed, ticks = nil, 0
        spawn(function () assert(wait_fd(from, "r", 60)) end)
        spawn(function ()
            elapsed = assert(resty_lock:new("spec_fd", { timeout = 30 }):lock("key"))
            write(to)
        end)
        spawn(function ()
            for _ = 1, 10 do
                sleep(0.001)
                ticks = ticks + 1
            end
            child:say "go on"
        end)
        assert.is_true(scheduler.run())
        assert.is_true(elapsed > 0)
        assert.equal(10, ticks)
    end)

    it("is ended by cancel", function ()
        local from = new_pipe()
        local task = spawn(function () wait_fd(from, "r") end)
        spawn(function () sleep(0.005) scheduler.cancel(task) end)
        assert.is_true(scheduler.run())
        assert.equal("cancelled", task:status())
    end)

    it("refuses invalid descriptors, modes and times", function ()
        local function message(...)
            local ok, err = pcall(wait_fd, ...)
            assert.is_false(ok)
            return err
        end
        for _, fd in ipairs { -1, 0.5, "0", {}, 0 / 0 } do
            assert.matches("bad descriptor to wait_fd: expected a whole number, 0 or more, got", message(fd, "r"), 1,
                           true)
        end
        for _, mode in ipairs { "rw", 1, {} } do
            assert.matches('bad mode to wait_fd: expected "r" or "w", got', message(0, mode), 1, true)
        end
        assert.matches("bad seconds to wait_fd: expected a number, 0 or more, got -1", message(0, "r", -1), 1, true)
    end)
end)
