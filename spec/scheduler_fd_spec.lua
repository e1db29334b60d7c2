-- resty.holdfast.scheduler.wait_fd: tasks that wait for descriptors, so that a socket library can be driven.

local ffi = require "ffi"
local process = require "spec.support.process"
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"

local now, sleep, spawn, wait_fd = scheduler.now, scheduler.sleep, scheduler.spawn, scheduler.wait_fd

local C = ffi.C


-- Both ends of a pipe.
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


    it("waits until there is something to read, and lets the others run", function ()
        local from, to = new_pipe()
        local order = {}
        spawn(function ()
            local answer = tostring(wait_fd(from, "r", 30))
            order[#order + 1] = answer
        end)
        spawn(function ()
            order[#order + 1] = "others"
            sleep(0.01)
            write(to)
        end)
        assert.is_true(scheduler.run())
        assert.same({ "others", "true" }, order)
    end)

    it("is at once where one can read or write already", function ()
        local from, to = new_pipe()
        write(to)
        local got = {}
        spawn(function () got[1], got[2] = wait_fd(from, "r", 30), wait_fd(to, "w") end)
        assert.is_true(scheduler.run())
        assert.same({ true, true }, got)
    end)

    it("is also woken where the other side has gone", function ()
        local from, to = pipe()
        open[1] = from
        local got
        spawn(function () got = wait_fd(from, "r", 30) end)
        spawn(function () sleep(0.005) C.close(to) end)
        assert.is_true(scheduler.run())
        assert.is_true(got)
    end)

    it("ends with \"timeout\" when its time is over and not before", function ()
        local from = new_pipe()
        local start, got = now(), nil
        spawn(function () got = { wait_fd(from, "r", 0.02) } end)
        assert.is_true(scheduler.run())
        assert.same({ nil, "timeout" }, got)
        assert.is_true(now() - start >= 0.02)
        assert.same({ nil, "timeout" }, { wait_fd(from, "r", 0.001) })
    end)

    it("says what is no descriptor", function ()
        local from, to = pipe()
        C.close(from)
        C.close(to)
        local got
        spawn(function () got = { wait_fd(from, "r", 30) } end)
        assert.is_true(scheduler.run())
        assert.same({ nil, "bad descriptor" }, got)
        assert.same({ nil, "bad descriptor" }, { wait_fd(from, "r", 30) })
    end)

    it("of many tasks wakes each for its own", function ()
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

    it("of two tasks for one descriptor wakes both", function ()
        local from, to = new_pipe()
        local woken = 0
        for _ = 1, 2 do
            spawn(function () assert(wait_fd(from, "r", 30)) woken = woken + 1 end)
        end
        spawn(function () sleep(0.005) write(to) end)
        assert.is_true(scheduler.run())
        assert.equal(2, woken)
    end)

    it("keeps nobody from a lock that another process releases, nor from timers", function ()
        local dict = assert(shdict.open("spec_fd", { size = "100k" }))
        dict:flush_all()
        local child = process.start [[
            local lock = require("resty.lock"):new("spec_fd")
            assert(lock:lock("key"))
            say "has it"
            hear()
            assert(lock:unlock())
            say "released"
        ]]
        child:expect "has it"
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

    it("refuses what is no descriptor, no mode and no time", function ()
        local function message(...)
            local ok, err = pcall(wait_fd, ...)
            assert.is_false(ok)
            return err
        end
        for _, fd in ipairs { -1, 0.5, "0", {}, 0 / 0 } do
            assert.matches("bad descriptor to wait_fd: a whole number, 0 or more, expected, got", message(fd, "r"), 1,
                           true)
        end
        for _, mode in ipairs { "rw", 1, {} } do
            assert.matches('bad mode to wait_fd: "r" or "w" expected, got', message(0, mode), 1, true)
        end
        assert.matches("bad seconds to wait_fd: a number, 0 or more, expected, got -1", message(0, "r", -1), 1, true)
    end)
end)
