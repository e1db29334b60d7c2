-- Tests the crontabs in the documents: their lines must run unchanged, with only the environment that cron gives to a
-- job.

local command, files, shell = require "spec.support" ("command", "files", "shell")

local PAGES = shell.output("grep -l '^```crontab' docs/*.md docs/guide/*.md tools/docs/*.md")
local is_root = shell.output("id -u") == "0"


-- Runs the last line of a crontab with the settings in the lines before it. The test's folders replace /usr/local/bin
-- and /dev/shm/jobs. Returns the exit status and the output.
local function run_as_cron(crontab)
    local bin = command.path("bin")
    assert(shell.succeeds(("mkdir '%s' && ln -s '%s' '%s/holdfast'"):format(bin, command.program, bin)))
    command.write("bin/backup.sh", "#!/bin/sh\necho \"backup $HOLDFAST_TOKEN\"\n")
    assert(shell.succeeds(("chmod 755 '%s' '%s/backup.sh'"):format(command.path("."), bin)))
    local settings, job = crontab:match("^(.-)([%d*/]+ [^\n]+)\n$")
    settings = ("HOLDFAST_DIR=%s\n"):format(command.world()) .. settings
    local user = job:match("%-%-user (%S+)")
    if user then
        assert(shell.succeeds(("chown %s '%s'"):format(user, command.world())))
    end
    local words = {}
    for setting in settings:gmatch("[^\n]+") do
        words[#words + 1] = "'" .. setting .. "'"
    end
    local line = job:gsub("^%S+ %S+ %S+ %S+ %S+%s+", "")
    local text = ("env -i HOME=/ LOGNAME=root SHELL=/bin/sh PATH=/usr/bin:/bin %s /bin/sh -c '%s'")
                 :format(table.concat(words, " "), line)
    text = text:gsub("/usr/local/bin", bin):gsub("/dev/shm/jobs", command.world())
    local output = shell.output(text .. " 2>&1; echo $?")
    return tonumber(output:match("%d+$")), output
end


describe("the crontab", function ()
    command.fixture()

    for page in PAGES:gmatch("%S+") do
        local number = 0
        for crontab in files.read(page):gmatch("\n```crontab\n(.-\n)```") do
            number = number + 1
            local runs = (is_root or not crontab:find("--user", 1, true)) and it or pending
            runs(("%d of %s runs under cron's environment"):format(number, page), function ()
                local status, output = run_as_cron(crontab)
                assert.equal(0, status, output)
                assert.truthy(output:find("backup %d+"), output)
            end)
        end
    end
end)
