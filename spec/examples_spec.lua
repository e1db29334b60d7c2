-- Tests the output and the error messages of examples/stampede.lua, examples/fencing.lua and examples/accept_mutex.lua.

local command, row, shell, write_trace = require "spec.support" ("command", "rows", "shell", "trace")

local root = shell.output("pwd")
local STAMPEDE = root .. "/examples/stampede.lua"
local FENCING = root .. "/examples/fencing.lua"
local ACCEPT_MUTEX = root .. "/examples/accept_mutex.lua"

local environment = {
    HOLDFAST_LIB = os.getenv("HOLDFAST_LIB") or root .. "/build/libholdfast.so",
}

-- Runs an example with luajit, as a user does who does not have the command.
local function luajit(...)
    local arguments = { "luajit", ... }
    arguments[#arguments + 1] = { PROGRAM = "/usr/bin/env", HOLDFAST_LIB = environment.HOLDFAST_LIB }
    return command.run(unpack(arguments))
end

describe("examples/stampede.lua", function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    it("runs in one process, and opens its dictionaries itself", function ()
        local ended, out, err = luajit(STAMPEDE, write_trace(300, 20), "--backend-ms", "1", "--coroutines", "10")
        assert.same({ code = 0 }, ended, err)
        assert.truthy(out:find("10 coroutines in 1 process read the same text", 1, true))
        assert.equal(20, row(out, "backend calls")[1])
    end)

    it("counts words regardless of case, punctuation and alphabet", function ()
        local trace = command.write("trace.txt", "Élan, élan! The the THE the. don't\n--\tx1 naïve naïve")
        local ended, out = luajit(STAMPEDE, trace, "--backend-ms", "0")
        assert.same({ code = 0 }, ended)
        -- lower() leaves the É unchanged, so the words are the, don, t, x1, naïve, Élan and élan
        assert.same({ 11 * 25, 11 * 25 }, row(out, "requests"))
        assert.same({ 7, 7 }, row(out, "distinct words"))
    end)

    it("reads the text that Debian ships, or the license, when no trace is named", function ()
        local ended, out = luajit(STAMPEDE, "--backend-ms", "0", "--words", "200")
        assert.same({ code = 0 }, ended)
        assert.is_true(row(out, "requests")[1] > 100 * 25)
    end)

    it("makes as many concurrent calls as the backend has connections", function ()
        local trace = write_trace(20, 20)
        for _, connections in ipairs { 1, 8 } do
            local ended, out = luajit(STAMPEDE, trace, "--no-lock", "--coroutines", "8",
                                      "--connections", tostring(connections))
            assert.same({ code = 0 }, ended)
            -- Each call takes 5 ms. The report rounds to hundredths of a second.
            local least = row(out, "backend calls")[1] * 0.005 / connections
            assert.is_true(row(out, "seconds")[1] >= least - 0.01, out)
        end
    end)

    it("on request, runs only without the lock", function ()
        local ended, out = luajit(STAMPEDE, write_trace(300, 20), "--no-lock")
        assert.same({ code = 0 }, ended)
        assert.equal(1, #row(out, "requests"))
        assert.is_nil(out:find("resty.lock", 1, true))
    end)

    it("prints no progress into a pipe or a file", function ()
        local _, out, err = luajit(STAMPEDE, write_trace(300, 20))
        assert.is_nil((out .. err):find("[\r\27]"))
    end)

    it("prints progress on a terminal", function ()
        local line = ("luajit %s %s"):format(STAMPEDE, write_trace(300, 20))
        local ended = command.run("-qec", line, "/dev/null",
            { PROGRAM = "/usr/bin/script", HOLDFAST_LIB = environment.HOLDFAST_LIB })
        assert.same({ code = 0 }, ended)
        assert.truthy(command.files("%.out$")[1])
        local out = command.read(command.files("%.out$")[1])
        assert.truthy(out:find("with resty.lock: %d+ of 200 words, %d+ backend calls"), out)
    end)

    for _, case in ipairs({
        { { "--backend-ms" }, "--backend-ms: expected a number from 0 to 10000, got nothing" },
        { { "--backend-ms", "x" }, '--backend-ms: expected a number from 0 to 10000, got "x"' },
        { { "--backend-ms", "nan" }, '--backend-ms: expected a number from 0 to 10000, got "nan"' },
        { { "--connections", "0" }, '--connections: expected a number from 1 to 1000, got "0"' },
        { { "--coroutines", "0" }, '--coroutines: expected a number from 1 to 1000, got "0"' },
        { { "--coroutines", "2.5" }, "--coroutines: expected a whole number, got 2.5" },
        { { "--words", "0" }, '--words: expected a number from 1 to 1000000, got "0"' },
        { { "--words", "1.5" }, "--words: expected a whole number, got 1.5" },
        { { "--fast" }, 'unknown option "--fast"' },
        { { "a", "b" }, 'expected one trace, got two: "a" and "b"' },
    }) do
        it("refuses " .. table.concat(case[1], " "), function ()
            local ended, out, err = luajit(STAMPEDE, unpack(case[1]))
            assert.same({ code = 2 }, ended)
            assert.equal("", out)
            assert.truthy(err:find("stampede: " .. case[2] .. "\nUsage: ", 1, true), err)
        end)
    end

    it("names the trace that it cannot read", function ()
        local ended, _, err = luajit(STAMPEDE, "no_such_file")
        assert.same({ code = 1 }, ended)
        assert.equal("stampede: cannot read the trace: no_such_file: No such file or directory\n", err)
        ended, _, err = luajit(STAMPEDE, "/tmp")
        assert.same({ code = 1 }, ended)
        assert.equal("stampede: cannot read the trace: /tmp: Is a directory\n", err)
        ended, _, err = luajit(STAMPEDE, "/dev/null")
        assert.same({ code = 1 }, ended)
        assert.equal("stampede: there is no word in /dev/null\n", err)
    end)

    it("prints its help", function ()
        local ended, out, err = luajit(STAMPEDE, "--help")
        assert.same({ code = 0 }, ended)
        assert.equal("", err)
        assert.matches("^Usage: stampede.lua %[TRACE%]", out)
    end)
end)

describe("examples/accept_mutex.lua", function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    it("wakes all workers for each connection without the lock, but only one with the lock", function ()
        local ended, out, err = luajit(ACCEPT_MUTEX, "--workers", "3", "--connections", "60")
        assert.same({ code = 0 }, ended, err)
        assert.equal("", err)
        local woken = row(out, "workers woken by the socket")
        -- Usually, three workers are woken without the lock, and one with the lock. But a connection may arrive before
        -- a worker sleeps in poll().
        assert.is_true(woken[1] > 1.5, out)
        assert.is_true(woken[2] < 1.5, out)
        assert.same({ 1, 1 }, row(out, "connections accepted"))
    end)

    it("refuses bad options", function ()
        for _, arguments in ipairs({ { "--workers" }, { "--workers", "0" }, { "--connections", "1e9" }, { "x" } }) do
            local ended, out, err = luajit(ACCEPT_MUTEX, unpack(arguments))
            assert.same({ code = 2 }, ended)
            assert.equal("", out)
            assert.truthy(err:find("accept_mutex: bad option: " .. arguments[1], 1, true), err)
            assert.truthy(err:find("Usage: accept_mutex.lua", 1, true))
        end
    end)
end)

describe("examples/fencing.lua", function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    it("the store that checks the token refuses the write of a worker that has lost the lock", function ()
        local ended, out, err = luajit(FENCING)
        assert.same({ code = 0 }, ended, err)
        assert.equal("", err)
        assert.equal([[
a store that takes everything
  the quick one has the lock: written
  the slow one has lost the lock: written
  in the end: by the slow one
a store that looks at the token
  the quick one has the lock: written
  the slow one has lost the lock: stale
  in the end: by the quick one
]], out)
    end)
end)
