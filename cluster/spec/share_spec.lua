-- Tests that systemd accepts the unit in cluster/share.

local command, files, fixture, systemd = require "spec.support" ("command", "files", "fixture", "systemd")

local UNIT = "cluster/share/holdfast-agent@.service"


describe(UNIT, function ()
    command.fixture()

    fixture.it_unless(systemd.missing)("is accepted by systemd if the command is installed", function ()
        assert.equal("", systemd.complaints(UNIT, "main"))
    end)

    it("restarts each agent before its lease ends, unless the exit status forbids a restart", function ()
        local text = files.read(UNIT)
        local statuses = assert(text:match "\nRestartPreventExitStatus=([%d ]+)\n")
        local manual = files.read "tools/docs/holdfast.md"
        for status in statuses:gmatch("%d+") do
            assert.matches("\n| " .. status .. " | [^\n]*; do not start it again |\n", manual)
        end
        assert.equal("200ms", text:match "\nRestartSec=(%w+)\n")
        assert.truthy(text:find("\nRestart=always\n", 1, true) and text:find("\nType=notify\n", 1, true)
                      and text:find("\nStartLimitIntervalSec=0\n", 1, true))
    end)
end)
