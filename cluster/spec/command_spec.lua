-- Tests the command with clusters: completion, and `holdfast serve` with an agent. No store is needed.

local command, offered, server, world =
    require "spec.support" ("command", "tools/completion", "tools/server", "tools/world")


describe("The command", function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    it("offers the subcommands of cluster, and the dictionaries that belong to clusters", function ()
        world.keep [[
            local shdict = require "resty.shdict"
            assert(shdict.open("alone", { size = "64k" }))
            assert(shdict.open("of many", { size = "64k", cluster = "shop" }))
            assert(shdict.open("zuletzt", { size = "64k" }))
            ready()
        ]]
        assert.same({ status = true, holders = true, ["break"] = true }, offered("cluster", ""))
        assert.same({ status = true }, offered("cluster", "st"))
        for _, name in ipairs { "status", "holders", "break" } do
            assert.same({ ["of\\ many"] = true }, offered("cluster", name, ""))
        end
        assert.same({ ["of\\ many"] = true }, offered("cluster", "break", "--revision", "3", "of"))
        assert.same({}, offered("cluster", "break", "--revision", ""))
        assert.same({ ["--revision"] = true }, offered("cluster", "break", "--rev"))
    end)

    it("explains mistakes in command lines about clusters", function ()
        local no_subcommand = "no subcommand was given: expected status, holders, break or accept-new-store"
        for _, case in ipairs {
            { { "cluster" }, no_subcommand },
            { { "cluster", "walk" }, 'unknown subcommand "walk": expected status, ' },
            { { "cluster", "break", "NAME", "KEY", "--revision=" }, '--revision: bad revision "": expected 1 to 92' },
            { { "cluster", "break", "NAME", "KEY", "--revision", "" }, '--revision: bad revision ""' },
        } do
            local ended, _, why = command.run(unpack(case[1]))
            assert.same({ code = 2 }, ended)
            assert.truthy(why:find("holdfast: " .. case[2], 1, true), why)
        end
    end)

    it("reports to scrapers within a second that an agent does not answer", function ()
        world.keep [[
            assert(require("resty.shdict").open("jobs", { size = "64k", cluster = "main" }))
            ready()
        ]]
        local agent = command.write("agent.py", [[
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen(8)
open(sys.argv[2], "w").close()
time.sleep(600)
]])
        command.start(agent, command.world() .. "/.agent-main", command.path "listens",
                      { PROGRAM = "/usr/bin/python3" })
        assert(command.await(function () return command.read "listens" end))
        local _, port = server.serve()
        local body = server.get(port, "/metrics")
        assert.truthy(body:find('\nholdfast_agent_up{cluster="main"} 0\n', 1, true))
        assert.truthy(body:find('\nholdfast_cluster_standing{dictionary="jobs",cluster="main"} 0\n', 1, true))
    end)
end)
