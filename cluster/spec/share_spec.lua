-- cluster/share: what is for systemd suits it.

local command, files, fixture, shell = require "spec.support" ("command", "files", "fixture", "shell")

local UNIT = "cluster/share/holdfast-agent@.service"
local missing = not shell.succeeds("command -v systemd-analyze >/dev/null") and "systemd is not installed" or nil


describe(UNIT, function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    fixture.it_unless(missing)("is one that systemd takes, where the command is installed", function ()
        local text = files.read(UNIT):gsub("ExecStart=holdfast ", "ExecStart=" .. command.program .. " ")
                                     :gsub("Documentation=[^\n]*\n", "")
        local instance = command.write("holdfast-agent@main.service", text)
        assert.equal("", shell.output("systemd-analyze verify --man=no '" .. instance .. "' 2>&1"))
    end)

    it("starts no agent again that says so by its status, and each other one before its lease ends", function ()
        local text = files.read(UNIT)
        local statuses = assert(text:match "\nRestartPreventExitStatus=([%d ]+)\n")
        local manual = files.read "tools/docs/holdfast.md"
        for status in statuses:gmatch("%d+") do
            assert.matches("\n| " .. status .. " | [^\n]*; do not |\n", manual)
        end
        assert.equal("200ms", text:match "\nRestartSec=(%w+)\n")
        assert.truthy(text:find("\nRestart=always\n", 1, true) and text:find("\nType=notify\n", 1, true)
                      and text:find("\nStartLimitIntervalSec=0\n", 1, true))
    end)
end)
