-- Tests cluster/examples: the short demonstration and its checks, and that it leaves nothing behind.

local command, fixture, process, row, shell =
    require "spec.support" ("command", "fixture", "process", "rows", "shell")

local root = shell.output("pwd")
local FOLDER = root .. "/cluster/examples"
local BUILD = shell.output("dirname -- \"${HOLDFAST_LIB:-" .. root .. "/build/libholdfast.so}\"")
local missing = not shell.succeeds("command -v etcd >/dev/null") and "etcd is not installed"
                or not shell.succeeds("[ -x '" .. BUILD .. "/holdfast-agent' ]") and "there is no agent"
                or not shell.succeeds("command -v curl >/dev/null") and "curl is not installed"
                or nil


describe("cluster/examples", function ()
    local it_runs = fixture.it_unless(missing)

    before_each(command.set_up)
    after_each(command.tear_down)

    local function start()
        return command.start(FOLDER .. "/run", "--short", BUILD, { PROGRAM = "/bin/bash" })
    end

    -- Returns the demonstration's folder and the processes of its group.
    local function left_by(demo)
        return shell.output(("ls -d /dev/shm/holdfast-demo.%d.* 2>/dev/null; ps -eo pgid=,args= | awk '$1 == %d'")
                            :format(demo.pid, demo.pid))
    end


    it_runs("has no overlap, accepts no late write whichever process is killed, and leaves nothing behind", function ()
        local demo = start()
        assert.same({ code = 0 }, demo:wait(), demo:err())
        local out = demo:out()
        for _, name in ipairs { "overlaps", "tokens that did not grow", "late writes, accepted" } do
            assert.same({ 0 }, row(out, name), out)
        end
        assert.same({ 1 }, row(out, "late writes, refused"), out)
        for _, name in ipairs { "passed to another machine", "passed on inside a machine" } do
            assert.is_true(row(out, name)[1] > 0, out)
        end
        assert.equal("", left_by(demo))
    end)

    it_runs("leaves nothing behind after Ctrl-C", function ()
        local demo = start()
        local function has_killed() return (demo:out() or ""):find("kill -9 of worker", 1, true) end
        assert.truthy(command.await(has_killed), demo:err())
        demo:signal_group(command.INT)
        -- Bash ignores an interrupt that arrives just when its child ends normally. The agents do not ignore the
        -- interrupt, so an agent is then missing, and the demonstration fails with 1.
        local ended = assert(demo:wait(), "the demonstration did not end")
        assert.truthy(ended.code == 130 or ended.code == 1, demo:err())
        assert.equal("", left_by(demo))
    end)


    -- --- the checks ----------------------------------------------------------------------------------------------

    local GOOD = [[
begin job 1 0 100 10.000000 5
end job 1 0 100 10.500000 5
begin job 1 1 101 10.500000 6
killed - 1 1 101 11.000000 0
event 11.00 kill -9
begin job 2 0 200 11.100000 9
end job 2 0 200 12.000000 9
]]
    local CERTIFICATE = "5 renewed\n6 renewed\n9 renewed\n"

    local function judge(journal, certificate)
        return command.run(FOLDER .. "/report.lua", command.write("journal", journal),
                           command.write("certificate", certificate), { PROGRAM = "/usr/bin/luajit" })
    end

    it("checks the workers' records", function ()
        local ended, out, err = judge(GOOD, CERTIFICATE)
        assert.same({ code = 0 }, ended, err)
        assert.same({ 1, 1, 0, 0, 3 }, { row(out, "passed to another machine")[1],
            row(out, "passed on inside a machine")[1], row(out, "overlaps")[1],
            row(out, "tokens that did not grow")[1], row(out, "accepted writes")[1] }, out)
        assert.truthy(out:find("a   1.0 s  kill -9", 1, true), out)
        assert.truthy(out:find("No two workers had the same lock", 1, true), out)
    end)

    for _, case in ipairs {
        { "an overlap", "overlaps", GOOD:gsub("11%.100000", "10.900000") },
        { "an overlapping grant", "overlaps", "begin job 2 2 202 9.000000 4\nend job 2 2 202 11.500000 4\n" .. GOOD },
        { "a token that does not grow", "tokens that did not grow", GOOD:gsub(" 9\n", " 6\n") },
        { "a late write that was accepted", "late writes, accepted", GOOD, CERTIFICATE .. "6 renewed\n" },
    } do
        it("does not miss " .. case[1], function ()
            local ended, out = judge(case[3], type(case[4]) == "string" and case[4] or CERTIFICATE)
            assert.same({ code = 1 }, ended, out)
            assert.is_true(row(out, case[2])[1] > 0, out)
        end)
    end

    it("uses a store that refuses late writes", function ()
        local out = process.run(([[
            package.path = %q
            local store = require "store"
            for _, token in ipairs { 5, 5, 9, 6, 9 } do
                say(token, store.write(%q, token, "text"))
            end
        ]]):format(FOLDER .. "/?.lua", command.path("store")))
        assert.equal("5\ttrue\n5\ttrue\n9\ttrue\n6\tnil\tstale\n9\ttrue\n", out)
        assert.equal("5 text\n5 text\n9 text\n9 text\n", command.read("store"))
    end)
end)
