-- Tests the files for other programs in tools/share.

local command, files, fixture, shell, systemd =
    require "spec.support" ("command", "files", "fixture", "shell", "systemd")


describe("The systemd units", function ()
    command.fixture()

    for unit, instance in pairs { ["holdfast-serve"] = "root", ["holdfast-run"] = "mail" } do
        fixture.it_unless(systemd.missing)("are accepted by systemd: " .. unit, function ()
            assert.equal("", systemd.complaints("tools/share/" .. unit .. "@.service", instance))
        end)
    end

    fixture.it_unless(systemd.missing)("are accepted by systemd: the example of a timer", function ()
        for _, unit in ipairs { "backup.service", "backup.timer" } do  -- the timer needs its service in the same folder
            assert.equal("", systemd.complaints("tools/share/examples/" .. unit))
        end
    end)

    it("have an example of a timer, which runs the command that the guide shows", function ()
        local guide, unit = files.read "docs/guide/lock-a-command.md", files.read "tools/share/examples/backup.service"
        local line = unit:match "\nExecStart=(holdfast lock [^\n]*)"
        assert.truthy(guide:find("\nExecStart=" .. line .. "\n", 1, true), line)
        command.write("backup.sh", "#!/bin/sh\necho backed up\n")
        local text = line:gsub("^holdfast", command.program)
                         :gsub("/usr/local/bin/backup.sh", "sh " .. command.path "backup.sh")
        assert.equal("backed up", shell.output(text))
    end)

    it("are described in docs/operations.md, and find the installed command", function ()
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

    fixture.it_unless(promtool == "" and "promtool is not installed")("fire on present waits and holds", function ()
        local function firing(series)
            return ([[
  - interval: 1m
    input_series:
      - { series: '%s', values: "%s" }
    alert_rule_test:
      - { alertname: %s, eval_time: 5m, exp_alerts: [ %s ] }
]]):format(unpack(series))
        end
        local labels = '{ exp_labels: { severity: warning, dictionary: a%s }, exp_annotations: { summary: %s, '
                       .. "description: 'Run holdfast doctor to see which lock and who holds it.' } }"
        local waits = labels:format("", "'A caller has waited for a lock in \"a\" for more than a minute, and still "
                                        .. "waits.'")
        local holds = labels:format(', waiters: "yes"', "'A lock in \"a\" has been held for more than an hour, and "
                                                        .. "others wait for it.'")
        local wait, hold = 'holdfast_lock_longest_wait_seconds{dictionary="a"}',
                           'holdfast_lock_longest_hold_seconds{dictionary="a",waiters="%s"}'
        local on_wait, on_hold = "HoldfastWaitLastsTooLong", "HoldfastLockIsHeldTooLong"
        local text = "rule_files: [ " .. shell.output "pwd" .. "/" .. ALERTS .. " ]\ntests:\n"
                     .. firing { wait, "0x4 61", on_wait, waits } .. firing { wait, "59x5", on_wait, "" }
                     .. firing { hold:format "yes", "0x2 3601 0x5", on_hold, holds }
                     .. firing { hold:format "no", "9000x5", on_hold, "" }
        local ended, out, err = command.run("test", "rules", command.write("alerts_test.yml", text),
                                            { PROGRAM = promtool })
        assert.same({ code = 0 }, ended, out .. err)
    end)

    it("use only metrics that the manual describes", function ()
        local manual = files.read "docs/resty.holdfast.prometheus.md"
        for _, path in ipairs { DASHBOARD, ALERTS } do
            for name in files.read(path):gmatch("holdfast_[%w_]+") do
                local family = name:gsub("_bucket$", "")
                assert.truthy(manual:find("\n| `" .. family .. "` | ", 1, true), path .. ": " .. name)
            end
        end
    end)
end)
