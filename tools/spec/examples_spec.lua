-- Tests examples/stampede.lua in workers of `holdfast run`.

local command, row, write_trace = require "spec.support" ("command", "rows", "trace")

local STAMPEDE = command.repository .. "/examples/stampede.lua"

local function run_workers(count, ...)
    return command.run("run", "--workers", tostring(count), ...)
end

describe("examples/stampede.lua", function ()
    command.fixture()

    it("calls the backend once per distinct word with the lock, and more often without the lock", function ()
        local trace = write_trace(1000, 40)
        local ended, out, err = run_workers(3, "--dict", "stampede_locks=1m", "--dict", "stampede_cache=1m",
            STAMPEDE, trace, "--words", "1000")
        assert.same({ code = 0 }, ended, err)
        assert.equal("", err)
        assert.same({ 75000, 75000 }, row(out, "requests"))
        assert.same({ 40, 40 }, row(out, "distinct words"))
        local calls = row(out, "backend calls")
        assert.equal(40, calls[1])
        assert.is_true(calls[2] > 2 * 40)
        assert.equal(0, row(out, "words computed more than once")[1])
        local all = ("With the lock each of the 40 words was computed once: %d calls -> 40,"):format(calls[2])
        assert.truthy(out:find(all, 1, true), out)
    end)

    it("leaves nothing behind for the next run in the same directory", function ()
        local keeper = command.start("luajit", "-e", [[
            local shdict = require "resty.shdict"
            local cache = shdict.open("stampede_cache", { size = "4m" })
            local locks = shdict.open("stampede_locks", { size = "1m" })
            cache:set("kept", true)
            io.open(os.getenv "KEPT", "w"):close()
            while not cache:get("over") do require("resty.holdfast.scheduler").sleep(0.01) end
            for _, key in ipairs(cache:get_keys(0)) do
                if key:find("word") or key:find("calls") then print(key) end
            end
        ]], { PROGRAM = "/usr/bin/env", KEPT = command.path("kept") })
        assert.truthy(command.await(function() return command.read("kept") end), keeper:err())
        local trace = write_trace(300, 20)
        for _ = 1, 2 do
            local ended, out = run_workers(2, STAMPEDE, trace)
            assert.same({ code = 0 }, ended)
            assert.equal(20, row(out, "backend calls")[1])
        end
        command.run("luajit", "-e", [[require("resty.shdict").shared.stampede_cache:set("over", true)]],
                    { PROGRAM = "/usr/bin/env" })
        assert.same({ code = 0 }, keeper:wait())
        assert.equal("", keeper:out())
    end)

    it("does not wait for a worker that was killed", function ()
        local process = command.start("run", "--workers", "3", STAMPEDE, write_trace(2000, 40), "--backend-ms", "100")
        local children = "/proc/" .. process.pid .. "/task/" .. process.pid .. "/children"
        local victim = command.await(function ()
            local pids = {}
            for pid in (command.read(children) or ""):gmatch("%d+") do
                pids[#pids + 1] = tonumber(pid)
            end
            return #pids == 3 and command.read("/proc/" .. pids[3] .. "/comm"):find("stampede") and pids[3]
        end)
        command.sleep(0.3)
        command.kill(victim, command.KILL)
        assert.same({ code = 1 }, process:wait())
        assert.truthy(process:err():find("was killed by signal 9", 1, true))
        assert.truthy(process:err():find("stampede: worker %d ended before its requests were answered"), process:err())
    end)

    it("reports a mistake once, whatever the number of workers", function ()
        local ended, _, err = run_workers(3, STAMPEDE, "--fast")
        assert.same({ code = 1 }, ended)
        assert.equal(1, select(2, err:gsub("unknown option", "")))
    end)
end)
