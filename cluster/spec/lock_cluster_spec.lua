-- Tests `holdfast lock` in a cluster: with an agent that it starts, and with an agent that does not answer. Also tests
-- its messages.

local command, etcd, fixture, shell = require "spec.support" ("command", "cluster/etcd", "fixture", "shell")

local await, run, said, start, write = command.await, command.run, etcd.said, command.start, command.write

local it = fixture.it_unless(etcd.missing())

local STOP, CONT = 19, 18


describe("holdfast lock in a cluster", function()
    local server, config, dead, space

    setup(function() server = not etcd.missing() and etcd.start() end)
    teardown(function() return server and server:stop() end)

    local function configure(name, url)
        local text = ('{"endpoints": ["%s"], "namespace": "%s", "ttl": 60}'):format(url, space)
        local path = write(name, text)
        assert(shell.succeeds("chmod 600 '" .. path .. "'"))
        return path
    end

    before_each(function()
        command.set_up()
        space = etcd.new_space()
        config = server and configure("main.json", server.url)
        dead = configure("dead.json", "http://127.0.0.1:1")
    end)

    local function lock(...)
        return "lock", "--cluster", "main", ...
    end

    local function agents()
        return shell.output("pgrep -f '^[^ ]*holdfast-agent main --config " .. command.path("") .. "' || true")
    end

    -- If `holdfast lock` is killed, its agent may still run.
    after_each(function()
        for pid in agents():gmatch("%d+") do
            command.kill(tonumber(pid), command.KILL)
        end
        command.tear_down()
    end)

    describe("with a store that does not answer", function()
        for name, number in pairs { HUP = command.HUP, INT = command.INT, TERM = command.TERM } do
            for _, wait in ipairs { "60", "1e9" } do
                it(("is ended by %s while it waits for %s s, and its agent ends with it"):format(name, wait), function()
                    local process = start(lock("-w", wait, "--agent", "--agent-config", dead, "key", "--", "true"))
                    assert(await(function() return agents() ~= "" end), said(process))
                    process:signal(number)
                    assert.same({ signal = number }, process:wait(), said(process))
                    assert(await(function() return agents() == "" end))
                end)
            end
        end

        it("waits forever, and reports this once", function()
            local process = start(lock("--agent", "--agent-config", dead, "key", "--", "true"))
            local wanted = 'holdfast: still waiting for "key": the agent of cluster "main" has no session with the '
                           .. 'store for dictionary "commands.main"\n'
            assert(await(function() return process:err() == wanted end), said(process))
            process:signal(command.TERM)
            assert.same({ signal = command.TERM }, process:wait())
            assert.equal(wanted, process:err())
        end)

        it("waits silently with -q", function()
            local process = start(lock("-q", "--agent", "--agent-config", dead, "key", "--", "true"))
            assert.is_nil(process:wait(2.5))
            assert.equal("", process:err())
            process:signal(command.TERM)
            assert.same({ signal = command.TERM }, process:wait())
        end)

        it("does not wait with -n", function()
            local ended = run(lock("-n", "--agent", "--agent-config", dead, "key", "--", "true"))
            assert.same({ code = 75 }, ended)
        end)
    end)

    local function hold(...)
        local process = start(lock("--agent", "--agent-config", config, "key", "--", "sh", "-c",
                                   "echo on; exec sleep 600", ...))
        assert(await(function() return process:out() == "on\n" end), said(process))
        return process
    end

    it("reports that a stopped agent does not answer", function()
        hold()
        local agent = tonumber(agents())
        command.kill(agent, STOP)
        for _, how in ipairs { { "-n" }, { "-w", "0.5" } } do
            -- If this counted as a refusal, a crontab with -E 0 would skip its job silently.
            local ended, _, err = run(lock("-q", "-E", "0", how[1], how[2] or "-q", "other", "--", "true"))
            assert.same({ code = 75 }, ended, err)
            assert.equal('holdfast: cannot lock "other": the agent did not answer within 0.5 s\n', err)
        end
        command.kill(agent, CONT)
        assert(await(function() return run(lock("-n", "other", "--", "true")).code == 0 end))
    end)

    -- Returns a second store, in which a lock is held, and a function that fills the store.
    local function hold_at_small_store()
        local small = etcd.start { "--quota-backend-bytes=400000" }
        config = configure("small.json", small.url)
        hold()
        return small, function()
            local put = ('{"key":"QUFB","value":"%s"}'):format(("QUFB"):rep(2000))
            assert(await(function()
                return (small:post("/v3/kv/put", put) or ""):find("database space exceeded", 1, true)
            end))
        end
    end

    -- An idle agent notices the full database only after some seconds.
    it("has a status command that shows a full database, even on an idle machine", function()
        local full, fill = hold_at_small_store()
        assert.same({ code = 0 }, (run("cluster", "status")))
        fill()
        command.sleep(1.1)
        local ended, out = run("cluster", "status")
        full:stop()
        assert.same({ code = 1 }, ended, out)
        assert.matches("etcdserver: mvcc: database space exceeded", out, 1, true)
    end)

    it("shows the namespace that its machines share", function()
        hold()
        local _, out = run("cluster", "status")
        assert.matches("; namespace " .. space .. "\n", out, 1, true)
        local _, json = run("cluster", "status", "--json")
        assert.matches('"namespace":"' .. space .. '"', json, 1, true)
        assert.matches('"queue_us":%d', json)
    end)

    -- The test creates a key as "etcdctl put" does.
    it("reports that a key in the store was not written by an agent", function()
        hold()
        local key = space .. "/l/commands.main/odd"
        server:ctl("put " .. key .. " byhand")
        local _, out = run("cluster", "holders", "commands.main", "odd")
        assert.matches("^odd: held by no machine: its key in the store has no lease; revision %d+\n$", out)
        local ended, _, err = run(lock("-n", "odd", "--", "true"))
        assert.same({ code = 1 }, ended)
        assert.equal('holdfast: "odd" is held by no machine: its key in the store has no lease; see '
                     .. '"holdfast cluster holders"\n', err)
        assert.same({ code = 0 }, (run("cluster", "break", "commands.main", "odd",
                                       "--revision", out:match("revision (%d+)"))))
        assert.same({ code = 0 }, (run(lock("-n", "odd", "--", "true"))))
        assert.same({}, server:keys(space .. "/b/0000000000000000"))
    end)

    for name, number in pairs { killed = command.KILL, stopped = STOP } do
        it("ends its job when the lock is taken away, even if its wrapper is " .. name, function()
            hold()  -- with the agent
            local process = start(lock("other", "--", "sh", "-c", "echo $$ >'" .. command.path "pid"
                                                                  .. "'; exec sleep 600"))
            local pid = assert(await(function() return tonumber(command.read "pid") end), said(process))
            command.sleep(0.3)
            process:signal(number)
            local _, out = run("cluster", "holders", "commands.main", "other")
            assert.same({ code = 0 }, (run("cluster", "break", "commands.main", "other",
                                           "--revision", out:match "revision (%d+)")), out)
            assert(await(function() return not command.alive(pid) end))
        end)
    end

    it("creates a dictionary that programs can open with a smaller size", function()
        local process = hold()
        local library = assert(os.getenv "HOLDFAST_LIB")
        local open = 'print(require("resty.shdict").open("commands.main", { size = "%s", cluster = "main" }))'
        local function program(size)
            return select(2, run("luajit", "-e", open:format(size),
                                 { PROGRAM = "/usr/bin/env", HOLDFAST_LIB = library,
                                   LUA_PATH = os.getenv "LUA_PATH" or "lua/?.lua;;" }))
        end
        assert.matches("^table: ", program "1m")
        assert.matches("^table: ", program "100k")
        assert.matches("exists with size 8388608", program "16m", 1, true)
        assert.is_nil(process.status)
    end)

    it("reports immediately that the store's database is full", function()
        local full, fill = hold_at_small_store()
        fill()
        local ended, _, err = run(lock("-n", "other", "--", "true"))
        full:stop()
        assert.same({ code = 75 }, ended, err)
        assert.equal('holdfast: cannot lock "other": the store of cluster "main" accepts no changes: '
                     .. 'its database is full\n', err)
    end)

    describe("on a machine that is cut off", function()
        local a, b, agent

        before_each(function()
            a, b = etcd.machine "a", etcd.machine "b"
            local options = { "--etcd", server.url, "--namespace", space, "--ttl", "4" }
            etcd.agent(b, unpack(options))
            agent = etcd.agent(a, unpack(options))
        end)

        -- Starts a job on machine a that survives TERM for this many seconds, and writes signs of life to a file.
        local function job(seconds)
            local script = ([[trap 'echo TERM >>told; sleep %s; exit' TERM
                echo $$ >pid; while :; do date +%%s.%%N >new; mv new last; sleep 0.02; done]]):format(seconds)
            local process = start(lock("key", "--", "sh", "-c", "cd '" .. command.path "" .. "'; " .. script,
                                       { HOLDFAST_DIR = a }))
            return process, assert(await(function() return tonumber(command.read "pid") end), said(process))
        end

        -- Stops the agent, so that it does not renew the session. Returns after a job on machine b has got the lock.
        local function cut_off()
            agent:signal(STOP)
            local next_job = start(lock("-w", "60", "key", "--", "date", "+%s.%N", { HOLDFAST_DIR = b }))
            assert.same({ code = 0 }, next_job:wait(), said(next_job))
            return tonumber(next_job:out())
        end

        for how, seconds in pairs { ["by itself"] = 0.3, ["by KILL"] = 60 } do
            it("gets TERM, and ends " .. how .. ", before another machine gets the lock", function()
                local process, pid = job(seconds)
                local got = cut_off()
                assert.is_true(tonumber(command.read "last") < got)
                assert.is_false(command.alive(pid))
                assert.equal("TERM\n", command.read "told")
                assert.same({ code = 76 }, process:wait(), said(process))
                assert.matches("^holdfast: \"key\" is about to be lost: this machine's session with the store of "
                               .. 'cluster "main" was not renewed; sending TERM to the job, '
                               .. 'and KILL after [01]%.?%d* s\n',
                               process:err())
            end)
        end

        for name, number in pairs { killed = command.KILL, stopped = STOP } do
            it("ends before another machine gets the lock, even if its wrapper is " .. name, function()
                local process, pid = job(60)
                command.sleep(0.3)
                process:signal(number)
                local got = cut_off()
                assert.is_true(tonumber(command.read "last") < got)
                assert.is_false(command.alive(pid))
                assert.equal("TERM\n", command.read "told")
            end)
        end

        it("keeps its lock if the agent continues in time", function()
            local process, pid = job(60)
            for _ = 1, 3 do
                agent:signal(STOP)
                command.sleep(0.5)
                agent:signal(CONT)
                command.sleep(1)
            end
            assert.is_nil(process:wait(0))
            assert.is_true(command.alive(pid))
            assert.equal("", process:err())
        end)
    end)

    it("reports that its dictionary was removed", function()
        local process = hold()
        assert.same({ code = 0 }, (run("rm", "--force", "commands.main")))
        assert.same({ code = 76 }, process:wait())
        assert.equal('holdfast: "key" was taken away: its dictionary "commands.main" was removed; '
                     .. 'sending TERM to the job, and KILL after 10 s\n',
                     process:err())
    end)
end)
