-- Tests `holdfast lock`: its options, its exit statuses, and how long it holds the lock, whatever happens to the
-- processes. Also repeats util-linux's tests of flock(1) for the options that both commands have.

local command, expect, shell, typing, world =
    require "spec.support" ("command", "expect", "shell", "tools/typing", "tools/world")

local await, read, run, start, write = command.await, command.read, command.run, command.start, command.write

local STOP, CONT, TSTP, USR1 = 19, 18, 20, 10


-- Joins lists of words.
local function joined(...)
    local all = {}
    for _, list in ipairs { ... } do
        for _, word in ipairs(list) do
            all[#all + 1] = word
        end
    end
    return unpack(all)
end


-- Starts a script with a lock on "key", and waits until the script has written its process id. The script does so at
-- the word READY or, without this word, at its start.
local function hold(script, ...)
    local arguments = { ... }
    local options = type(arguments[#arguments]) == "table" and table.remove(arguments) or {}
    local path = command.path(("holder%d.pid"):format(#command.files("^holder%d+%.pid$") + 1))
    local ready = ("echo $$ >'%s.new'; mv '%s.new' '%s'"):format(path, path, path)
    script = script:find("READY", 1, true) and script:gsub("READY", ready) or ready .. "; " .. script
    local process = start(joined({ "lock" }, arguments, { "key", "--", "sh", "-c", script, options }))
    local pid = await(function() return tonumber(read(path)) end)
    return process, assert(pid, process:err())
end


-- Tries to take the lock. Returns the exit status, which is 0 if the lock was free.
local function attempt(...)
    return run(joined({ "lock", "-q", "-n", ... }, { "key", "--", "true" })).code
end

local function is_free()
    return attempt() == 0
end


-- Returns the child processes of this process, by name.
local function children(pid)
    local found = {}
    for child in (read(("/proc/%d/task/%d/children"):format(pid, pid)) or ""):gmatch("%d+") do
        local name = read("/proc/" .. child .. "/comm")
        if name then
            found[name:match("^[^\n]*")] = tonumber(child)
        end
    end
    return found
end

local function guard_of(process)
    return assert(await(function() return children(process.pid)["holdfast-guard"] end))
end


-- Returns the letter for the state of a process, as in /proc/PID/stat, or "X" if there is no such process.
local function state_of(pid)
    return (read("/proc/" .. pid .. "/stat") or "X) X"):match("%) (%a)")
end

local function await_state(pid, state)
    assert(await(function() return state_of(pid) == state end), "not " .. state .. " but " .. state_of(pid))
end


-- Returns the sorted keys in the JSON of `holdfast locks`.
local function rows_of(json)
    local keys = {}
    for key in json:gmatch '"key":%s*"([^"]*)"' do
        keys[#keys + 1] = key
    end
    table.sort(keys)
    return keys
end


describe("holdfast lock", function()
    command.fixture()

    it("runs the command, and exits with its status", function()
        local ended, out, err = run("lock", "key", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
        assert.same({ code = 7 }, ended)
        assert.equal("out\n", out)
        assert.equal("err\n", err)
        assert.same({ code = 0 }, (run("lock", "key", "--", "true")))
        assert.same({ code = 128 + 15 }, (run("lock", "key", "--", "sh", "-c", "kill -TERM $$")))
        assert.same({ code = 128 + 9 }, (run("lock", "key", "--", "sh", "-c", "kill -KILL $$")))
    end)

    it("with --dir, sets the runtime directory, also for the command", function()
        local other = command.world() .. "/other"
        assert.equal(0, os.execute("mkdir -m 700 " .. other))
        local _, out = run("lock", "--dir", other, "key", "--", "sh", "-c", "echo $HOLDFAST_DIR; exec " ..
                           command.program .. " locks")
        assert.matches("^" .. other:gsub("%p", "%%%0") .. "\ncommands\tkey\tlock\t", out)
        hold("exec sleep 600")
        assert.same({ code = 0 }, (run("lock", "-n", "--dir", other, "key", "--", "true")))
    end)

    it("passes on a relative --dir in a form that stays valid if the command changes its working directory", function()
        local inner = ([[cd / && %s lock -n -q key -- true; echo "$? $HOLDFAST_DIR"]]):format(command.program)
        local place, name = command.world():match("^(.*)/([^/]+)$")
        for _, case in ipairs { { name, "" }, { "./" .. name, "--dir ./" .. name } } do
            local line = ([[cd %s && HOLDFAST_DIR=%s exec %s lock %s key -- sh -c '%s']]):format(
                place, case[2] == "" and case[1] or "/nonexistent", command.program, case[2], inner)
            local _, out, err = run("-c", line, { PROGRAM = "/bin/sh" })
            assert.equal(("1 %s/%s\n"):format(place, case[1]), out, err)
        end
    end)

    it("with --also takes all locks, each key once, in the order of the keys, and exits with the command's status",
       function()
        local list = command.program .. " locks --json | tr , '\\n' | grep '\"key\"'; exit 7"
        local ended, out, err = run("lock", "--also", "b", "c", "--also", "a", "--also", "c", "--", "sh", "-c", list)
        assert.same({ code = 7 }, ended, err)
        assert.equal("a b c", table.concat(rows_of(out), " "))
        assert.is_true(is_free())
        -- Whichever key is given first, the smallest key is taken first. "key" is held, but "zoo" is free.
        hold("exec sleep 600")
        local waiter = start("lock", "zoo", "--also", "key", "--", "true")
        assert(await(function() return select(2, run("locks")):find("key\tlock\tlock\t.*\t1\t") end))
        assert.equal(0, run("lock", "-n", "zoo", "--", "true").code)
        waiter:signal(9)
    end)

    it("with --also, releases the locks that it has if it does not get another lock", function()
        hold("exec sleep 600")
        for _, options in ipairs { { "-n" }, { "-w", "0.2" } } do
            local ended, _, err = run(joined({ "lock", "-E", "9" }, options,
                                             { "apple", "--also", "key", "--", "touch", command.path("ran") }))
            assert.same({ code = 9 }, ended)
            assert.matches('^holdfast: "key" has been held by pid %d+ %(sh%)', (err:gsub("sleep", "sh")))
            assert.is_nil(read(command.path("ran")))
            assert.equal(0, run("lock", "-n", "apple", "--", "true").code)
        end
    end)

    it("with --also, waits for all locks together no longer than -w", function()
        hold("exec sleep 600")
        local first = start("lock", "apple", "--", "sleep", "600")
        assert(await(function() return run("lock", "-n", "-q", "apple", "--", "true").code == 1 end))
        local second = start("lock", "-w", "60", "apple", "--also", "key", "--", "true")
        assert(await(function() return select(2, run("locks")):find("apple\tlock\tlock\t[^\n]*\t1\t") end))
        os.execute("sleep 0.5")
        first:signal(15)
        local rest = await(function()
            local next = children(second.pid).holdfast
            return next and (read("/proc/" .. next .. "/cmdline") or ""):match("%-%-wait=([%d.]+)")
        end)
        assert.is_true(tonumber(rest) < 59.5, rest)
    end)

    it("with --also, ends the whole job when it is told to end, or when the exptime passes", function()
        local process, pid = hold("trap 'exit 3' TERM; READY; sleep 600 & wait", "--also", "zoo")
        process:signal(15)
        assert.same({ code = 3 }, process:wait())
        assert.equal("X", state_of(pid))
        assert.same({ code = 76 }, (run("lock", "--exptime", "0.3", "key", "--also", "zoo", "--", "sleep", "600")))
        assert.equal("", (select(2, run("locks"))))
    end)

    it("refuses --also with --fd and --upgrade, which take one lock, and keys that are empty or too long", function()
        for _, case in ipairs {
            { "--fd", "--fd=9" }, { "--upgrade", "--upgrade" },
        } do
            local ended, _, err = run("lock", case[2], "key", "--also", "zoo")
            assert.same({ code = 64 }, ended)
            assert.matches("^holdfast: %-%-also and " .. case[1]:gsub("%-", "%%-") ..
                           " cannot be combined; run holdfast lock ", err)
        end
        for _, key in ipairs { "", ("k"):rep(65536) } do
            local ended, _, err = run("lock", "key", "--also", key, "--", "true")
            assert.same({ code = 64 }, ended)
            assert.matches("^holdfast: %-%-also: bad key: expected 1 to 65535 bytes, got " .. #key, err)
        end
    end)

    it("with --user, needs root, uses that user's runtime directory, and runs the command as that user", function()
        local function refused(status, user, message)
            world.refused(status, "holdfast: " .. message, "lock", "--user", user, "key", "--", "true")
        end
        refused(64, "no such user", 'there is no user "no such user"')
        refused(64, "", 'bad user "": expected a name or number\n')
        if shell.output "id -u" ~= "0" then
            return refused(71, "root", 'cannot become user "root": only root can')
        end
        local other = command.world() .. ".nobody"
        assert.equal(0, os.execute(("mkdir -m 700 %s && chown nobody: %s"):format(other, other)))
        local ended, out, err = run("lock", "--dir", other, "--user", "nobody", "key", "--", "sh", "-c",
                                    "id -u; id -g; id -G; stat -c %u $HOLDFAST_DIR/commands.*")
        os.execute("rm -rf " .. other)
        assert.same({ code = 0 }, ended, err)
        assert.equal("65534\n65534\n65534\n65534\n", out)
    end)

    it("accepts any key unchanged", function()
        for _, key in ipairs { "a b/ü", "[a,b]", "[1]", "{x}", '"q"', "a=b", "%%", "\\n" } do
            local holder = world.hold(key)
            assert.same({ code = 9 }, (run("lock", "-n", "-q", "-E", "9", key, "--", "true")), key)
            assert.equal(key .. "\n", select(2, run("run", "--workers", "1", "-e", [[
                print(require("resty.shdict").open("commands", { size = "256k" }):locks()[1].key)
            ]])))
            holder:signal(command.TERM)
            holder:wait()
        end
    end)

    it("uses the last value of an option that is given twice, as flock does", function()
        local _, pid = hold("exec sleep 600", "--why", "first", "--why", "second", "-E", "3", "-E", "4")
        local err = world.refused(4, "", "lock", "-w", "600", "--wait", "0.1", "-E", "3", "-E", "4", "key", "--",
                                  "true")
        assert.matches(("has been held by pid %d .*: \"second\"; waited for 0.1 s\n$"):format(pid), err)
    end)

    it("passes arguments and input to the command unchanged", function()
        local _, out = run("lock", "key", "--", "printf", "[%s]", "a b", "", "--", "-n", "*")
        assert.equal("[a b][][--][-n][*]", out)
        local _, piped = run("-c", "printf 'a line\n' | " .. command.program .. " lock key -- cat",
                             { PROGRAM = "/bin/sh" })
        assert.equal("a line\n", piped)
    end)

    it("runs the command after the key without --, unless an option follows the key", function()
        local function ran(...)
            return (world.output("lock", ...))
        end
        assert.equal("-n x -- y\n", ran("key", "printf", "%s %s %s %s\n", "-n", "x", "--", "y"))
        assert.equal("a\n", ran("-x", "-w", "5", "key", "echo", "a"))
        assert.equal("a\n", ran("--why=b", "key", "echo", "a"))
        assert.equal("a b\n", ran("dict", "key", "--", "echo", "a", "b"))
        assert.equal("a b\n", ran("key", "-n", "--", "echo", "a", "b"))
        assert.equal("a -- b\n", ran("-q", "key", "--", "echo", "a", "--", "b"))
        assert.equal("a\n", ran("-c", "echo a", "--", "key", "sh"))
        assert.equal("a\n", ran("key", "sh", "-c", "echo a"))
        assert.equal("a\n", ran("key", "env", "-i", "sh", "-c", "echo a"))
        assert.equal("a\n", ran("key", "--", "env", "--", "echo", "a"))
        assert.equal("a\n", ran("--", "key", "ls", "--", "echo", "a"))
        assert.same({ code = 69 }, (run("lock", "dict", "key")))
    end)

    it("runs a shell command with -c", function()
        local _, out = run("lock", "key", "-c", "echo $((1 + 2)) | cat; exit 3", { SHELL = "/bin/sh" })
        assert.equal("3\n", out)
        local script = write("shell", "#!/bin/sh\necho \"shell $1 $2\"\n")
        os.execute("chmod +x '" .. script .. "'")
        assert.equal("shell -c a b\n", select(2, run("lock", "-c", "a b", "key", { SHELL = script })))
    end)

    it("gives the command its fencing token, which grows", function()
        local last = 0
        for _ = 1, 3 do
            local _, out = run("lock", "key", "--", "sh", "-c", "echo $HOLDFAST_TOKEN")
            assert.is_true(tonumber(out) > last, out)
            last = tonumber(out)
        end
    end)

    it("shows the command as the holder to all other processes", function()
        local _, pid = hold("exec sleep 600", "--why", "weekly full", "my_locks")
        local _, out = run("run", "--workers", "1", "-e", [[
            local holder = require("resty.shdict").open("my_locks"):holder("key")
            print(holder.process, holder.program, holder.why, holder.alive)
            print(require("resty.lock"):new("my_locks"):trylock("key"))
        ]])
        assert.equal(("%d\tsh\tweekly full\ttrue\nnil\theld\n"):format(pid), out)
    end)

    it("does not run the command if -E makes the status of a refusal 0", function()
        hold("exec sleep 600")
        local ran = command.path "ran"
        for _, how in ipairs { { "-n" }, { "-w", "0.2" }, { "-n", "-s" }, { "-n", "-F" }, { "-w", "0.2", "-F" } } do
            local words = { joined({ "lock", "-q", "-E", "0" }, how, { "key", "--", "touch", ran }) }
            assert.same({ { code = 0 }, "", "" }, { run(unpack(words)) })
            assert.is_nil(read(ran), table.concat(how, " "))
        end
    end)

    it("counts refusals and waits separately", function()
        for _, option in ipairs { "-x", "-s" } do
            hold("exec sleep 600", option)
            assert.equal(1, attempt())
            assert.equal(1, attempt("-F"))
            assert.same({ code = 1 }, (run("lock", "-q", "-w", "0", "key", "--", "true")))
            assert.same({ code = 1 }, (run("lock", "-q", "-w", "0.1", "key", "--", "true")))
            local _, out = run("run", "--workers", "1", "-e", [[
                local counts = assert(require("resty.shdict").open("commands"):contention())[1]
                print(counts.key, counts.refused, counts.waits, counts.timeouts)
            ]])
            assert.equal("key\t3\t1\t1\n", out, option)
            command.tear_down()
            command.set_up()
        end
    end)

    it("accepts a key that begins with a dash after --, or a dictionary and such a key between two --", function()
        world.hold("-n", "--why=", "--", "-k")
        assert.same({ code = 1 }, (run("lock", "-q", "-n", "--", "-k", "--", "true")))
        assert.same({ code = 1 }, (run("lock", "-q", "-n", "--", "commands", "-k", "--", "true")))
        assert.same({ code = 1 }, (run("lock", "-q", "-n", "-c", "true", "--", "-k")))
        assert.same({ code = 1 }, (run("lock", "-q", "-n", "--", "-k", "true")))
        local said = select(2, run("lock", "-n", "--", "-key", "echo", "hi", "-k"))
        assert.equal("hi -k\n", said)
        local ended, out = run("lock", "-n", "--", "-d", "--wait", "--", "echo", "--", "done")
        assert.same({ { code = 0 }, "-- done\n" }, { ended, out })
        local _, listed = run("ls")
        assert.truthy(listed:find("commands", 1, true), listed)
    end)

    it("names the holder when it is refused", function()
        local _, pid = hold("exec sleep 600", "--why", "weekly full")
        local err = world.refused(1, "", "lock", "-n", "key", "--", "echo", "ran")
        local said = ('^holdfast: "key" has been held by pid %d %%(sh%%) for [%%d.]+ m?i?n?s?: '
                      .. '"weekly full"\n$'):format(pid)
        assert.matches(said, err)
        err = world.refused(9, "", "lock", "-w", "0.05", "-E", "9", "key", "--", "true")
        assert.matches('"weekly full"; waited for 0.1 s\n$', err)
        assert.same({ { code = 1 }, "", "" }, { run("lock", "-n", "-q", "key", "--", "true") })
    end)

    it("reports that the holder has ended if processes that it left running hold the lock", function()
        local left = command.path("left")
        assert.same({ code = 0 }, (run("lock", "-F", "key", "--", "sh", "-c", "sleep 600 & echo $! >'" .. left .. "'")))
        local _, _, err = run("lock", "-n", "key", "--", "true")
        assert.matches('^holdfast: "key" has been held by pid %d+ %(sh%), ended, for ', err)
        assert.matches("\tended\t", select(2, run("locks")))
        command.kill(tonumber(read(left)), command.KILL)
        assert(await(is_free))
    end)

    it("reports that the holder is stopped", function()
        local _, pid = hold("exec sleep 600")
        command.kill(pid, STOP)
        await_state(pid, "T")
        local err = select(3, run("lock", "-n", "key", "--", "true"))
        assert.matches(('^holdfast: "key" has been held by pid %d %%(sh%%), stopped, for '):format(pid), err)
        start("lock", "key", "--", "true")
        local held = ("has been held by pid %d (sh), stopped, for "):format(pid)
        assert(await(function() return select(2, run("locks", "--waiting")):find(held, 1, true) end))
    end)

    it("shows the name of a holder without control characters", function()
        local program = write("\27[2J\nx", "#!/bin/sh\nexec sleep 600\n")
        assert.equal(0, os.execute("chmod +x '" .. program .. "'"))
        local holder = start("lock", "key", "--", program)
        assert(await(function() return attempt() == 1 end), holder:err())
        local _, _, err = run("lock", "-n", "key", "--", "true")
        assert.matches('^holdfast: "key" has been held by pid %d+ %(\\x1B%[2J\\x0Ax%) for [%d.]+ s\n$', err)
    end)

    it("and resty.lock exclude each other", function()
        local script = write("script.lua", [[
            local shdict, resty_lock = require "resty.shdict", require "resty.lock"
            assert(shdict.open("my_locks", { size = "64k" }))
            local lock = assert(resty_lock:new("my_locks", { timeout = 60, exptime = 600 }))
            assert(lock:lock("key"))
            local status = os.execute(arg[1] .. " lock -q -n -E 9 my_locks key -- true")
            print(status)
            lock:unlock()
            print(os.execute(arg[1] .. " lock -n my_locks key -- true"))
        ]])
        local _, out, err = run("run", "--workers", "1", script, command.program)
        assert.equal("", err)
        assert.equal(tostring(9 * 256) .. "\n0\n", out)
    end)

    it("leaves no holder, no process and no dictionary behind", function()
        local keeper = start("run", "--workers", "1", "--dict", "my_locks=64k", "-e",
                             "while true do require('resty.holdfast.scheduler').sleep(0.01) end")
        assert(await(function() return read(command.world() .. "/my_locks.dict") end))
        for _, options in ipairs { "-x", "-s" } do
            run("lock", options, "my_locks", "key", "--", "sh", "-c",
                "setsid sleep 600 & echo $! >'" .. command.path("left") .. "'")
            local _, out = run("run", "--workers", "1", "-e", [[
                print((require("resty.shdict").open("my_locks"):holder("key")))
            ]])
            command.kill(tonumber(read("left")), command.KILL)
            assert.equal("nil\n", out)
        end
        keeper:signal(command.TERM)
        keeper:wait()
        run("lock", "key", "--", "true")
        assert.is_nil(read(command.world() .. "/commands.dict"))
    end)
end)


-- As in util-linux's tests of flock, one process holds the lock for a while, and other processes try the options.
describe("holdfast lock has the options of flock:", function()
    command.fixture()

    it("--nonblock, --no-fork, --shared, --exclusive, --timeout during a shared lock", function()
        local done = command.path("done")
        local holder = hold("until [ -e '" .. done .. "' ]; do sleep 0.01; done; echo Unlocking", "--shared")
        for _, options in ipairs { { "--nonblock" }, { "--nb" }, { "--nonblocking" }, { "-n" }, { "-w", "0" },
                                   { "--no-fork", "--nonblock" }, { "-F", "-n" }, { "--close", "--nonblock" },
                                   { "--nonblock", "--exclusive" }, { "-n", "-x" }, { "-n", "-e" },
                                   { "--timeout", "0.02" }, { "--wait=0.02" } } do
            local ended, out = run(joined({ "lock", "--conflict-exit-code", "123" }, options,
                                          { "key", "--", "echo", "You will never see this!" }))
            assert.same({ { code = 123 }, "" }, { ended, out }, table.concat(options, " "))
        end
        local ended, out = run("lock", "--shared", "key", "--", "echo", "Have shared lock")
        assert.same({ code = 0 }, ended)
        assert.equal("Have shared lock\n", out)
        local waiter = start("lock", "--timeout", "60", "-E", "5", "key", "--", "echo", "After timeout.")
        command.sleep(0.1)
        assert.equal("", waiter:out())
        write("done", "")
        assert.same({ code = 0 }, waiter:wait())
        assert.equal("After timeout.\n", waiter:out())
        assert.same({ code = 0 }, holder:wait())
        assert.equal("Unlocking\n", holder:out())
    end)

    for _, case in ipairs {
        { "-x", "-s" }, { "-x", "--permits=2" }, { "-s", "-x" }, { "-s", "--permits=2" }, { "--permits=2", "-x" },
        { "--permits=2", "-s" },
    } do
        local held, wanted = unpack(case)

        it(("a request with %s waits for a holder with %s, as locks and doctor show"):format(wanted, held), function()
            local holder, pid = hold("exec sleep 600", held)
            assert.equal(1, attempt(wanted))
            local waiter = start("lock", wanted, "key", "--", "echo", "ran")
            -- Returns the number of waiters, which shows whether the request is in the queue.
            local function waiters()
                return tonumber(world.rows(world.output("locks"))[1][12])
            end
            assert(await(function() return waiters() == 1 end))
            assert.matches("has waited for", world.output("locks", "--waiting"))
            assert.equal(1, run("doctor", "--waiting", "0").code)
            command.kill(pid, STOP)
            await_state(pid, "T")
            assert.equal(1, attempt(wanted))
            assert.equal(1, waiters())
            assert.equal("", waiter:out())
            command.kill(guard_of(holder), command.KILL)
            holder:signal(command.KILL)
            command.kill(pid, command.KILL)
            assert.same({ code = 0 }, waiter:wait())
            assert.equal("ran\n", waiter:out())
        end)

        it(("a request with %s waits for a holder with %s, whose exptime ends"):format(wanted, held), function()
            local holder = start("lock", "--exptime", "0.3", held, "key", "--", "sleep", "600")
            assert(await(function() return attempt(wanted) == 1 end))
            assert.same({ code = 0 }, (run("lock", wanted, "key", "--", "true")))
            assert.same({ code = 76 }, holder:wait())
        end)
    end

    it("serves shared and exclusive requests in order of arrival", function()
        local path = command.path "order"
        local holder = hold("exec sleep 600")
        local started = {}
        for i, options in ipairs { "-s", "-x", "--permits=2", "-s" } do
            started[i] = start("lock", options, "key", "--", "sh", "-c", ("echo %d >>'%s'"):format(i, path))
            assert(await(function() return tonumber(world.rows(world.output("locks"))[1][12]) == i end))
        end
        holder:signal(command.TERM)
        for _, process in ipairs(started) do
            assert.same({ code = 0 }, process:wait())
        end
        assert.equal("1\n2\n3\n4\n", read(path))
    end)

    it("lets at most --permits commands hold a semaphore, which resty.semaphore and locks show", function()
        local first, one = hold("exec sleep 600", "--permits", "2")
        hold("exec sleep 600", "--permits", "2")
        local err = world.refused(1, "", "lock", "-n", "--permits", "2", "key", "--", "true")
        assert.matches('^holdfast: "key" has been held by pid %d+ .* and 1 more for ', err)
        assert.matches('"key" has been held', world.refused(1, "", "lock", "-n", "key", "--", "true"))
        assert.matches('"key" has been held', world.refused(1, "", "lock", "-n", "-s", "key", "--", "true"))
        local held = {}
        for _, row in ipairs(world.rows(world.output("locks"))) do
            held[#held + 1] = table.concat({ row[2], row[3], row[4] }, " ")
        end
        assert.same({ "key semaphore 1 permit", "key semaphore 1 permit" }, held)
        local _, out = run("run", "--workers", "1", "-e", [[
            local semaphore = require("resty.semaphore"):new("commands", { permits = 3, timeout = 0 })
            print(semaphore:count("key"))
        ]])
        assert.equal("1\t0\n", out)
        local waits = start("lock", "-w", "60", "--permits", "2", "key", "--", "echo", "ran")
        first:signal(command.KILL)
        command.kill(one, command.KILL)
        assert.same({ code = 0 }, waits:wait(), waits:err())
        assert.equal("ran\n", waits:out())
    end)

    it("an exclusive waiter keeps later shared requests out", function()
        local first = hold("exec sleep 600", "-s")
        local alone = start("lock", "key", "--", "sleep", "600")
        assert(await(function() return attempt("-s") == 1 end))
        local _, _, err = run("lock", "-s", "-n", "key", "--", "true")
        assert.matches('^holdfast: "key" has been shared by pid %d+ .* for [%d.]+ s; '
                       .. 'an exclusive waiter comes first\n$', err)
        first:signal(command.TERM)
        assert.truthy(await(function() return children(alone.pid).sleep end))
    end)

    it("shared and exclusive locks of killed processes are free", function()
        for _, options in ipairs { { "-s", "-x" }, { "-s", "-s" }, { "-x", "-x" }, { "-x", "-s" } } do
            local held, tried = unpack(options)
            local process, pid = hold("exec sleep 600", held)
            command.kill(guard_of(process), command.KILL)
            process:signal(command.KILL)
            command.kill(pid, command.KILL)
            assert(await(function() return attempt(tried) == 0 end), held .. tried)
        end
    end)

    it("--verbose prints the wait and the command", function()
        local _, out, err = run("lock", "--verbose", "key", "--", "echo", "ran")
        assert.equal("ran\n", out)
        assert.matches("^holdfast: getting lock took %d+%.%d%d%d%d%d%d seconds\nholdfast: executing echo\n$", err)
    end)

    it("--verbose does not keep the lock if nobody reads the messages", function()
        for _, name in ipairs { "lock", "flock" } do
            local key = name == "lock" and "key" or command.path "file"
            local line = "(head -c 65536 /dev/zero; exec %s %s --verbose '%s' touch '%s' 2>&1) "
                         .. "| (until [ -e '%s' ]; do sleep 0.01; done; cat >/dev/null)"
            local process = start("-c", line:format(command.program, name, key, command.path "ran" .. name,
                                                    command.path "ran" .. name), { PROGRAM = "/bin/sh" })
            assert.same({ code = 0 }, process:wait())
        end
    end)

    it("is refused, and ends, although nobody reads the message", function()
        hold("exec sleep 600")
        local line = "(head -c 65536 /dev/zero; %s lock -n key true 2>&1; echo $? >'%s') "
                     .. "| (until [ -s '%s' ]; do sleep 0.01; done; cat >/dev/null)"
        local status = command.path "status"
        local process = start("-c", line:format(command.program, status, status), { PROGRAM = "/bin/sh" })
        assert.same({ code = 0 }, process:wait())
        assert.equal("1\n", read(status))
    end)

    it("a command that cannot be run has status 69, and releases the lock", function()
        for _, options in ipairs { "-x", "-F" } do
            local err = world.refused(69, "", "lock", options, "key", "--", "/no/such/program")
            assert.equal('holdfast: cannot run "/no/such/program": No such file or directory\n', err)
            assert.is_true(is_free())
        end
    end)

    for _, case in ipairs {
        { {}, "no key was given" },
        { { "key" }, 'no command was given: expected COMMAND or -c COMMAND' },
        { { "key", "--" }, 'no command was given' },
        { { "-n", "9" }, 'no command was given: expected COMMAND or -c COMMAND; use --fd '
                         .. 'for a file descriptor' },
        { { "-n", "dict", "-q", "key", "more", "--", "true" }, 'unexpected "more": the command follows "--"' },
        { { "key", "ls", "-c", "true" }, '"ls" may be the key or the command; write key -- ls ... to run it, or '
                                         .. '-- key ls -- COMMAND' },
        { { "key", "rm", "--", "a.txt" }, '"rm" may be the key or the command; write key -- rm ... to run it, or '
                                         .. '-- key rm -- COMMAND' },
        { { "key", "-n", "true" }, "no command was given" },
        { { "", "--", "true" }, "bad key: expected 1 to 65535 bytes, got 0" },
        { { "-z", "key", "--", "true" }, 'unknown option "-z"' },
        { { "-w", "x", "key", "--", "true" }, '--wait: bad time "x": expected seconds from 0 to 1e9, as in 2.5' },
        { { "-w", "-1", "key", "--", "true" }, '--wait: bad time "-1"' },
        { { "-w", "nan", "key", "--", "true" }, '--wait: bad time "nan"' },
        { { "--exptime", "", "key", "--", "true" }, '--exptime: bad time ""' },
        { { "-E", "256", "key", "--", "true" }, '--conflict-exit-code: bad status "256": expected 0 to 255' },
        { { "-s", "-x", "key", "--", "true" }, "-s and -x cannot be combined" },
        { { "-n", "-w", "5", "key", "--", "true" }, "-n and -w cannot be combined" },
        { { "--permits", "0", "key", "true" }, '--permits: bad number "0": expected 1 to 1073741823' },
        { { "--permits", "2", "-s", "key", "true" }, "--permits and -s cannot be combined" },
        { { "--permits", "2", "--cluster", "a", "key", "true" }, "--permits is not supported in a cluster" },
        { { "--", "true" }, "no key was given" },
        { { "--", "-key" }, "no command was given" },
        { { "--", "key", "true" }, "no key was given" },
        { { "--", "key" }, "no key was given" },
        { { "--", "dict", "-key", "true" }, "no key was given" },
        { { "-u", "key", "--", "true" }, "there is nothing to unlock: the lock ends with the command" },
        { { "-F", "-o", "key", "--", "true" }, "--no-fork and --close cannot be combined" },
        { { "-F", "--exptime", "5", "key", "--", "true" }, "--no-fork and --exptime cannot be combined" },
        { { "-F", "--cluster", "a", "key", "--", "true" },
          "--no-fork is not supported in a cluster: nothing would end the command when the lock ends" },
        { { "-E", "0x10", "key", "--", "true" }, '--conflict-exit-code: bad status "0x10": expected 0 to 255' },
        { { "-E", "", "key", "--", "true" }, '--conflict-exit-code: bad status "": expected 0 to 255' },
        { { "-w", "0x1", "key", "--", "true" }, '--wait: bad time "0x1": expected seconds' },
        { { "--dir", "", "key", "--", "true" }, '--dir: bad directory "": expected a path' },
        { { "--nosuch", "key", "--", "true" }, 'unknown option "--nosuch": expected one of ' },
        { { "key", "-c", "echo", "stray" },
          'unexpected "stray" after -c COMMAND: expected the command as one word, in quotes' },
        { { "dict", "key", "-c", "echo", "stray" }, 'unexpected "stray" after -c COMMAND' },
        { { "dict", "-c", "echo", "key" }, 'unexpected "key" after -c COMMAND' },
        { { "-c", "true", "-c", "false", "key" }, "--command: given twice; expected once" },
        { { "-c", "true", "key", "--", "true" }, '-c cannot be combined with a command after "--"' },
        { { "--why", ("x"):rep(128), "key", "--", "true" }, "--why: bad text: expected at most 127 bytes, got 128" },
        { { "--agent", "key", "--", "true" }, "--agent and --agent-config need --cluster NAME" },
        { { "--cluster", "main", "--agent-config", "file", "key", "--", "true" },
          "--agent-config needs --agent" },
        { { "--cluster", "a/b", "key", "--", "true" }, 'bad cluster "a/b"' },
        { { "--cluster", "main", "-s", "key", "--", "true" }, "-s is not supported in a cluster" },
        { { "--cluster", "main", "--upgrade", "key", "--fd", "3" }, "--upgrade is not supported in a cluster" },
        { { "--upgrade", "key" }, "--upgrade needs --fd N outside a job: $HOLDFAST_TOKEN is not set" },
        { { "--upgrade", "key", "--", "true" }, "--upgrade takes no command: the lock is held already" },
        { { "--upgrade", "--fd", "3", "-s", "key" },
          "--upgrade can be combined only with --fd, -x, -n, -w, -E, -q, --verbose, --dir and --user" },
    } do
        it("a wrong command line has status 64: " .. table.concat(case[1], " "), function()
            local err = world.refused(64, "holdfast: " .. case[2], "lock", unpack(case[1]))
            assert.truthy(err:find('Try "holdfast lock --help".', 1, true), err)
        end)
    end

    it("a dictionary that cannot be opened has status 73", function()
        local by_option = world.refused(73, "/proc/x", "lock", "--dir", "/proc/x", "key", "--", "true")
        assert.matches("^holdfast: ", by_option)
        world.refused(73, by_option, "lock", "key", "--", "true", { HOLDFAST_DIR = "/proc/x" })
    end)

    it("--version and -V print the version", function()
        for _, option in ipairs { "--version", "-V" } do
            local ended, out = run("lock", option)
            assert.same({ code = 0 }, ended)
            assert.matches("^holdfast %d+%.%d+%.%d+\n$", out)
        end
    end)

    it("--help explains all of this", function()
        local ended, out, err = run("lock", "--help")
        assert.same({ code = 0 }, ended)
        assert.equal("", err)
        for _, text in ipairs { "Usage: holdfast lock [OPTIONS] KEY COMMAND", "-s,--shared",
                                "-E,--conflict-exit-code STATUS", "HOLDFAST_TOKEN", "75  no agent" } do
            assert.truthy(out:find(text, 1, true), out)
        end
    end)
end)


describe("The lock of a command", function()
    command.fixture()

    -- If other processes created the deleted files again, the new files would not contain this holder.
    for _, case in ipairs {
        { "processes", "--exclusive" }, { "processes", "--exclusive", "killed" }, { "processes", "--no-fork" },
        { "commands.dict", "--exclusive" }, { "commands.dict", "--exclusive", "killed" },
        { "commands.dict", "--no-fork" },
    } do
        local file, option, killed = unpack(case)
        it(("keeps others out even if %s is deleted, with %s %s"):format(file, option, killed or ""), function()
            os.execute("mkfifo '" .. command.path("go") .. "'")
            local left = command.path("left")
            local script = "setsid sleep 600 & echo $! >'%s'; READY; read -r line <'%s'"
            local process, pid = hold(script:format(left, command.path("go")), option)
            local job = tonumber(read(left))
            if killed then
                guard_of(process)
                process:signal(command.KILL)
                process:wait()
            end
            assert(os.remove(command.world() .. "/" .. file))
            local err = world.refused(73, "", "lock", "-n", "key", "--", "true")
            assert.matches(file == "processes" and "is used by processes that the file \"processes\" does not list"
                           or "was deleted, moved or replaced, but processes still use it", err)
            assert.same({ code = 73 }, (run("lock", "-w", "5", "other", "--", "true")))
            write("go", "\n")
            assert(await(function() return not command.alive(pid) end))
            if option == "--no-fork" then
                assert.equal(73, attempt())
                command.kill(job, command.KILL)
            end
            assert(await(is_free, 10))
            command.kill(job, command.KILL)
        end)
    end

    for _, killed in ipairs { "holdfast lock", "the guard", "both" } do
        it("remains if these are killed, and ends with the command: " .. killed, function()
            local process, pid = hold("exec sleep 600")
            local guard = guard_of(process)
            if killed ~= "holdfast lock" then
                command.kill(guard, command.KILL)
            end
            if killed ~= "the guard" then
                process:signal(command.KILL)
                process:wait()
            end
            assert.is_false(is_free())
            assert.is_true(command.alive(pid))
            command.kill(pid, command.KILL)
            assert(await(is_free, 10))
        end)
    end

    it("ends when the command is killed, even while holdfast lock is stopped", function()
        local process, pid = hold("exec sleep 600")
        guard_of(process)
        process:signal(STOP)
        await_state(process.pid, "T")
        assert.is_false(is_free())
        command.kill(pid, command.KILL)
        assert(await(is_free, 10))
        assert.equal("T", state_of(process.pid))
        process:signal(CONT)
        assert.same({ code = 128 + 9 }, process:wait())
    end)

    local function start_waiting(...)
        local waits = start("lock", ...)
        assert(await(function() return select(2, run("locks", "--waiting")):find("has waited", 1, true) end),
               waits:err())
        return waits
    end

    it("can be waited for in a dictionary that replaces a removed one", function()
        hold("exec sleep 600")
        local waits = start_waiting("-w", "60", "key", "--", "echo", "ran")
        assert.same({ code = 0 }, (run("rm", "--force", "commands")))
        assert.same({ code = 0 }, waits:wait(), waits:err())
        assert.equal("ran\n", waits:out())
        assert.equal("", waits:err())
    end)

    for _, file in ipairs { "processes", "commands.dict" } do
        for _, option in ipairs { "--exclusive", "--no-fork" } do
            it(("is no longer waited for when %s is truncated, with %s"):format(file, option), function()
                hold("exec sleep 600")
                local waits = start_waiting(option, "-w", "60", "key", "--", "true")
                os.execute(("truncate -s 5000 %s/%s"):format(command.world(), file))
                assert.same({ code = 73 }, waits:wait(), waits:err())
                assert.matches(file == "processes" and "was cut short"
                               or "has 5000 bytes, but was created with", waits:err())
            end)
        end
    end

    -- Starts `holdfast lock` and stops it before the lock is free. Returns the process and its waiting child, or false
    -- if the wait timed out too early.
    local function start_stopped(...)
        local waits = start("lock", ...)
        local child
        assert(await(function()
            child = children(waits.pid).holdfast
            return waits:wait(0) or child and select(2, run("locks", "--waiting")):find("key", 1, true)
        end))
        command.kill(waits.pid, STOP)
        assert(await(function() return waits:wait(0) or state_of(waits.pid) == "T" end))
        return not waits.status and waits, child
    end

    -- While `holdfast lock` is stopped, it cannot start a guard. The command must not start without a guard, so the
    -- lock must not be taken.
    it("is not taken while holdfast lock is stopped, but is taken when it continues", function()
        local _, pid = hold("exec sleep 600")
        local ran = command.path "ran"
        local waits = start_stopped("key", "--", "touch", ran)
        command.kill(pid, command.KILL)
        assert(await(is_free))
        for _ = 1, 5 do
            assert.same({ code = 0 }, (run("lock", "-w", "20", "key", "--", "true")))
        end
        assert.is_nil(read(ran))
        local _, other = hold("exec sleep 600", "-w", "20")
        waits:signal(CONT)
        assert(await(function() return select(2, run("locks", "--waiting")):find("key", 1, true) end))
        command.kill(other, command.KILL)
        assert.same({ code = 0 }, waits:wait(), waits:err())
        assert.equal("", waits:err())
        assert.truthy(read(ran))
        assert(await(is_free))
    end)

    it("is not taken while holdfast lock is stopped, and the wait times out", function()
        local _, pid = hold("exec sleep 600")
        local waits
        expect.in_time(function()
            waits = start_stopped("-q", "-w", "1", "key", "--", "true")
            return waits
        end)
        command.kill(pid, command.KILL)
        assert(await(is_free))
        hold("exec sleep 600", "-w", "20")
        waits:signal(CONT)
        assert.same({ code = 1 }, waits:wait(), waits:err())
    end)

    it("does not run the command without a guard if holdfast lock is stopped and killed", function()
        for _, option in ipairs { "--close", "--exclusive" } do
            local _, pid = hold("exec sleep 600")
            local ran = command.path "ran"
            local waits, child = start_stopped(option, "key", "--", "sh", "-c", "touch '" .. ran .. "'; exec sleep 600")
            command.kill(pid, command.KILL)
            assert(await(is_free))
            waits:signal(command.KILL)
            assert(await(function() return not command.alive(child) end))
            assert(await(is_free))
            assert.is_nil(read(ran))
        end
    end)

    it("remains while the command is stopped", function()
        local process, pid = hold("exec sleep 600")
        command.kill(pid, STOP)
        await_state(pid, "T")
        assert.is_false(is_free())
        command.kill(pid, command.KILL)
        process:signal(CONT)
        assert.same({ code = 128 + 9 }, process:wait())
    end)

    for _, case in ipairs { { "at its end", "" }, { "after holdfast lock was killed", "KILL" } } do
        it("is not kept by daemons that the command leaves running, " .. case[1], function()
            local left = command.path("left")
            os.execute("mkfifo '" .. command.path("go") .. "'")
            local script = "setsid sleep 600 & echo $! >'%s'; read -r line <'%s'"
            local process, pid = hold(script:format(left, command.path("go")))
            local guard = guard_of(process)
            local job = assert(await(function() return tonumber(read(left)) end))
            if case[2] == "KILL" then
                process:signal(command.KILL)
                process:wait()
            end
            assert.is_false(is_free())
            write("go", "\n")
            assert(await(function() return not command.alive(pid) end))
            assert(await(is_free, 10))
            assert.is_true(command.alive(job))
            assert(await(function() return not command.alive(guard) end))
            command.kill(job, command.KILL)
        end)
    end

    it("leaves no zombie to a parent that does not reap its children", function()
        local script = [[
            import ctypes, os, subprocess, sys
            ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
            for command in "true", "kill -TERM $PPID; sleep 600":
                print(subprocess.call([sys.argv[1], "lock", "key", "-c", command]))
                print(open("/proc/thread-self/children").read())
        ]]
        write("reaps.py", (script:gsub("\n" .. (" "):rep(12), "\n"):gsub("^%s+", "")))
        assert.equal("0\n\n-15",
                     shell.output(("python3 '%s' '%s'"):format(command.path "reaps.py", command.program)))
    end)

    it("remains if the command closes all descriptors", function()
        local script = [[
            import os
            os.closerange(3, 4096)
            open(os.environ["PID"], "w").write(str(os.getpid()))
            import time
            time.sleep(600)
        ]]
        for _, killed in ipairs { false, true } do
            local path = command.path("closed" .. tostring(killed))
            local process = start("lock", "key", "--", "python3", "-c",
                                  (script:gsub("\n%s+", "\n"):gsub("^%s+", "")), { PID = path })
            local pid = assert(await(function() return tonumber(read(path)) end), process:err())
            guard_of(process)
            if killed then
                process:signal(command.KILL)
                process:wait()
            end
            assert.is_false(is_free())
            command.kill(pid, command.KILL)
            assert(await(is_free, 10))
        end
    end)

    it("gives the command no files of the runtime directory except empty read-only ones", function()
        local process, pid = hold("exec sleep 600")
        local program = [[
            cd /proc/%d/fd || exit
            for fd in *; do
                case $(readlink "$fd") in
                %s/*) echo "$(stat -Lc '%%s bytes, mode %%a,' "$fd") $(grep ^flags: "../fdinfo/$fd")" ;;
                esac
            done
        ]]
        local list = assert(io.popen(program:format(pid, command.world())))
        local lines = list:read "*a"
        list:close()
        local count = 0
        for line in lines:gmatch "[^\n]+" do
            assert.truthy(line:find "^0 bytes, mode 400, flags:%s*%d*[04]$", line)  -- the last digit: access
            count = count + 1
        end
        assert.equal(2, count)
        command.kill(pid, command.KILL)
        process:wait()
    end)

    it("can be taken if standard input, output and error are closed", function()
        local ran = command.path "ran"
        local line = ([[exec %s lock key -- sh -c 'echo on >"%s"; exit 7' <&- >&- 2>&-]]):format(command.program, ran)
        local process = start("-c", line, { PROGRAM = "/bin/sh" })
        assert.same({ code = 7 }, process:wait())
        assert.equal("on\n", read(ran))
    end)

    it("is not held by the command with --close, and only by the command with --no-fork", function()
        local closed, pid = hold("ls -l /proc/$$/fd >'" .. command.path("fds") .. "'; READY; exec sleep 600", "--close")
        local guard = guard_of(closed)
        assert.falsy(read("fds"):find(command.world(), 1, true))
        closed:signal(command.KILL)
        closed:wait()
        assert.is_false(is_free())
        command.kill(guard, command.KILL)
        assert(await(is_free, 10))
        command.kill(pid, command.KILL)

        local process, same = hold("exec sleep 600", "--no-fork")
        assert.equal(process.pid, same)
        assert(await(function() return next(children(process.pid)) == nil end))  -- the script's commands have ended
        assert.is_false(is_free())
        process:signal(command.KILL)
        assert(await(is_free, 10))
    end)

    for _, case in ipairs {
        { "another process released the lock", "release", "commands", "key", "--token" },
        { "another process released the lock", "run", "--workers", "1", "-e",
          "require('resty.shdict').open('commands'):flush_all()" },
        { 'its dictionary "commands" was removed', "rm", "--force", "commands" },
    } do
        it("is reported with status 76 if other processes took it away while the command ran: " .. case[2], function()
            local words = { unpack(case, 2) }
            for _, exptime in ipairs { "0", "600" } do
                local process, pid = hold("exec sleep 600", "--exptime", exptime)
                if case[2] == "release" then
                    words[5] = world.rows(world.output("locks"))[1][5]
                end
                assert.same({ code = 0 }, (run(unpack(words))))
                command.kill(pid, command.TERM)
                assert.same({ code = 76 }, process:wait())
                local said = ('holdfast: "key" was taken away: %s while the command ran\n'):format(case[1])
                assert.equal(said, process:err())
            end
        end)
    end

    it("is reported as lost, whatever the status of the command is", function()
        for _, status in ipairs { 69, 71 } do
            local process, pid = hold("trap 'exit " .. status .. "' TERM; READY; while :; do sleep 0.01; done")
            assert.same({ code = 0 }, (run("rm", "--force", "commands")))
            command.kill(pid, command.TERM)
            assert.same({ code = 76 }, process:wait())
        end
        assert.same({ code = 71 }, (run("lock", "key", "--", "sh", "-c", "exit 71")))
    end)

    it("ends the command when it is lost, even if nobody reads the message", function()
        local told, ended = command.path "told", command.path "ended"
        local process = start("-c", ([[(%s lock --exptime 0.3 key -- sh -c 'exec 2>/dev/null; trap "touch %s; exit" TERM
            echo on; while :; do sleep 0.01; done'; touch %s) 2>&1 | head -n 1]]):format(command.program, told, ended),
            { PROGRAM = "/bin/sh" })
        assert.same({ code = 0 }, process:wait())
        assert.truthy(await(function() return read(ended) end))
        assert.truthy(read(told))
    end)

    it("ends after its exptime, and the command gets TERM", function()
        local process = hold("trap 'echo told; exit 5' TERM; READY; while :; do sleep 0.01; done", "--exptime", "0.2")
        assert.same({ code = 76 }, process:wait())
        assert.equal("told\n", process:out())
        assert.matches('holdfast: the exptime of "key" (0.2 s) has passed; sending TERM to the job, '
                       .. 'and KILL after 10 s\n',
                       process:err(), 1, true)
        assert.same({ code = 4 }, (run("lock", "--exptime", "600", "key", "--", "sh", "-c", "exit 4")))
    end)

    it("passes from one command to the next, and no two of a hundred hold it at once", function()
        local script = write("section", [[
            #!/bin/sh
            mkdir "$1/inside" || { echo "two at a time" >>"$1/faults"; exit 1; }
            echo "$HOLDFAST_TOKEN" >>"$1/tokens"
            rmdir "$1/inside"
        ]])
        local folder = command.path("")
        local processes = {}
        for i = 1, 100 do
            local option = i % 10 == 0 and "-o" or i % 10 == 5 and "-F" or "-x"
            processes[i] = start("lock", option, "key", "--", "sh", script, folder)
            if i % 25 == 1 then  -- a command that already has the lock continues, but a waiting command does not
                processes[i]:signal(command.KILL)
            end
        end
        for i, process in ipairs(processes) do
            local ended = assert(process:wait(), "waits forever")
            assert.same(i % 25 == 1 and ended or { code = 0 }, ended, process:err())
        end
        assert.is_nil(read("faults"))
        local last, count = 0, 0
        for token in read("tokens"):gmatch("%d+") do
            assert.is_true(tonumber(token) > last)
            last, count = tonumber(token), count + 1
        end
        assert.is_true(count >= 96, count)
    end)
end)


-- A job is the command and the processes that it has started in its process group.
describe("The job of holdfast lock", function()
    command.fixture()

    -- Returns a script that starts a child, which writes its own process id and its child's process id to files.
    local function family(last)
        return ([[sh -c 'sleep 600 & echo $! >"%s"; wait' & echo $! >"%s"; READY; %s]])
               :format(command.path "grandchild", command.path "child", last)
    end

    local function pid_in(name)
        return assert(await(function() return tonumber(read(name)) end))
    end

    it("keeps the lock until all its processes have ended, and then has the command's status", function()
        local process, pid = hold(family "exit 7")
        local child, grandchild = pid_in "child", pid_in "grandchild"
        assert(await(function() return not command.alive(pid) end))
        command.kill(child, command.KILL)
        assert(await(function() return not command.alive(child) end))
        command.sleep(0.2)
        assert.is_nil(process:wait(0))
        assert.is_false(is_free())
        command.kill(grandchild, command.KILL)
        assert.same({ code = 7 }, process:wait())
        assert.is_true(is_free())
    end)

    it("includes processes without an environment, and the group of a command such as timeout", function()
        for _, line in ipairs { "env -i sleep 600 & echo $! >'%s'; READY; exit 0",
                                "READY; exec timeout 600 sh -c 'sleep 600 & echo $! >\"%s\"; exit 0'" } do
            os.remove(command.path "child")
            local process, pid = hold(line:format(command.path "child"))
            local child = pid_in "child"
            assert(await(function() return not command.alive(pid) end))
            command.sleep(1.5)
            assert.is_false(is_free())
            command.kill(child, command.KILL)
            assert.same({ code = 0 }, process:wait())
        end
    end)

    it("does not include children that its process had before", function()
        local process = start("-c", ("sleep 600 & echo $! >'%s'; exec %s lock --exptime 0.2 key sleep 600")
                                    :format(command.path "stranger", command.program), { PROGRAM = "/bin/sh" })
        assert.same({ code = 76 }, process:wait())
        local stranger = pid_in "stranger"
        assert.is_true(command.alive(stranger))
        command.kill(stranger, command.KILL)
    end)

    it("does not include orphans of children that its process had before", function()
        local before = ("(sleep 600 & echo $! >'%s'; until [ -e '%s' ]; do sleep 0.01; done) & "):format(
            command.path "stranger", command.path "go")
        for _, case in ipairs { { 0, "exec sleep 0.5" }, { 76, "sleep 600 & exec sleep 600" } } do
            local status, script = unpack(case)
            local process = start("-c", ("%sexec %s lock --exptime 1 key sh -c 'touch %s; %s'")
                                        :format(before, command.program, command.path "go", script),
                                  { PROGRAM = "/bin/sh" })
            assert.same({ code = status }, process:wait(), process:err())
            local stranger = pid_in "stranger"
            assert.is_true(command.alive(stranger))
            command.kill(stranger, command.KILL)
            os.remove(command.path "stranger")
            os.remove(command.path "go")
        end
    end)

    it("keeps an outer lock while only an inner job runs, even if both wrappers were killed", function()
        local outer, pid = hold(("READY; exec %s lock inner -- sh -c 'echo $$ >\"%s\"; exec sleep 600'")
                                :format(command.program, command.path "child"))
        local child = pid_in "child"
        guard_of(outer)
        outer:signal(command.KILL)
        outer:wait()
        command.kill(pid, command.KILL)
        command.sleep(0.5)
        assert.is_false(is_free())
        command.kill(child, command.KILL)
        assert(await(is_free, 10))
    end)

    it("keeps the lock even if holdfast lock is killed", function()
        local process, pid = hold(family "wait")
        local child, grandchild = pid_in "child", pid_in "grandchild"
        guard_of(process)
        process:signal(command.KILL)
        process:wait()
        for _, victim in ipairs { pid, child } do
            assert.is_false(is_free())
            command.kill(victim, command.KILL)
            assert(await(function() return not command.alive(victim) end))
        end
        command.sleep(0.3)
        assert.is_false(is_free())
        command.kill(grandchild, command.KILL)
        assert(await(is_free, 10))
    end)

    it("keeps the lock after such a kill even for members without an environment or a first thread", function()
        local threads = write("threads.py", [[
import ctypes, os, sys, threading, time
open(sys.argv[1] + ".new", "w").write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
]])
        for _, line in ipairs { "env -i sleep 600 & echo $! >'%s'; READY; exit 0",
                                "python3 '" .. threads .. "' '%s' & READY; exit 0" } do
            os.remove(command.path "child")
            local process, pid = hold(line:format(command.path "child"))
            local child = pid_in "child"
            guard_of(process)
            process:signal(command.KILL)
            process:wait()
            assert(await(function() return not command.alive(pid) end))
            command.sleep(0.5)
            assert.is_false(is_free())
            command.kill(child, command.KILL)
            assert(await(is_free, 10))
        end
    end)

    for name, number in pairs { TERM = 15, INT = 2, HUP = 1, QUIT = 3 } do
        it("gets " .. name .. " as a whole", function()
            -- A background process that a shell starts ignores INT and QUIT.
            local script = [[python3 -c 'import os, signal, time
for number in (signal.SIGINT, signal.SIGQUIT): signal.signal(number, signal.SIG_DFL)
open("%s", "w").write(str(os.getpid()))
time.sleep(600)' & READY; exec sleep 600]]
            local process, pid = hold(script:format(command.path "child"))
            local child = pid_in "child"
            process:signal(number)
            assert.same({ signal = number }, process:wait())
            assert.is_false(command.alive(pid))
            assert.is_false(command.alive(child))
            assert.is_true(is_free())
        end)
    end

    it("passes USR1 only to its command", function()
        local script = "sleep 600 & echo $! >'%s'; trap 'kill $!; exit 4' USR1; READY; wait"
        local process = hold(script:format(command.path "child"))
        pid_in "child"
        process:signal(USR1)
        assert.same({ code = 4 }, process:wait())
    end)

    it("stops and continues as a whole", function()
        local process = hold(family "wait")
        local grandchild = pid_in "grandchild"
        process:signal(TSTP)
        await_state(process.pid, "T")
        await_state(grandchild, "T")
        process:signal(CONT)
        await_state(grandchild, "S")
        process:signal(command.TERM)
        assert.same({ signal = command.TERM }, process:wait())
    end)

    local STUBBORN = "trap '' TERM; sh -c 'trap \"\" TERM; while :; do sleep 0.01; done' & READY; "
                     .. "while :; do sleep 0.01; done"

    it("gets KILL if it does not end within --kill-after", function()
        local process = hold(STUBBORN, "--kill-after", "0.3")
        process:signal(command.TERM)
        assert.same({ code = 128 + 9 }, process:wait())
        assert.equal('holdfast: "key": the job has not ended; sending KILL\n', process:err())
        assert.is_true(is_free())
    end)

    it("gets KILL if it outlasts its exptime, and only then does the next waiter get the lock", function()
        local process, pid = hold(STUBBORN, "--exptime", "0.2", "--kill-after", "0.5")
        local waits = start("lock", "-w", "60", "key", "--", "sh", "-c",
                            ("kill -0 %d 2>/dev/null && echo two at a time"):format(pid))
        assert.same({ code = 76 }, process:wait())
        waits:wait()
        assert.equal("", waits:out())
        assert.matches("KILL after 0.5 s\n.*sending KILL\n$", process:err())
    end)

    for name, number in pairs { killed = command.KILL, stopped = STOP } do
        it("ends at its exptime even if holdfast lock is " .. name, function()
            local process, pid = hold(("trap 'echo TERM >\"%s\"; exit' TERM; %s"):format(
                                          command.path "told", STUBBORN:gsub("^trap '' TERM; ", "")),
                                      "--exptime", "1", "--kill-after", "0.5")
            local child = assert(await(function() return children(pid).sh end))
            guard_of(process)
            process:signal(number)
            local is_alive = "grep -qs '^State:.[^ZX]' /proc/%d/status && echo two at a time; "
            local waits = start("lock", "-w", "60", "key", "--", "sh", "-c",
                                (is_alive .. is_alive .. "true"):format(pid, child))
            assert.same({ code = 0 }, waits:wait(), waits:err())
            assert.equal("", waits:out())
            assert.equal("TERM\n", read "told")
            assert.is_false(command.alive(child))
        end)
    end

    it("ends at its exptime even if nobody reads the messages until later", function()
        local line = "(head -c 65536 /dev/zero; exec %s lock --exptime 0.3 --kill-after 0.3 key -- sh -c '%s' 2>&1) | "
                     .. "(until [ -e '%s' ]; do sleep 0.01; done; tr -d '\\0')"
        local script = "trap \"\" TERM; exec 2>/dev/null; echo $$ >" .. command.path "pid"
                       .. "; while :; do sleep 0.01; done"
        local process = start("-c", line:format(command.program, script, command.path "go"), { PROGRAM = "/bin/sh" })
        local pid = pid_in "pid"
        assert(await(function() return not command.alive(pid) end))
        assert(await(is_free))
        command.write("go", "")
        process:wait()
        assert.matches("KILL after 0.3 s\n.*sending KILL\n$", process:out())
    end)

    it("lasts while each of its members starts another member and ends at once", function()
        local pass_on = write("pass_on.sh", ([[
            if [ $1 -eq 0 ]; then sleep 0.05; echo end >>'%s'; exit; fi
            sh "$0" $(($1 - 1)) &
        ]]):format(command.path "out"))
        for round = 1, 20 do
            assert.same({ code = 0 }, (run("lock", "key", "sh", pass_on, tostring(round % 4 + 1))))
            assert.equal(("end\n"):rep(round), read "out")
        end
    end)

    it("lasts while a member runs whose first thread has ended", function()
        local script = write("threads.py", ([[
            import ctypes, threading, time
            def work():
                time.sleep(0.3)
                open("%s", "w").close()
            threading.Thread(target=work).start()
            ctypes.CDLL(None).pthread_exit(None)
        ]]):format(command.path "out"):gsub("\n            ", "\n"):gsub("^%s+", ""))
        assert.same({ code = 0 }, (run("lock", "key", "sh", "-c", "python3 '" .. script .. "' & sleep 0.1")))
        assert.truthy(read "out")
    end)

    it("does not get TERM before its exptime if holdfast lock is killed", function()
        local process, pid = hold("READY; exec sleep 600", "--exptime", "600")
        guard_of(process)
        process:signal(command.KILL)
        command.sleep(0.5)
        assert.is_true(command.alive(pid))
        assert.is_false(is_free())
    end)

    it("cannot be given --kill-after with --no-fork, because no process could send KILL", function()
        assert.matches("%-%-no%-fork and %-%-kill%-after cannot be combined",
                       world.refused(64, "", "lock", "-F", "--kill-after", "1", "key", "--", "true"))
    end)
end)


describe("holdfast lock --replace", function()
    command.fixture()

    it("ends the job that holds the lock, and takes its place", function()
        local old, pid = hold("sleep 600 & echo $! >'" .. command.path "child" .. "'; READY; wait")
        local child = assert(tonumber(read "child"))
        local script = [[for p in %d %d; do grep -qs "^State:.[RSDT]" /proc/$p/status && echo lives; done; echo alone]]
        local new = start("lock", "--replace", "key", "--", "sh", "-c", script:format(pid, child))
        assert.same({ code = 0 }, new:wait(), new:err())
        assert.equal("alone\n", new:out())
        assert.matches('^holdfast: "key": sending TERM to the job of pid ' .. pid .. "\n", new:err())
        assert.same({ code = 128 + command.TERM }, old:wait())
        assert.is_nil(read(command.world() .. "/commands.dict"))
    end)

    it("sends KILL to a job that ignores TERM, even if its wrapper was killed and its command has ended", function()
        local script = "sh -c 'trap \"\" TERM; echo $$ >\"%s\"; while :; do sleep 0.01; done' & READY; exit 0"
        local old, pid = hold(script:format(command.path "child"))
        guard_of(old)
        old:signal(command.KILL)
        local child = assert(await(function() return tonumber(read "child") end))
        assert(await(function() return not command.alive(pid) end))
        local new = start("lock", "--replace", "--kill-after", "0.2", "key", "echo", "ran")
        assert.same({ code = 0 }, new:wait(), new:err())
        assert.equal("ran\n", new:out())
        assert.matches("sending TERM to .*\n.*: sending KILL to [^\n]*\n$", new:err())
        assert.is_false(command.alive(child))
    end)

    it("does not end a shared holder that is not in the way, or the job to which it belongs itself", function()
        local reader = hold("exec sleep 600", "-s")
        assert.equal("ran\n", (world.output("lock", "-s", "--replace", "key", "echo", "ran")))
        assert.is_nil(reader:wait(0))
        reader:signal(command.TERM)
        reader:wait()
        local ended, _, err = run("lock", "key", command.program, "lock", "--replace", "key", "true")
        assert.same({ code = 1 }, ended)
        assert.matches(": this command belongs to its job", err)
    end)

    it("does not end any job if it cannot end all holders", function()
        local _, job = hold("exec sleep 600", "-s")
        local other = start("-c", ("exec 9>'%s'; '%s' lock -s --fd 9 key && echo on; exec sleep 600")
                                  :format(command.path "file", command.program), { PROGRAM = "/bin/sh" })
        assert(await(function() return other:out() == "on\n" end))
        local err = world.refused(1, "", "lock", "--replace", "key", "true")
        assert.matches("^holdfast: cannot replace pid %d+ .*: it is not a job of holdfast lock on this machine\n$", err)
        assert.is_true(command.alive(job))
    end)

    it("ends a job that ignores TERM even if nobody reads the messages", function()
        local _, pid = hold("trap '' TERM; READY; while :; do sleep 0.01; done")
        local line = "(head -c 65536 /dev/zero; exec %s lock --replace --kill-after 0.2 key touch %s 2>&1) | "
                     .. "(until [ -e '%s' ]; do sleep 0.01; done)"
        local new = start("-c", line:format(command.program, command.path "ran", command.path "ran"),
                          { PROGRAM = "/bin/sh" })
        assert(await(function() return not command.alive(pid) end))
        assert.truthy(new:wait())
    end)

    it("takes a free lock without ending anything", function()
        assert.equal("ran\n", (world.output("lock", "--replace", "key", "echo", "ran")))
    end)

    it("does not end a process that is not a job, or that belongs to a different user", function()
        local keeper = start("run", "--workers", "1", "-e", [[
            require("resty.shdict").open("commands")
            lock = require("resty.lock"):new("commands", { exptime = 600 })
            assert(lock:lock("key"))
            io.open("]] .. command.path "held" .. [[", "w"):close()
            require("resty.holdfast.scheduler").sleep(600)
        ]])
        assert(await(function() return read "held" end))
        assert.matches("cannot replace pid %d+ .*: it is not a job of holdfast lock",
                       world.refused(1, "", "lock", "--replace", "key", "true"))
        assert.is_nil(keeper:wait(0))
        keeper:signal(command.TERM)
        keeper:wait()
        if shell.output "id -u" == "0" then
            local _, pid = hold("exec setpriv --reuid=65534 sleep 600")
            assert(await(function() return (read("/proc/" .. pid .. "/status") or ""):find "Uid:\t65534" end))
            assert.matches("cannot replace pid " .. pid .. " .*: it runs as a different user",
                           world.refused(1, "", "lock", "--replace", "key", "true"))
            assert.is_true(command.alive(pid))
        end
    end)

    it("cannot be combined with -n, with --no-fork, or with a cluster", function()
        for _, words in ipairs { { "-n" }, { "-F" }, { "--cluster", "main" } } do
            local err = world.refused(64, "", joined({ "lock", "--replace" }, words, { "key", "true" }))
            assert.matches("%-%-replace ", err)
        end
    end)
end)


describe("holdfast lock --upgrade", function()
    command.fixture()

    -- Runs lines of sh, in which $HF is the command and descriptor 9 is a file. Returns the process.
    local function script(lines)
        return start("-c", ("HF='%s'; exec 9>'%s'\n"):format(command.program, command.path "file") .. lines,
                     { PROGRAM = "/bin/sh" })
    end

    -- Starts a job that has a shared lock on the key, and upgrades the lock when the file `go` exists. The job then
    -- writes the status, and continues to run.
    local function reader(go, options)
        return hold(("READY; until [ -e '%s' ]; do sleep 0.01; done; %s lock --upgrade %s key; echo $?; exec sleep 600")
                    :format(command.path(go), command.program, options or ""), "-s")
    end

    local function await_waiter()
        assert(await(function() return select(2, run("locks", "--waiting")):find("has waited", 1, true) end))
    end

    it("makes the shared lock of a descriptor or of a job exclusive, with its fencing token", function()
        local process = script [[
            show() { $HF locks | cut -f 2-5; }
            $HF lock -s --fd 9 key; before=$(show); $HF lock --upgrade --fd 9 key
            show; [ "$(show | sed s/write/read/)" = "$before" ] || show; $HF lock -q -s -n key true; echo $?
            $HF lock --upgrade --fd 9 key; echo $?; $HF unlock --fd 9; show
            $HF lock --fd 9 dict key; $HF lock --upgrade -x --fd 9 dict key; echo $?; $HF unlock --fd 9
            $HF lock -s key -- sh -c '"$0" lock --upgrade key; echo $?; "$0" locks | cut -f 2-4' $HF
            show
        ]]
        assert.same({ code = 0 }, process:wait())
        assert.same("", process:err())
        local number = process:out():match "(%d+)"
        assert.equal(("key\trwlock\twrite\t%s\n1\n0\n0\n0\nkey\trwlock\twrite\n"):format(number), process:out())
    end)

    it("waits for other readers, lets no reader in before it, and is served before a writer", function()
        local other, process = hold("READY; exec sleep 600", "-s"), reader "go"
        local writer = start("lock", "key", "true")
        await_waiter()
        command.write("go", "")
        assert(await(function() return select(2, run("locks", "--waiting")):find("has waited.*has waited") end))
        assert.equal(1, attempt("-s"))
        assert.equal("", process:out())
        other:signal(command.TERM)
        assert(await(function() return process:out() == "0\n" end), process:err())
        assert.is_nil(writer:wait(0))
        process:signal(command.TERM)
        assert.same({ code = 0 }, writer:wait())
    end)

    it("names another holder when it is refused, not itself", function()
        local first = reader "never"
        local _, pid = hold("READY; exec sleep 600", "-s")
        first:signal(command.TERM)
        first:wait()
        for options, more in pairs { ["-n"] = "", ["-w 0.2 -E 9"] = "; waited for 0.2 s" } do
            local process = reader("go", options)
            command.write("go", "")
            assert(await(function() return process:out() ~= "" end))
            assert.equal(more == "" and "1\n" or "9\n", process:out())
            assert.matches(('^holdfast: "key" has been shared by pid %d %%(%%a+%%) for [%%d.]+ s%s\n$'):format(pid,
                                                                                                          more),
                           process:err())
            process:signal(command.TERM)
            process:wait()
        end
    end)

    it("reports a deadlock at once if another reader waits to upgrade, which continues when this one ends", function()
        local first, second = reader "first", reader("second", "-E 9")
        command.write("first", "")
        await_waiter()
        command.write("second", "")
        assert(await(function() return second:out() == "9\n" end), second:err())
        assert.equal('holdfast: cannot upgrade "key": deadlock: another process that shares it is also waiting '
                     .. 'to upgrade; release this lock, and start again\n', second:err())
        assert.equal("", first:out())
        second:signal(command.TERM)
        assert(await(function() return first:out() == "0\n" end), first:err())
    end)

    it("leaves the shared lock held if it is killed", function()
        hold("READY; exec sleep 600", "-s")
        local process = script [[$HF lock -s --fd 9 key; $HF lock --upgrade --fd 9 key & echo $!; wait; exec sleep 600]]
        await_waiter()
        assert.equal(1, attempt("-s"))
        command.kill(tonumber(process:out()), command.KILL)
        assert(await(function() return attempt("-s") == 0 end))
    end)

    for _, way in ipairs { "while it waits", "while it is stopped" } do
        it("does not report a lock whose keeper is killed " .. way, function()
            local other = hold("READY; exec sleep 600", "-s")
            local process = script [[
                $HF lock -s --fd 9 key
                $HF lock --upgrade --fd 9 key & echo $!; wait $!; echo $?; exec sleep 600
            ]]
            await_waiter()
            local upgrade, keeper = tonumber(process:out()), nil
            for line in select(2, run("locks")):gmatch "[^\n]+" do
                keeper = tonumber(line:match "\t(%d+)\tsh\t") or keeper
            end
            if way:find "stopped" then
                command.kill(upgrade, STOP)
                other:signal(command.TERM)
                other:wait()
            end
            command.kill(keeper, command.KILL)
            assert(await(function() return not command.alive(keeper) end))
            command.kill(upgrade, CONT)
            assert(await(function() return process:out() == upgrade .. "\n76\n" end), process:out() .. process:err())
        end)
    end

    it("is refused for a lock that the caller does not hold", function()
        local process = script [[
            exec 8>&9 7>/dev/null
            $HF lock --upgrade --fd 9 key; echo $?
            $HF lock -s --fd 9 key; $HF lock --upgrade --fd 7 key; echo $?
            $HF lock --upgrade --fd 8 key; echo $?; $HF unlock --fd 9
            $HF lock -s --fd 9 key; HOLDFAST_TOKEN=1 $HF lock --upgrade key; echo $?
            HOLDFAST_TOKEN=$($HF locks | cut -f 5) $HF lock --upgrade key; echo $?
            $HF lock --upgrade --fd 0 key <&-; echo $?
        ]]
        assert.same({ code = 0 }, process:wait())
        assert.equal("76\n76\n0\n76\n76\n65\n", process:out())
        assert.equal(('holdfast: cannot upgrade "key": %s does not hold it\n'):rep(4)
                     :format("descriptor 9", "descriptor 7", "this job", "this job")
                     .. "holdfast: 0: Bad file descriptor\n", process:err())
    end)

    it("is refused for a lock that is also held with flock(2)", function()
        local process = script [[
            $HF flock -s 9; $HF lock --upgrade --fd 9 files "$(readlink /proc/$$/fd/9)"; echo $?
        ]]
        assert.same({ code = 0 }, process:wait())
        assert.equal("64\n", process:out())
        assert.matches(": flock%(2%) has locked the file; use holdfast flock %-x\n$", process:err())
    end)
end)


describe("Signals to holdfast lock", function()
    command.fixture()

    for name, number in pairs { TERM = 15, INT = 2, HUP = 1, QUIT = 3, USR1 = USR1, USR2 = 12, WINCH = 28 } do
        it(name .. " is passed on", function()
            local process = hold("trap 'echo got; exit 3' " .. name .. "; READY; while :; do sleep 0.01; done")
            process:signal(number)
            assert.same({ code = 3 }, process:wait())
            assert.equal("got\n", process:out())
        end)
    end

    it("end holdfast lock as they end the command", function()
        for _, number in ipairs { command.TERM, command.HUP, USR1 } do
            local process = hold("exec sleep 600")
            process:signal(number)
            assert.same({ signal = number }, process:wait())
            assert.is_true(is_free())
        end
    end)

    it("do not change how the command handles PIPE", function()
        -- A library that an earlier spec loaded may ignore PIPE in this process.
        local process = start("--default-signal=PIPE", command.program, "lock", "key", "--", "sh", "-c",
                              "kill -PIPE $$; exit 5", { PROGRAM = "/usr/bin/env" })
        assert.same({ code = 128 + 13 }, process:wait())
        process = start("-c", "trap '' PIPE; exec " .. command.program
                                    .. " lock key -- sh -c 'kill -PIPE $$; exit 5'", { PROGRAM = "/bin/sh" })
        assert.same({ code = 5 }, process:wait())
    end)

    it("that were ignored stay ignored by the command, and are not passed on", function()
        local process = start("-c", "trap '' HUP; exec " .. command.program
                                    .. " lock key -- sh -c 'kill -HUP $$; kill -HUP $PPID; echo on'",
                              { PROGRAM = "/bin/sh" })
        assert.same({ code = 0 }, process:wait())
        assert.equal("on\n", process:out())
    end)

    it("end a wait for the lock", function()
        hold("exec sleep 600")
        for _, number in ipairs { command.TERM, command.KILL } do
            local process = start("lock", "key", "--", "echo", "ran")
            local waiter = assert(await(function() return children(process.pid).holdfast end))
            command.sleep(0.05)
            process:signal(number)
            assert.same({ signal = number }, process:wait())
            assert(await(function() return not command.alive(waiter) end))
            assert.equal("", process:out())
        end
    end)

    -- With setpgid, the process has a process group of its own, like a job. With setsid, it has a session of its own,
    -- like a service. A group leader cannot create a session, so the process first joins another group. (The group of
    -- its parent may be in another pid namespace, and then has no number here.)
    for _, group in ipairs { "import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])",
                             "import os, signal, sys; other = os.fork() or signal.pause(); os.setpgid(other, other); "
                             .. "os.setpgid(0, other); os.kill(other, 9); os.waitpid(other, 0); os.setsid(); "
                             .. "os.execvp(sys.argv[1], sys.argv[1:])" } do
        it("do not include STOP and CONT for the command alone: " .. group:match("os%.(set%a+)%([^()]*%); os%.execvp"),
           function()
            local path = command.path("pid")
            local process = start("-c", group, command.program, "lock", "key", "--", "sh", "-c",
                                  ("echo $$ >'%s.new'; mv '%s.new' '%s'; exec sleep 600"):format(path, path, path),
                                  { PROGRAM = "/usr/bin/python3" })
            local pid = assert(await(function() return tonumber(read(path)) end), process:err())
            command.kill(pid, STOP)
            await_state(pid, "T")
            command.sleep(0.2)
            assert.equal("T", state_of(pid))
            assert.equal("S", state_of(process.pid))
            assert.is_false(is_free())
            command.kill(pid, CONT)
            await_state(pid, "S")
            command.kill(pid, command.TERM)
            assert.same({ code = 128 + command.TERM }, process:wait())
        end)
    end

    it("TSTP stops the command and holdfast lock, and CONT continues both", function()
        local process, pid = hold("exec sleep 600")
        process:signal(TSTP)
        await_state(process.pid, "T")
        assert.equal("T", state_of(pid))
        process:signal(CONT)
        await_state(pid, "S")
        process:signal(command.TERM)
        assert.same({ signal = command.TERM }, process:wait())
    end)
end)


describe("In a terminal holdfast lock", function()
    command.fixture()

    it("is a job, which stops and continues with the command, and which typed keys end", function()
        typing [[
            say(program + " lock key -- sh -c 'echo is\" \"on; exec sleep 600'\n")
            until("is on")
            say("\x1a")
            until("Stopped")
            until("ready> ")
            say(program + " lock -n -q key -- true; echo status\" \"$?\n")
            until("status 1")
            say("fg\n")
            until("sleep 600")
            time.sleep(0.2)
            say("\x03")
            until("ready> ")
            say("echo status\" \"$?\n")
            until("status 130")
            say(program + " lock -n -q key -- true; echo status\" \"$?\n")
            until("status 0")
            say("exit\n")
        ]]
    end)

    it("shows every second which process it waits for, in one line that it removes", function()
        local process = hold("exec sleep 600", "--why", "full")
        typing [[
            say("stty cols 120; unset COLUMNS; " + program + " lock -w 2.5 key true\n")
            until("\r\x1b[Kholdfast: waiting for 1")
            until(' s: "key" has been held by pid ')
            until(': "full"')
            until("\r\x1b[Kholdfast: waiting for 2")
            until("\r\x1b[K")
            until('holdfast: "key" has been held by pid')
            until("waited for 2.5 s")
            say(program + " lock -q -w 1.5 key true; echo $? sta''tus\n")
            until("1 status")
            assert "waiting" not in text, text
            say("exit\n")
        ]]
        process:signal(command.TERM)
    end)

    it("elides the key before the reason and the holder if the terminal is narrow", function()
        local key = "/var/lib/backup/jobs/of/the/whole/company/weekly/nightly.lock"
        local holder = start("lock", "--why", "copies the tapes", key, "--", "sh", "-c", "echo on; exec sleep 600")
        assert(await(function() return holder:out() == "on\n" end))
        typing(([[
            def wait(columns):
                say("stty cols %d; unset COLUMNS; %s lock -w 1.5 KEY true\n" % (columns, program))
                until("\x1b[K")
                until("waiting for 1")
                until("\r\x1b[K")
                return "waiting for 1" + before
            line = wait(200)
            assert ' s: "KEY" has been held by pid ' in line, line
            for columns in (100, 80):
                line = wait(columns)
                assert len(line) < columns and '\u2026' in line, line
                assert ' has been held by pid ' in line and ' (sh) for ' in line, line
                assert line.endswith('tapes"') or columns == 80 and line.endswith('apes"'), line
            line = wait(30)
            assert len(line) < 30 and line.endswith('tapes"'), line
            say("COLUMNS=100 " + program + " lock -w 1.5 KEY true\n")
            until("waiting for 1")
            until("\r\x1b[K")
            assert 80 < len(before) < 100, before
            say("exit\n")
        ]]):gsub("KEY", key))
        holder:signal_group(command.KILL)
    end)

    it("keeps the line of a wait, and begins a new line, when a signal ends the wait", function()
        local holder = hold("exec sleep 600", "--why", "full")
        typing [[
            for options in ("", "-F "):
                say("sh -c 'trap : INT; %s lock %s-w 60 key true; echo after'\n" % (program, options))
                until("waiting for 1")
                until('"full"')
                say("\x03")
                until("\r\n")
                assert before in ("", "^C"), repr(before)
                until("after")
                until("ready> ")
            say(program + " lock key true\n")
            until('waiting for 1')
            until('"full"')
            os.kill(int(open("/proc/%d/task/%d/children" % (pid, pid)).read()), 15)
            until("\r\n")
            assert before == "", repr(before)
            until("Terminated")
            until("ready> ")
            say("trap '' INT; " + program + " lock -w 2.5 key true; echo status $?\n")
            until('waiting for 1')
            say("\x03")
            until("waited for 2.5 s")
            until("status 1")
            say("exit\n")
        ]]
        holder:signal(command.TERM)
    end)

    it("passes a hang-up on to the command if it is the session leader", function()
        typing(([[
            say("exit\n")
            os.waitpid(pid, 0)
            pid, fd = pty.fork()
            script = "trap 'echo told >%s; exit' HUP; echo is' 'on; while :; do sleep 0.01; done"
            if pid == 0: os.execl(sys.argv[1], "holdfast", "lock", "key", "--", "sh", "-c", script)
            until("is on")
            os.close(fd)
            os.waitpid(pid, 0)
        ]]):format(command.path "told"))
        assert.equal("told\n", await(function() return read(command.path "told") end))
    end)

    it("passes a typed key to the command once, and continues if the command continues", function()
        typing [[
            say(program + " lock key -- sh -c 'trap \"echo in\\\"\\\"terrupted\" INT; echo is\" \"on; "
                       "read line; read line; echo $line' \n")
            until("is on")
            say("\x03")
            until("interrupted")
            time.sleep(0.2)
            say("first\nsecond\n")
            until("second")
            until("ready> ")
            assert "interrupted" not in text, text
            say("exit\n")
        ]]
    end)
end)
