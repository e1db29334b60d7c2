-- Tests what ps shows for the master and its workers, and which program name other processes see for the holder of a
-- lock.

local command = require "spec.support.command"

local await, read, write = command.await, command.read, command.write

-- Returns the words of the command line, which ps reads. A title is a single word that is followed by zero bytes.
local function title_of(pid)
    return (read("/proc/" .. pid .. "/cmdline"):gsub("%z+$", ""))
end


local function program_of(pid)
    return read("/proc/" .. pid .. "/comm"):match("^[^\n]*")
end


-- Starts workers that print their numbers and process ids, and run until they are stopped.
local WAIT = [[
    local worker = require "resty.holdfast.worker"
    print(worker.id() .. " " .. io.open("/proc/self/stat"):read("*n"))
    while not worker.exiting() do require("resty.holdfast.scheduler").sleep(0.005) end
]]

local function start(count, ...)
    local process = command.start("run", "--workers", tostring(count), ...)
    local pids = {}
    assert(await(function()
        local found = 0
        for id, pid in (process:out() or ""):gmatch("(%d+) (%d+)\n") do
            pids[tonumber(id)], found = pid, found + 1
        end
        return found == count
    end), process:err())
    return process, pids
end


describe("In the list of processes", function()
    command.fixture()

    it("each worker shows its number, the number of workers and the script, and so does the master", function()
        local script = write("script.lua", WAIT)
        local process, pids = start(3, script)
        for id = 0, 2 do
            assert.equal("holdfast: worker " .. id .. "/3 " .. script, title_of(pids[id]))
            assert.equal("script.lua", program_of(pids[id]))
        end
        assert.equal("holdfast: master " .. script, title_of(process.pid))
        assert.equal("holdfast", program_of(process.pid))
        process:signal(command.QUIT)
        assert.same({ code = 0 }, process:wait())
    end)

    it("the programs that a worker starts keep their own names", function()
        local script = write("script.lua", [[os.execute "cat /proc/self/comm /proc/self/cmdline"]])
        local _, out = command.run("run", "--workers", "1", script)
        assert.equal("cat\ncat\0/proc/self/comm\0/proc/self/cmdline\0", out)
    end)

    it("a worker that runs -e shows -e as the script", function()
        local _, pids = start(1, "-e", WAIT)
        assert.equal("holdfast: worker 0/1 -e", title_of(pids[0]))
        assert.equal("holdfast", program_of(pids[0]))
    end)

    it("a title is truncated if there is not enough room for it", function()
        local script = write("s.lua", WAIT)
        local shell = "cd " .. command.path("") .. " && exec env -i HOLDFAST_DIR=" .. command.world()
                      .. " bash -c 'exec -a h " .. command.program .. " run --workers=1 s.lua' "
        local process = command.start("-c", shell, { PROGRAM = "/bin/sh" })
        local pid = assert(await(function() return (process:out() or ""):match("^0 (%d+)\n") end), process:err())
        assert.matches("^holdfast: worker 0/1 ", title_of(pid))
        assert.equal("s.lua", program_of(pid))
        assert.truthy(script)
    end)

    it("a title changes neither the environment nor the arguments of a worker and its child programs", function()
        local script = write("script.lua", [[
            print(os.getenv "FIRST", os.getenv "LAST", ...)
            os.execute "echo $FIRST $LAST $HOLDFAST_WORKER"
        ]])
        local last = ("z"):rep(300)
        local _, out, err = command.run("run", "--workers", "1", script, "a", "b", { FIRST = "first", LAST = last })
        assert.equal("", err)
        assert.equal("first\t" .. last .. "\ta\tb\nfirst " .. last .. " 0\n", out)
    end)
end)


describe("The program of a holder", function()
    command.fixture()

    local HOLD = [[
        assert(require("resty.shdict").open("locks", { size = "100k" }))
        local lock = assert(require("resty.lock"):new("locks"))
        assert(lock:lock("key"))
        print(lock:holder("key").program)
    ]]

    local function luajit(...)
        local arguments = { "luajit", ... }
        arguments[#arguments + 1] = { PROGRAM = "/usr/bin/env" }
        local ended, out, err = command.run(unpack(arguments))
        assert.same({ code = 0 }, ended, err)
        return out
    end

    it("is the script's name, truncated to 15 bytes, in a worker and with luajit", function()
        local script, long = write("hold.lua", HOLD), write("a_long_name_of_a_script.lua", HOLD)
        for path, name in pairs { [script] = "hold.lua\n", [long] = "a_long_name_of_\n" } do
            local _, out, err = command.run("run", "--workers", "1", path)
            assert.equal(name, out, err)
            assert.equal(name, luajit(path))
        end
    end)

    it("is the interpreter if there is no script", function()
        assert.equal("luajit\n", luajit("-e", HOLD))
        assert.equal("luajit\n", luajit("-e", "arg = setmetatable({}, { __index = error }) " .. HOLD))
        local _, out = command.run("run", "--workers", "1", "-e", HOLD)
        assert.equal("holdfast\n", out)
    end)

    it("is the first name that the process gave itself", function()
        local script = write("hold.lua", [[
            local ffi = require "ffi"
            ffi.cdef "int holdfast_name_program(const char *name, size_t length);"
            local C = ffi.load(os.getenv "HOLDFAST_LIB")
            assert(C.holdfast_name_program("", 0) == 10)
            assert(C.holdfast_name_program("the first name of it", 20) == 0)
            assert(C.holdfast_name_program("second", 6) == 2)
        ]] .. HOLD)
        assert.equal("the first name \n", luajit(script))
    end)

    it("does not change the kernel's name for a luajit process", function()
        local script = write("comm.lua", HOLD .. 'io.write(io.open("/proc/self/comm"):read("*a"))')
        assert.equal("comm.lua\nluajit\n", luajit(script))
    end)
end)
