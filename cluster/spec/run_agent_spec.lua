-- Tests `holdfast run --agent`, which runs a cluster's agent with the workers.

local command, etcd, files, fixture, process, shell =
    require "spec.support" ("command", "cluster/etcd", "files", "fixture", "process", "shell")

local await, run, said, start, write = command.await, command.run, etcd.said, command.start, command.write

local it = fixture.it_unless(etcd.missing())

-- Takes the lock, prints "has it", and keeps the lock until the worker is told to finish or has lost the lock.
local HOLDER = [[
local worker = require "resty.holdfast.worker"
local scheduler = require "resty.holdfast.scheduler"
assert(require("resty.shdict").open("jobs", { size = "64k", cluster = "main" }))
local lock = require("resty.lock"):new("jobs", { timeout = 60, exptime = 3600 })
assert(lock:lock("key"))
print "has it"
while not worker.exiting() and lock:valid() do scheduler.sleep(0.01) end
print(lock:unlock() == 1 and "released" or "lost")
]]


describe("holdfast run --agent", function ()
    local server, config, space

    setup(function () server = not etcd.missing() and etcd.start() end)
    teardown(function () return server and server:stop() end)

    before_each(function ()
        command.set_up()
        space = etcd.new_space()
        if server then
            local text = ('{"endpoints": ["%s"], "namespace": "%s", "ttl": 60}'):format(server.url, space)
            config = write("main.json", text)
            assert(shell.succeeds("chmod 600 '" .. config .. "'"))
        end
    end)

    after_each(function ()
        process.clean_up()
        command.tear_down()
    end)

    local function begin(...)
        local words = { "run", "--agent", "main", "--agent-config", config, ... }
        words[#words + 1] = write("script.lua", HOLDER)
        return start(unpack(words))
    end

    local function has_said(of, text)
        assert(await(function () return (of:out() or ""):find(text, 1, true) or said(of):find(text, 1, true) end),
               said(of))
    end

    -- Starts a run, and waits until a worker has the lock.
    local function begin_with(workers)
        local master = begin("--workers", workers)
        has_said(master, "has it")
        return master
    end

    -- Ends the run. Its worker has the lock, and must release it.
    local function finishes(master)
        master:signal(command.QUIT)
        assert.same({ code = 0 }, master:wait(), said(master))
        assert.equal("has it\nreleased\n", master:out())
    end

    -- Returns the child of the process that is an agent.
    local function agent_of(master)
        for child in (files.find(("/proc/%d/task/%d/children"):format(master.pid, master.pid)) or ""):gmatch("%d+") do
            if (files.find("/proc/" .. child .. "/comm") or ""):find("^holdfast%-agent") then
                return tonumber(child)
            end
        end
    end


    it("starts an agent, lets the workers take locks, and ends the agent and its lease after the workers", function ()
        local master = begin_with "1"
        assert.is_number(agent_of(master))
        assert.equal(1, #server:keys(space .. "/l/"))
        finishes(master)
        assert.same({}, server:keys(space .. "/"))
    end)

    it("restarts the agent when it dies, and no lock is lost", function ()
        local master = begin_with "1"
        local first = agent_of(master)
        command.kill(first, command.KILL)
        has_said(master, "the agent of cluster main (pid " .. first .. ") was killed by signal 9 (Killed); "
                         .. "restarting it in 0.1 s")
        assert.truthy(await(function () return select(2, said(master):gsub("has lease", "")) == 2 end), said(master))
        assert.are_not.equal(first, agent_of(master))
        finishes(master)
    end)

    it("also ends the agent on TERM, after the workers", function ()
        local master = begin_with "2"
        master:signal(command.TERM)
        assert.same({ signal = command.TERM }, master:wait(), said(master))
        assert.same({}, server:keys(space .. "/"))
    end)

    it("ends the agent when the master is killed", function ()
        local master = begin_with "1"
        local agent = agent_of(master)
        master:signal(command.KILL)
        assert.truthy(await(function () return not command.alive(agent) end))
    end)

    it("waits while another agent runs, and takes over when that agent ends", function ()
        local other = etcd.agent(command.world(), "--etcd", server.url, "--namespace", space, "--ttl", "60")
        local master = begin_with "1"
        assert.is_nil(other:wait(0.2))
        assert.is_nil(said(master):find("has lease", 1, true))
        other:signal(command.TERM)
        assert.same({ code = 0 }, other:wait())
        has_said(master, "has lease " .. said(other):match "has lease (%x+)")
        finishes(master)
    end)

    it("ends if the agent's configuration is wrong", function ()
        write("main.json", "{}")
        local ended, out, err = run("run", "--agent", "main", "--agent-config", config, "--workers", "2", "-e",
                                    'require("resty.holdfast.scheduler").sleep(60)')
        assert.same({ code = 1 }, ended)
        assert.equal("", out)
        assert.equal("holdfast-agent: " .. config .. ': no endpoints: expected URLs such as "https://host:2379"\n', err)
    end)

    it("runs one agent for each named cluster", function ()
        local master = start("run", "--agent", "one", "--agent", "two", "--agent", "one", "--workers", "1", "-e",
                             'require("resty.holdfast.scheduler").sleep(60)')
        local ended = master:wait()
        assert.same({ code = 1 }, ended)
        for _, name in ipairs { "one", "two" } do
            local _, times = said(master):gsub("cannot read /etc/holdfast/" .. name .. "%.json", "")
            assert.is_true(times <= 1, said(master))
        end
    end)
end)


describe("holdfast run --agent", function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    for _, case in ipairs {
        { '--agent: bad cluster "a/b": expected 1 to 63', "--agent", "a/b" },
        { "--agent-config needs exactly one --agent CLUSTER, but 0 were given", "--agent-config", "file" },
        { "--agent-config needs exactly one --agent CLUSTER, but 2 were given",
          "--agent", "a", "--agent", "b", "--agent-config", "file" },
        { "--agent: no CLUSTER was given", "--agent" },
    } do
        fixture.it_unless(nil)("is refused: " .. case[1], function ()
            local words = { "run", unpack(case, 2) }
            if #case > 2 then
                words[#words + 1] = "-e"
                words[#words + 1] = "print(1)"
            end
            local ended, out, err = run(unpack(words))
            assert.same({ code = 2 }, ended, err)
            assert.equal("", out)
            assert.truthy(err:find(case[1], 1, true), err)
        end)
    end
end)
