-- tools/share: what is for other programs suits them.

local command, files, fixture, shell = require "spec.support" ("command", "files", "fixture", "shell")

local missing = not shell.succeeds("command -v systemd-analyze >/dev/null") and "systemd is not installed" or nil


describe("tools/share/holdfast-serve@.service", function ()
    command.fixture()

    fixture.it_unless(missing)("is one that systemd takes, where the command is installed", function ()
        local text = files.read("tools/share/holdfast-serve@.service")
        text = text:gsub("ExecStart=holdfast ", "ExecStart=" .. command.program .. " ")
                   :gsub("Documentation=[^\n]*\n", "")
        local path = command.write("holdfast-serve@.service", text)
        local instance = path:gsub("@%.service$", "@root.service")
        assert(shell.succeeds(("ln -s '%s' '%s'"):format(path, instance)))
        assert.equal("", shell.output("systemd-analyze verify --man=no '" .. instance .. "' 2>&1"))
    end)
end)


describe("tools/share/holdfast-run@.service", function ()
    command.fixture()

    fixture.it_unless(missing)("is one that systemd takes, where the command is installed", function ()
        local text = files.read("tools/share/holdfast-run@.service")
        text = text:gsub("ExecStart=holdfast ", "ExecStart=" .. command.program .. " ")
                   :gsub("Documentation=[^\n]*\n", "")
        local path = command.write("holdfast-run@.service", text)
        local instance = path:gsub("@%.service$", "@mail.service")
        assert(shell.succeeds(("ln -s '%s' '%s'"):format(path, instance)))
        assert.equal("", shell.output("systemd-analyze verify --man=no '" .. instance .. "' 2>&1"))
    end)
end)


describe("The units of systemd", function ()
    it("are all in docs/operations.md, and find the command wherever it is installed", function ()
        local manual = files.read "docs/operations.md"
        for path in shell.output("ls tools/share/*.service"):gmatch "[^\n]+" do
            assert.truthy(manual:find("| `" .. path:match "([%w-]+@)[^/]*$", 1, true), path)
            assert.truthy(files.read(path):find("\nExecStart=holdfast ", 1, true), path)
        end
    end)
end)


describe("The dashboard and the alerts", function ()
    local ALERTS, DASHBOARD = "tools/share/prometheus/alerts.yml", "tools/share/grafana/holdfast.json"
    local promtool = shell.output("command -v promtool")

    command.fixture()

    fixture.it_unless(promtool == "" and "promtool is not installed")("are accepted by promtool", function ()
        local ended, out, err = command.run("check", "rules", shell.output("pwd") .. "/" .. ALERTS,
                                            { PROGRAM = promtool })
        assert.same({ code = 0 }, ended, out .. err)
    end)

    it("ask for metrics that the manual describes", function ()
        local manual = files.read "docs/resty.holdfast.prometheus.md"
        for _, path in ipairs { DASHBOARD, ALERTS } do
            for name in files.read(path):gmatch("holdfast_[%w_]+") do
                local family = name:gsub("_bucket$", "")
                assert.truthy(manual:find("\n| `" .. family .. "` | ", 1, true), path .. ": " .. name)
            end
        end
    end)
end)
