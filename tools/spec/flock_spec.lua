-- Tests `holdfast flock`: it behaves as util-linux's flock(1) promises, the two commands exclude each other, and ours
-- has additional features. The tests of util-linux 2.40 for flock(1) pass with a link named flock. This file tests what
-- those tests do not cover.

local command, shell, typing, world = require "spec.support" ("command", "shell", "tools/typing", "tools/world")

local await, read, run, start = command.await, command.read, command.run, command.start


-- Runs a line of sh, in which $HF is the command and $F is a lock file. Returns its output and status.
local function sh(line, environment)
    local out_path = command.path "out"
    local process = start("-c", ("exec >'%s' 2>&1; F='%s'; HF='%s'; %s"):format(out_path, command.path "lock file",
                                                                               command.program, line),
                          { PROGRAM = "/bin/sh", PATH = environment and environment.PATH })
    local ended = assert(process:wait(), "does not end")
    return read "out" or "", ended.code
end

local function rows()
    local found = {}
    for _, row in ipairs(world.rows(world.output("locks"))) do
        found[#found + 1] = table.concat({ row[1], row[2]:match "[^/]*$", row[3] }, " ")
    end
    return found
end

-- Starts a holder of the file with this program, and waits until the holder has the lock. A line in the fifo "go" ends
-- the holder.
local function hold(program, options)
    os.execute("mkfifo '" .. command.path "go" .. "' 2>/dev/null")
    os.remove(command.path "held")
    local process = start("-c", ([[exec %s %s '%s' sh -c 'echo $$ >"%s"; read -r line <"%s"; exit 5']])
                                :format(program, options or "", command.path "lock file", command.path "held",
                                        command.path "go"), { PROGRAM = "/bin/sh" })
    assert(await(function() return tonumber(read "held") end), process:err())
    return process
end

local function let_go(process)
    command.write("go", "\n")
    assert.same({ code = 5 }, process:wait())
end


describe("holdfast flock", function()
    command.fixture()

    it("and flock(1) exclude each other, with exclusive and shared locks", function()
        for _, programs in ipairs { { "flock", "$HF flock" }, { command.program .. " flock", "flock" },
                                    { command.program .. " flock", "$HF flock" } } do
            local holder, other = unpack(programs)
            local process = hold(holder)
            assert.same({ "", 1 }, { sh(other .. ' -n "$F" echo ran') })
            assert.same({ "", 1 }, { sh(other .. ' -n -s "$F" echo ran') })
            assert.same({ "", 9 }, { sh(other .. ' -w 0.1 -E 9 "$F" echo ran') })
            let_go(process)
            assert.same({ "ran\n", 0 }, { sh(other .. ' -n "$F" echo ran') })
            process = hold(holder, "-s")
            assert.same({ "", 1 }, { sh(other .. ' -n "$F" echo ran') })
            assert.same({ "ran\n", 0 }, { sh(other .. ' -n -s "$F" echo ran') })
            let_go(process)
        end
    end)

    it("waits until a plain flock(1) ends, and shows which process it waits for", function()
        local process = hold "flock"
        local waits = start("flock", "--why", "mine", command.path "lock file", "sh", "-c",
                            command.program .. " locks | cut -f 13")
        assert(await(function() return select(2, run("locks")):find("waits for the flock(2) of pid ", 1, true) end))
        let_go(process)
        assert.same({ code = 0 }, waits:wait())
        assert.equal("mine\n", waits:out())
    end)

    it("keeps its place among all processes that wait for the file", function()
        local process = hold "flock"
        -- "1: -> FLOCK  ADVISORY  WRITE 4711 00:1b:1234 0 EOF"
        local inode = shell.output("stat -c %i '" .. command.path "lock file" .. "'"):match "%d+"
        local function waiting()
            local pids = {}
            for pid in (read "/proc/locks" or ""):gmatch("%-> FLOCK +ADVISORY +WRITE (%d+) %x+:%x+:" .. inode .. " ") do
                pids[#pids + 1] = tonumber(pid)
            end
            return pids
        end
        local first = start("flock", command.path "lock file", "true")
        assert(await(function() return #waiting() == 1 end))
        local second = start(command.path "lock file", "true", { PROGRAM = "/usr/bin/flock" })
        assert(await(function() return #waiting() == 2 end))
        local expected = waiting()
        assert.equal(second.pid, expected[2])
        for _ = 1, 30 do
            command.sleep(0.01)
            assert.same(expected, waiting())
        end
        let_go(process)
        assert.same({ code = 0 }, first:wait())
        assert.same({ code = 0 }, second:wait())
    end)

    it("shows the holder to other processes, and the fencing token to the command", function()
        local process = hold(command.program .. " flock", "--why weekly")
        assert.same({ "files lock file lock" }, rows())
        local out, status = sh '$HF flock --verbose -n "$F" true'
        assert.equal(1, status)
        assert.matches('^holdfast: ".*/lock file" has been held by pid ' .. read "held":match "%d+"
                       .. ' %(sh%) for .*: "weekly"\n$', out)
        let_go(process)
        local first = tonumber((sh [[$HF flock "$F" sh -c 'echo $HOLDFAST_TOKEN']]))
        assert.is_true(tonumber((sh [[$HF flock "$F" sh -c 'echo $HOLDFAST_TOKEN']])) > first)
    end)

    it("names the lock after the file, whatever path leads to it", function()
        local process = hold(command.program .. " flock")
        local line = [[ln -s "$F" "$F.link"; cd "$(dirname "$F")"; $HF flock -n "./lock file.link" true]]
        assert.same({ "", 1 }, { sh(line) })
        assert.equal(1, #rows())
        let_go(process)
    end)

    it("locks the file, and not its path", function()
        local process = hold(command.program .. " flock")
        local line = 'rm "$F"; $HF flock -n "$F" echo got; $HF flock -w 20 "$F" echo got >/dev/null'
        assert.same({ "got\n", 0 }, { sh(line) })
        let_go(process)
    end)

    it("succeeds even if the visible lock was taken away, and does not pass on an old fencing token", function()
        local process = hold(command.program .. " flock")
        assert.same({ code = 0 }, (run("rm", "--force", "files")))
        let_go(process)
        assert.equal("without\n", (sh [[export HOLDFAST_TOKEN=5; HOLDFAST_DIR=/proc/none $HF flock "$F" \
            sh -c 'echo ${HOLDFAST_TOKEN-without}']]))
    end)

    it("has the exit statuses of flock(1)", function()
        for line, status in pairs {
            ['"$F" sh -c "exit 7"'] = 7, ['"$F" sh -c "kill -9 \\$\\$"'] = 137, ['"$F" /no/such'] = 69,
            ['/no/such/file true'] = 66, ['/proc/lock true'] = 66, [''] = 64, ['"$F" -c'] = 64,
            ['"$F" -c true more'] = 64, ['-w x "$F" true'] = 64, ['-E 256 "$F" true'] = 64, ['--nosuch "$F" true'] = 64,
            ['-o -F "$F" true'] = 64, ['77'] = 65, ['seven'] = 64, ['/tmp true'] = 0, ['-F "$F" sh -c "exit 3"'] = 3,
            ['-V'] = 0, ['--help'] = 0,
        } do
            local out, ended = sh("$HF flock " .. line)
            assert.equal(status, ended, line .. ": " .. out)
            if status ~= 64 and shell.output "which flock" ~= "" then
                assert.equal(status, select(2, sh("flock " .. line)), line)
            end
        end
    end)

    it("accepts options in every form that getopt_long accepts", function()
        assert.same({ "-n -- x\n", 0 }, { sh '$HF flock -nx "$F" printf "%s %s %s\\n" -n -- x' })
        assert.same({ "ran\n", 0 }, { sh '$HF flock --excl --wai=5 -E9 -- "$F" echo ran' })
        assert.same({ "ran\n", 0 }, { sh '$HF flock -n -w 5 "$F" -c "echo ran"' })
        assert.same({ "ran\n", 0 }, { sh 'SHELL=/bin/sh $HF flock "$F" --command "echo ran"' })
        local out, status = sh '$HF flock --no "$F" true'
        assert.equal(64, status)
        assert.matches('unknown option "%-%-no"', out)
    end)

    it("with --verbose, prints what flock(1) prints", function()
        local out = sh '$HF flock --verbose "$F" true'
        assert.matches("^flock: getting lock took 0%.%d%d%d%d%d%d seconds\nflock: executing true\n$", out)
    end)

    it("does the same if it is called through a link named flock", function()
        local out = sh [[cd "$(dirname "$F")"; ln -s "$HF" flock; ./flock -n "$F" sh -c 'echo "$HOLDFAST_TOKEN"']]
        assert.truthy(tonumber(out))
    end)

    it("keeps the file's lock for processes that the command leaves behind, unless -o closes the file", function()
        local line = [[$HF flock %s "$F" sh -c 'sleep 600 >/dev/null 2>&1 & echo $! >"$0"' "]] .. command.path "left"
                     .. [["; flock -n "$F" echo free]]
        assert.equal("", (sh(line:format(""))))
        command.kill(tonumber(read "left"), command.KILL)
        assert.equal("free\n", (sh(line:format("-o"))))
        command.kill(tonumber(read "left"), command.KILL)
    end)

    it("works without the visible lock if no runtime directory can be used", function()
        local out = sh [[HOLDFAST_DIR=/proc/none $HF flock "$F" sh -c 'echo "ran ${HOLDFAST_TOKEN-without}"';
                         HOLDFAST_DIR=/proc/none $HF flock "$F" flock -n "$F" true; echo $?]]
        assert.matches("ran without\n1\n$", out)
    end)
end)


describe("holdfast flock of a descriptor", function()
    command.fixture()

    it("leaves no copy of the descriptor behind, so that a loop gets the lock each time", function()
        local out = sh [[
            for i in 1 2 3 4 5 6 7 8 9 10; do
                ($HF flock -n 9 || echo refused) 9>"$F"
                ($HF flock 9) 9>"$F"; flock -n "$F" true || echo kept
            done
        ]]
        assert.equal("", out)
    end)

    it("takes only the kernel's lock if no process can watch the descriptor", function()
        local out = sh [[
            mkfifo "$F.pipe"; exec 8<>"$F.pipe"; $HF flock -n 8; echo $?
            exec 9>"$F"; python3 -c 'import fcntl, sys, time
f = open(sys.argv[1], "w"); fcntl.lockf(f, fcntl.LOCK_EX)
print("locked", flush=True); time.sleep(600)' "$F" >"$F.out" & echo $! >"$F.pid"
            until grep -qs locked "$F.out"; do sleep 0.05; done
            $HF flock -n 9; echo $?; flock -n "$F" true; echo $?; $HF unlock --fd 9; kill $(cat "$F.pid")
        ]]
        assert.equal("0\n0\n1\nholdfast: descriptor 9 has no lock\n", out)
    end)

    it("waits neither for its own lock nor for a lock that has been released", function()
        local out = sh [[
            exec 9>"$F"
            $HF flock 9; flock -u 9; $HF flock -w 10 "$F" echo other
            $HF flock -w 10 9 && echo again
            $HF flock -s 9; flock -s "$F" sleep 0.5 & sleep 0.2
            $HF flock -n 9; echo $?; wait; $HF flock -w 10 9; echo $?
        ]]
        assert.equal("other\nagain\n1\n0\n", out)
    end)

    it("holds the lock until the last copy is closed", function()
        local out = sh [[
            exec 9>"$F"
            $HF flock -n 9 || echo no lock
            $HF flock -n "$F" true; flock -n "$F" true; echo $?
            (exec >/dev/null 2>&1; sleep 600) & echo $! >"$F.pid"
            exec 9>&-
            $HF flock -n "$F" true; echo $?
            kill $(cat "$F.pid"); wait
            $HF flock -w 10 "$F" echo free
            $HF locks | wc -l
        ]]
        assert.equal("1\n1\nfree\n0\n", out)
    end)

    it("changes the lock, and releases it with -u", function()
        local out = sh [[
            exec 9>"$F"
            $HF flock -s 9; flock -n -s "$F" echo shared; flock -n "$F" echo exclusive
            $HF locks | cut -f 3,4
            $HF flock 9; flock -n -s "$F" echo shared
            $HF locks | cut -f 3,4
            $HF flock -u 9; flock -n "$F" echo free; $HF locks
            flock 9; $HF flock -n 9; $HF locks | cut -f 3,4
        ]]
        assert.equal("shared\nrwlock\tread\nlock\tlock\nfree\nlock\tlock\n", out)
    end)

    it("is refused whenever flock(1) refuses the descriptor", function()
        local process = hold "flock"
        assert.same({ "", 9 }, { sh 'exec 9>"$F"; $HF flock -n -E 9 9' })
        assert.same({ "", 1 }, { sh 'exec 9>"$F"; $HF flock -w 0.1 9' })
        let_go(process)
    end)

    it("shows the caller as the holder", function()
        local out = sh 'exec 9>"$F"; $HF flock 9; $HF locks | cut -f 7'
        assert.equal("sh\n", out)
    end)
end)


describe("holdfast lock --fd", function()
    command.fixture()

    it("holds a key for a descriptor that is open for reading or writing, until unlock --fd or its end", function()
        for _, redirection in ipairs { '9>"$F"', '9<"$F"', '9<>"$F"', "9<." } do
            local out = sh([[touch "$F"; exec ]] .. redirection .. "\n" .. [[
                $HF lock --fd 9 --why part key || echo no lock
                $HF locks | cut -f 2,3,13
                $HF lock -q -n key true; echo $?
                $HF unlock --fd 9; $HF lock -n key echo free
                $HF lock --fd 9 key; exec 9>&-
                $HF lock -w 10 key echo free
            ]])
            assert.equal("key\tlock\tpart\n1\nfree\nfree\n", out, redirection)
        end
    end)

    it("holds several keys, shared locks or permits, also in a dictionary", function()
        local out = sh [[
            exec 9>"$F"
            $HF lock --fd 9 -s dict a; $HF lock --fd 9 --permits 2 b
            $HF locks | cut -f 1,2,3 | sort
            $HF unlock --fd 9; $HF locks
            $HF unlock --fd 9; echo $?
        ]]
        assert.equal("commands\tb\tsemaphore\ndict\ta\trwlock\nholdfast: descriptor 9 has no lock\n1\n", out)
    end)

    it("does not affect the locks of other descriptors of the file", function()
        local out = sh [[
            exec 8>"$F" 9>"$F"
            $HF lock --fd 8 a; $HF lock --fd 9 b
            $HF unlock --fd 9; $HF locks | cut -f 2
            python3 -c 'import os, sys
os.dup2(os.open(sys.argv[2], os.O_PATH), 7)
os.execv(sys.argv[1], ["holdfast", "unlock", "--fd", "7"])' "$HF" "$F"; $HF locks | cut -f 2
        ]]
        assert.equal("a\nholdfast: descriptor 7 has no lock\na\n", out)
    end)

    it("ends with its shell, even if the shell is killed", function()
        sh [[sh -c 'exec 9>"$0"; "$1" lock --fd 9 key; kill -9 $$' "$F" "$HF"]]
        assert.same({ code = 0 }, (run("lock", "-w", "10", "key", "true")))
    end)

    it("does not keep the caller's terminal and pipes open", function()
        assert.equal("done\n", (sh [[x=$(exec 9>"$F.2"; $HF lock --fd 9 other; echo done; sleep 600 >/dev/null &
                                         echo $! >"$F.pid"); echo "$x"; kill $(cat "$F.pid")]]))
        typing [[
            say("exec 9>/dev/null; " + program + " lock --fd 9 key; echo $? sta''tus\n")
            until("0 status")
            say("exit\n")
        ]]
    end)

    it("is refused for a descriptor that is not open, and with a command", function()
        assert.same({ "holdfast: 77: Bad file descriptor\n", 65 }, { sh "$HF lock --fd 77 key" })
        for line, message in pairs {
            ["--fd 9 key -- true"] = "--fd takes no command", ["--fd 9 -F key"] = "--fd cannot be combined with",
            ["--fd 9 --cluster a key"] = "--fd is not supported in a cluster",
            ["--fd x key"] = '--fd: bad descriptor "x"',
        } do
            local out, status = sh("$HF lock " .. line)
            assert.equal(64, status)
            assert.truthy(out:find(message, 1, true), out)
        end
        assert.matches("no %-%-fd was given", (sh "$HF unlock"))
    end)
end)
