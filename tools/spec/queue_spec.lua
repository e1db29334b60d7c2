-- Tests `holdfast queue`, with which shell scripts push, take and run jobs in the same queue as Lua programs.

local command, completion, json, shell, typing, world =
    require "spec.support" ("command", "tools/completion", "tools/json", "shell", "tools/typing", "tools/world")

local await, output = command.await, world.output

-- Prepended to the code for `holdfast run -e`, in which `jobs` is the queue.
local FIND = [[local jobs = assert(require("resty.holdfast.queue").find("mails"))]]


describe("holdfast queue", function ()
    command.fixture()

    local function queue(...)
        return output("queue", ...)
    end

    local function refused(status, text, ...)
        return world.refused(status, "holdfast: " .. text, "queue", ...)
    end

    -- Pushes jobs. Returns the number of the last job.
    local function push(...)
        local number
        for _, job in ipairs { ... } do
            number = queue("push", "--create", "mails", job):match "^(%d+)\n$"
        end
        return assert(number)
    end

    -- Returns the numbers of ready, delayed, taken and dead jobs.
    local function counts()
        local row = world.rows(queue("ls", "mails"))[1]
        return { tonumber(row[2]), tonumber(row[3]), tonumber(row[4]), tonumber(row[5]) }
    end

    -- Starts a worker that runs a shell command for each job.
    local function work(script, ...)
        local words = { "queue", "work", ... }
        for _, word in ipairs { "mails", "--", "sh", "-c", script } do
            words[#words + 1] = word
        end
        return command.start(unpack(words))
    end

    local function expect_end(process, out, code)
        assert.same({ { code = code or 0 }, out }, { process:wait(), process:out() }, process:err())
    end

    -- Waits until the process has printed the text.
    local function await_output(process, text)
        await(function () return process:out() == text or process:wait(0) end)
        assert.equal(text, process:out(), process:err())
    end

    -- Waits until the process has printed a line. Returns the line.
    local function first_line(process)
        return (assert(await(function () return (process:out() or ""):match "^(.-)\n" end), process:err()))
    end

    local function guard_of(worker)
        return tonumber(shell.output("pgrep -P " .. worker.pid .. " -f 'guard of queue mails'"))
    end

    -- Returns a shell command that waits for the file, which the test creates.
    local function until_file(name)
        return ("while [ ! -e '%s' ]; do sleep 0.01; done"):format(command.path(name))
    end

    describe("work", function ()
        it("runs the command once for each job, with the job as its input", function ()
            push("a", "b\nb\n", "")
            expect_end(work('echo "$HOLDFAST_JOB_ATTEMPTS:$(wc -c)"', "--drain"), "1:1\n1:4\n1:0\n")
            assert.same({ 0, 0, 0, 0 }, counts())
            local number = push("c", "d")
            expect_end(work("echo $HOLDFAST_JOB_NUMBER; cat", "--once"), ("%.0f\nc"):format(number - 1))
            expect_end(command.start("queue", "work", "--once", "mails", "cat"), "d")
        end)

        it("shares the queue with a worker in Lua", function ()
            push("first")
            local lua = command.start("run", "--workers", "1", "-e", FIND .. [[
                while true do
                    local job = jobs:take(60)
                    if job then
                        print(job.value)
                        job:done()
                    end
                end
            ]])
            await_output(lua, "first\n")
            local shell_worker = work "cat; echo"
            local wanted = {}
            for i = 1, 30 do
                wanted[i] = "job " .. i + 10
                push(wanted[i])
            end
            local got
            await(function ()
                got = {}
                for line in (lua:out() .. shell_worker:out()):gmatch "(job %d+)\n" do
                    got[#got + 1] = line
                end
                return #got >= #wanted
            end)
            table.sort(got)
            assert.same(wanted, got)
            lua:signal(command.KILL)
            lua:wait()
            push("last")
            assert(await(function () return shell_worker:out():find "last\n$" end))
        end)

        it("gives the command numbers and booleans as text, and tables as JSON", function ()
            push("text ")
            output("run", "--workers", "1", "-e", FIND .. [[
                for _, value in ipairs { 7, 0.5, true, { to = "alice" }, { 1, { false } } } do
                    assert(jobs:push(value))
                end
            ]])
            expect_end(work("cat; echo", "--drain"), 'text \n7\n0.5\ntrue\n{"to":"alice"}\n[1,[false]]\n')
        end)

        it("gives back a job whose command fails, and makes it dead after --max-attempts", function ()
            local number = push("a")
            local worker = work("exit $((HOLDFAST_JOB_ATTEMPTS + 2))", "--drain", "--retry-delay", "0.01",
                                "--max-attempts", "2")
            expect_end(worker, "")
            assert.equal(('holdfast: job %s/1: "sh" exited with status 3; the job will be retried in 0.01 s\n'
                          .. 'holdfast: job %s/2: "sh" exited with status 4; the job is dead\n'):format(number, number),
                         worker:err())
            assert.same({ 0, 0, 0, 1 }, counts())
        end)

        it("waits longer after each attempt", function ()
            push("a")
            local worker = work("exit 1", "--retry-delay", "0.01")
            await(function () return (worker:err() or ""):find "dead" end)
            local delays = {}
            for delay in worker:err():gmatch "retried in (%S+) s\n" do
                delays[#delays + 1] = delay
            end
            assert.same({ "0.01", "0.02", "0.04", "0.08" }, delays)
        end)

        it("passes on its job when it is killed, and the command and its processes are killed", function ()
            push("a")
            local worker = work('sleep 600 & echo "$$ $!"; wait')
            local pid, child = first_line(worker):match "(%d+) (%d+)"
            local guard = guard_of(worker)
            worker:signal(command.KILL)
            expect_end(work("cat; echo $HOLDFAST_JOB_ATTEMPTS", "--once"), "a2\n")
            for _, one in ipairs { pid, child, guard } do
                assert(await(function () return not command.alive(tonumber(one)) end), one)
            end
            assert.same({ 0, 0, 0, 0 }, counts())
        end)

        it("passes on its job when it is killed, and the command is killed even without a guard", function ()
            push("a")
            local worker = work("echo $$; exec sleep 600")
            local pid = tonumber(first_line(worker))
            command.kill(guard_of(worker), command.KILL)
            worker:signal(command.KILL)
            assert(await(function () return not command.alive(pid) end))
            expect_end(work("cat", "--once"), "a")
        end)

        it("finishes its job after a signal to its process group, and takes no other job", function ()
            for _, signal in ipairs { command.TERM, command.INT, command.HUP, command.QUIT } do
                push("a", "b")
                os.remove(command.path "go")
                local worker = work("echo on; " .. until_file "go" .. "; cat")
                await_output(worker, "on\n")
                worker:signal_group(signal)
                assert.is_nil(worker:wait(0.05))
                command.write("go", "")
                expect_end(worker, "on\na")
                assert.same({ 1, 0, 0, 0 }, counts())
                expect_end(work("cat", "--drain"), "b")
            end
        end)

        it("stops and continues with its command, and finishes its job after Ctrl-C", function ()
            push("a")
            typing(([[
                go = "FOLDERgo"
                say(program + " queue work mails sh -c 'echo is\" \"on; while [ -d FOLDER ] && [ ! -e " + go + " ];"
                    + " do sleep 0.01; done; echo is\" \"done'\n")
                until("is on")
                say("\x1a")
                until("Stopped")
                def await_stopped(count):
                    end = time.time() + 60
                    while os.popen("ps -eo stat,args | grep -c '^T.*" + go[:-1] + "[o]'").read() != count + "\n":
                        assert time.time() < end
                await_stopped("2")
                say("fg\n")
                await_stopped("0")
                say("\x03")
                time.sleep(0.1)  # a command that the signal reached would end
                open(go, "w")
                until("is done")
                until("ready> ")
            ]]):gsub("FOLDER", command.path ""))
            assert.same({ 0, 0, 0, 0 }, counts())
        end)

        it("ends the command after a second signal, and its job is retried", function ()
            push("a")
            local worker = work("trap '' INT; echo on; sleep 600 & wait; wait", "--kill-after", "0.05")
            await_output(worker, "on\n")
            worker:signal(command.TERM)
            assert.is_nil(worker:wait(0.05))
            worker:signal(command.INT)
            expect_end(worker, "on\n")
            assert.truthy(worker:err():find('"sh" was killed by signal 9 (Killed); the job will be retried', 1, true))
            expect_end(work("echo $HOLDFAST_JOB_ATTEMPTS", "--once"), "2\n")
        end)

        it("ends the command and the processes that it started after --exptime", function ()
            local number = push("a")
            local worker = work("(trap '' TERM; exec sleep 600) & echo $!; wait",
                                "--exptime", "1", "--kill-after", "600", "--once")
            assert.same({ code = 0 }, worker:wait())
            local wanted = "holdfast: job %s/1 has run for 1 s; sending TERM to the command, and KILL after 600 s\n"
                           .. 'holdfast: job %s/1: "sh" was killed by signal 15 (Terminated); '
                           .. "the job will be retried in 1 s\n"
            assert.equal(wanted:format(number, number), worker:err())
            local child = tonumber(worker:out())
            assert(await(function () return not command.alive(child) end))
        end)

        it("uses up no job if the command cannot be run", function ()
            push("a")
            refused(2, 'cannot run "no-such-program": there is no such program in $PATH', "work", "mails", "--",
                    "no-such-program")
            local script = command.write("script", "#!/no/such/interpreter\n")
            os.execute("chmod +x '" .. script .. "'")
            refused(2, 'cannot run "' .. script .. '": No such file or directory', "work", "mails", script)
            expect_end(work("cat; echo $HOLDFAST_JOB_ATTEMPTS", "--once"), "a2\n")
        end)

        it("waits for a queue that it creates", function ()
            local worker = work("cat", "--create", "--size", "100k", "--once")
            assert(await(function () return command.run("queue", "ls", "mails").code == 0 end))
            queue("push", "mails", "a")
            expect_end(worker, "a")
        end)
    end)

    describe("take", function ()
        it("prints the job's name and the job, which done ends after the process has ended", function ()
            local number = push("a\nb")
            assert.equal(number .. "/1\na\nb", queue("take", "--lease", "600", "mails"))
            assert.same({ 0, 0, 1, 0 }, counts())
            assert.truthy(output("stat", "mails"):find("\nqueue taken\t1\n", 1, true))
            refused(1, "no job can be taken from \"mails\"", "take", "mails", "--lease", "1", "--wait", "0")
            for _, word in ipairs { number, number .. "/2" } do
                refused(1, "job " .. word .. " is taken by another worker, or has a different number of attempts",
                        "done", "mails", word)
            end
            assert.equal("", queue("done", "mails", number .. "/1"))
            refused(1, "there is no job " .. number, "done", "mails", number .. "/1")
            assert.same({ 0, 0, 0, 0 }, counts())
        end)

        it("lets others take the job when the lease has ended, and makes it dead after --max-attempts", function ()
            local number = push("a")
            for attempt = 1, 2 do
                assert.equal(number .. "/" .. attempt .. "\na",
                             queue("take", "--lease", "0.01", "--max-attempts", "2", "mails", "--wait", "60"))
            end
            refused(1, "job " .. number .. "/1 is taken", "done", "mails", number .. "/1")
            assert(await(function ()
                refused(1, "no job", "take", "mails", "--lease", "1", "--max-attempts", "2", "--wait", "0.1")
                return counts()[4] == 1
            end))
        end)

        it("gives one job after another to a loop in a shell", function ()
            push("a", "b")
            local _, out, err = command.run("-c", ([[
                while true; do
                    '%s' queue take mails --lease 60 --wait 0 | {
                        read -r job || exit
                        cat
                        '%s' queue done mails "$job" && echo
                    } || break
                done
            ]]):format(command.program, command.program), { PROGRAM = "/bin/sh" })
            assert.equal("a\nb\n", out, err)
            assert.same({ 0, 0, 0, 0 }, counts())
        end)

        it("prints JSON", function ()
            local number = push("a\255")
            assert.same({ number = tonumber(number), attempts = 1, value = "a\\xFF", value_hex = "61FF" },
                        json.decode(queue("take", "--lease", "600", "mails", "--json")))
        end)
    end)

    describe("push", function ()
        it("takes a delay, a priority and a key", function ()
            push("normal")
            queue("push", "mails", "late", "--delay", "600")
            queue("push", "mails", "high", "--priority", "9", "--key", "k")
            refused(1, 'there is a job with the key "k"', "push", "mails", "again", "--key", "k")
            assert.same({ 2, 1, 0, 0 }, counts())
            expect_end(work("cat; echo", "--drain"), "high\nnormal\n")
        end)

        it("waits while --max jobs are ready", function ()
            push("a")
            refused(1, 'the queue "mails" is full', "push", "mails", "b", "--max", "1", "--timeout", "0.01")
            local pusher = command.start("queue", "push", "mails", "b", "--max", "1", "--timeout", "60")
            assert.is_nil(pusher:wait(0.05))
            expect_end(work("cat", "--once"), "a")
            assert.same({ code = 0 }, pusher:wait())
        end)

        it("reads the job from standard input", function ()
            push("first")
            local job = ("x\0\n"):rep(1000)
            local path = command.write("job", job)
            assert(shell.succeeds(("'%s' queue push --dir %s mails --stdin < '%s' > /dev/null"):format(
                command.program, command.world(), path)))
            expect_end(work("cat", "--drain"), "first" .. job)
        end)

        it("refuses a job that can never fit", function ()
            refused(2, "key and value are too large: a dictionary of 12288 bytes", "push", "--create", "--size", "12k",
                    "mails", ("x"):rep(20000))
        end)
    end)

    describe("dead, done and retry", function ()
        before_each(function ()
            push("a", "b\tb")
            expect_end(work("exit 1", "--drain", "--max-attempts", "1"), "")
        end)

        it("show dead jobs, put dead jobs back and delete them", function ()
            local rows = world.rows(queue("dead", "mails"))
            assert.same({ "a", "b\\x09b" }, { rows[1][2], rows[2][2] })
            assert.matches("^%d+/1$", rows[1][1])
            queue("done", "mails", rows[2][1])
            queue("retry", "mails", rows[1][1])
            assert.same({ 1, 0, 0, 0 }, counts())
            expect_end(work("cat; echo $HOLDFAST_JOB_ATTEMPTS", "--drain"), "a2\n")
        end)

        it("affect all named jobs, and report missing jobs", function ()
            local first, second = queue("dead", "mails"):match "^(%d+/1)\ta\n(%d+/1)\t"
            refused(1, "there is no job 9", "retry", "mails", first, "9", second, "--delay", "600")
            assert.same({ 0, 2, 0, 0 }, counts())
            assert.equal("", queue("dead", "mails"))
        end)

        it("print at most --max jobs, and JSON", function ()
            assert.equal(1, #world.rows(queue("dead", "mails", "--max", "1")))
            local jobs = json.decode(queue("dead", "mails", "--json"))
            assert.same({ "a", 1, "b\tb" }, { jobs[1].value, jobs[1].attempts, jobs[2].value })
        end)

        it("with ls and dead, change nothing, even as the first process", function ()
            local before = shell.output("ls -l --full-time " .. command.world())
            queue("dead", "mails")
            queue("ls")
            assert.equal(before, shell.output("ls -l --full-time " .. command.world()))
        end)
    end)

    describe("ls", function ()
        it("shows all queues, and only queues, with their workers", function ()
            push("a", "b")
            output("set", "--create", "other", "key", "value")
            local worker = work("echo on; exec sleep 600")
            await_output(worker, "on\n")
            local name, ready, _, taken, _, oldest, pids = unpack(world.rows(queue "ls")[1])
            assert.same({ "mails", "1", "1", tostring(worker.pid) }, { name, ready, taken, pids })
            assert.is_true(tonumber(oldest) < 600)
            local found = json.decode(queue("ls", "--json"))
            assert.equal(command.world(), found.directory)
            assert.same({ { pid = worker.pid, jobs = 1 } }, found.queues[1].workers)
            assert.equal(1, #found.queues)
            assert.matches("^QUEUE +READY +DELAYED +TAKEN +DEAD +OLDEST +WORKERS\nmails +1 +0 +1 +0 ",
                           queue("ls", "--header"))
        end)

        it("shows nothing before a program has used the directory", function ()
            local ended, out = command.run("queue", "ls")
            assert.same({ { code = 0 }, "" }, { ended, out })
            assert.same({}, json.decode(queue("ls", "--json")).queues)
        end)
    end)

    it("refuses dictionaries that are not queues", function ()
        output("set", "--create", "other", "key", "value")
        for _, words in ipairs { { "push", "NAME", "a" }, { "take", "NAME", "--lease", "1" }, { "dead", "NAME" },
                                 { "done", "NAME", "1" }, { "retry", "NAME", "1" }, { "work", "NAME", "true" } } do
            for name, message in pairs { other = '"other" is a dictionary, but not a queue',
                                         missing = 'there is no dictionary "missing" in' } do
                words[2] = name
                refused(2, message, unpack(words))
            end
        end
        refused(2, 'there is no queue "other"', "ls", "other")
    end)

    for _, case in ipairs {
        { { "" }, "no subcommand was given: expected ls, push, take, done, retry, dead or work" },
        { { "walk" }, 'unknown subcommand "walk": expected ls, push, take, done, retry, dead or work' },
        { { "push" }, "no NAME was given" },
        { { "push", "mails" }, "expected either JOB or --stdin" },
        { { "push", "mails", "a", "--stdin" }, "expected either JOB or --stdin" },
        { { "push", "mails", "a", "b" }, 'unexpected "b"' },
        { { "push", "mails", "a", "--size", "1m" }, "--size needs --create" },
        { { "push", "mails", "a", "--create", "--size", "x" }, '--size: bad size "x"' },
        { { "push", "mails", "a", "--create", "--size", "1k" },
          '--size: bad size "1k": expected at least 12288 bytes (12k)' },
        { { "push", "mails", "a", "--delay", "-1" }, '--delay: bad time "-1"' },
        { { "push", "mails", "a", "--timeout", "x" }, '--wait: bad time "x"' },
        { { "push", "mails", "a", "--priority", "1001" }, '--priority: bad number "1001": expected 0 to 1000' },
        { { "push", "mails", "a", "--priority", "0.5" }, '--priority: bad number "0.5"' },
        { { "push", "mails", "a", "--max", "0" }, '--max: bad number "0"' },
        { { "push", "mails", "a", "--key=" }, "--key: bad key: expected 1 to 65534 bytes, got 0" },
        { { "take", "mails" }, "no --lease was given" },
        { { "take", "mails", "--lease", "x" }, '--lease: bad time "x"' },
        { { "take", "mails", "--lease", "1", "--max-attempts", "0" }, '--max-attempts: bad number "0"' },
        { { "take", "mails", "--lease", "1", "--size", "1m" }, "--size needs --create" },
        { { "done", "mails" }, "no JOB was given" },
        { { "done", "mails", "x" }, 'bad job "x": expected NUMBER or NUMBER/ATTEMPTS, as in 4711/1' },
        { { "done", "mails", "4711/" }, 'bad job "4711/"' },
        { { "retry", "mails", "4711/0" }, 'bad job "4711/0"' },
        { { "retry", "mails", "4711", "--delay", "x" }, '--delay: bad time "x"' },
        { { "dead", "mails", "--max", "x" }, '--max: bad number "x"' },
        { { "dead" }, "no NAME was given" },
        { { "work" }, "no NAME was given" },
        { { "work", "mails" }, "no COMMAND was given" },
        { { "work", "mails", "--" }, "no COMMAND was given" },
        { { "work", "mails", "--once", "cat" }, 'unexpected "cat": the command follows "--"' },
        { { "work", "--exptime", "x", "mails", "true" }, '--exptime: bad time "x"' },
        { { "work", "--kill-after", "-1", "mails", "true" }, '--kill-after: bad time "-1"' },
        { { "work", "--retry-delay", "", "mails", "true" }, '--retry-delay: bad time ""' },
        { { "work", "--once=1", "mails", "true" }, 'unexpected "--once=1"' },
        { { "ls", "--max", "1" }, 'unknown option "--max"' },
    } do
        it("refuses: " .. table.concat(case[1], " "), function ()
            if case[1][1] == "" then
                return refused(2, case[2])
            end
            refused(2, case[2], unpack(case[1]))
        end)
    end

    it("is completed", function ()
        push("a")
        assert.same({ ls = true, push = true, work = true, take = true, done = true, retry = true, dead = true },
                    completion("queue", ""))
        assert.is_true(completion("queue", "take", "")["mails"])
        assert.is_true(completion("queue", "take", "--l")["--lease"])
        assert.is_nil(completion("queue", "take", "")["mails.claims"])
        assert.is_true(completion("queue", "work", "mails", "ca")["cat"])
    end)
end)
