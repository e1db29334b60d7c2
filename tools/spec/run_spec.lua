-- Tests worker.lua and `holdfast run`.

local command, shell, world = require "spec.support" ("command", "shell", "tools/world")

local await, files, path, read, write = command.await, command.files, command.path, command.read, command.write
local refused = world.refused

-- The part that all scripts share. mark(name) creates a file that shows a worker's progress.
local PRELUDE = [[
local ffi = require "ffi"
local worker = require "resty.holdfast.worker"
ffi.cdef "int usleep(unsigned int us); int getpid(void); int fork(void); void (*signal(int, void (*)(int)))(int);"
local id, pid = worker.id(), ffi.C.getpid()
local function sleep(seconds) ffi.C.usleep(seconds * 1e6) end
local function mark(name, text)
    local file = assert(io.open("FOLDER/" .. name .. ".part", "w"))
    file:write(text or tostring(pid))
    file:close()
    assert(os.rename("FOLDER/" .. name .. ".part", "FOLDER/" .. name))
end
local function ignore_term() ffi.C.signal(15, ffi.cast("void (*)(int)", 1)) end
local function until_told() while not worker.exiting() do sleep(0.005) end end
local function for_ever() while true do sleep(0.1) end end
]]

local function script(body, name)
    local text = PRELUDE:gsub("FOLDER", function() return path("") end):gsub("\n", " ") .. "\n" .. body
    return write(name or "script.lua", text)
end

-- Runs a script in `count` workers to the end. Returns the results of command.run.
local function run_script(count, body)
    return command.run("run", "--workers", tostring(count), script(body))
end

local function count_files(pattern, count)
    return await(function() return #files(pattern) >= count end)
end

-- Starts `count` workers of a script that calls mark("ready.<id>.<pid>"), and waits for all of them.
local function start_ready(count, body, ...)
    local arguments = { "run", "--workers", tostring(count), ... }
    arguments[#arguments + 1] = script('mark("ready." .. id .. "." .. pid)\n' .. body)
    local process = command.start(unpack(arguments))
    assert(count_files("^ready%.%d+%.%d+$", count), process:err())
    return process
end

-- Sends QUIT, and checks the exit status.
local function assert_quits(process, code)
    process:signal(command.QUIT)
    assert.same({ code = code }, process:wait())
end

-- Returns the process ids of all workers with this number, sorted as text.
local function pids_of(number)
    local pids = {}
    for _, name in ipairs(files("^ready%." .. number .. "%.%d+$")) do
        pids[#pids + 1] = tonumber(name:match("%d+$"))
    end
    return pids
end

local function cpu_ticks(pid)
    local user, system = read("/proc/" .. pid .. "/stat"):match("%) %S" .. (" %S+"):rep(10) .. " (%d+) (%d+)")
    return user + system
end

describe("holdfast run", function()
    command.fixture()

    describe("workers", function()
        it("know their own number and the number of workers", function()
            local ended, out = run_script(3, 'print(id .. " of " .. worker.count())')
            assert.same({ code = 0 }, ended)
            for i = 0, 2 do
                assert.truthy(out:find(i .. " of 3\n", 1, true), out)
            end
            assert.equal(3 * #"0 of 3\n", #out)
        end)

        it("by default, are as many as there are processors", function()
            local _, out = command.run("run", script('if id == 0 then print(worker.count()) end'))
            assert.equal(shell.output "nproc" .. "\n", out)
        end)

        it("get all arguments after the script unchanged", function()
            local body = 'for i = 0, #arg do io.write("<", arg[i], ">") end io.write(select("#", ...), ...)'
            local file = script(body)
            local _, out = command.run("run", "--workers", "1", file, "--workers", "9", "[a,b]", "", "--", "-h")
            assert.equal("<" .. file .. "><--workers><9><[a,b]><><--><-h>6--workers9[a,b]---h", out)
        end)

        it("run a script whose name begins with a dash after --", function()
            local file = script("print(#arg, ...)", "-x.lua")
            local wanted = { code = 0 }
            local ended, out = command.run("run", "--workers=1", "--", file, "--")
            assert.same(wanted, ended)
            assert.equal("1\t--\n", out)
        end)

        it("run the code of all -e options as the lines of one script, with the arguments after --", function()
            for _, case in ipairs {
                { { "-e", "print(arg[0], #arg, ...)" }, "nil\t0\n" },
                { { "-e", "print(arg[0], #arg, ...)", "--", "a", "-b", "--" }, "nil\t3\ta\t-b\t--\n" },
                { { "-e", "local a = 1", "-e", "print(a)" }, "1\n" },
                { { "-e", "" }, "" },
                { { "-e", "-- a comment" }, "" },
                { { "-e", "--[[ ]] print[[a\\nb]]" }, "a\\nb\n" },
            } do
                local ended, out, err = command.run("run", "--workers=1", unpack(case[1]))
                assert.same({ code = 0 }, ended, err)
                assert.equal(case[2], out)
            end
        end)

        it("with -e, report where an error is, and do not start if the code does not compile", function()
            local err = refused(1, "", "run", "--workers", "1", "-e", "local a", "-e", "error 'no luck'")
            assert.matches("^holdfast: worker 0 %(pid %d+%): %-e:2: no luck\nstack traceback:", err)
            err = refused(1, "", "run", "--workers", "3", "-e", "x x")
            assert.equal("holdfast: -e:1: '=' expected near 'x'\n", err)
        end)

        it("with -e are restarted by HUP", function()
            local process = command.start("run", "--workers", "1", "-e", ([[
                local worker = require "resty.holdfast.worker"
                print "began"
                while not worker.exiting() do require("resty.holdfast.scheduler").sleep(0.005) end
                print "ended"
            ]]))
            local function said(text) return await(function() return process:out() == text end) end
            assert.truthy(said("began\n"), process:err())
            process:signal(command.HUP)
            assert.truthy(await(function() return #process:out() == #"began\nbegan\nended\n" end), process:out())
            assert_quits(process, 0)
        end)

        it("find the modules of the command's own installation after those of LUA_PATH", function()
            write("mine.lua", "return 'mine'")
            local file = script('print(require "mine", package.path:find(os.getenv("LUA_PATH"), 1, true))')
            local ended, out, err = command.run("run", "--workers", "1", file, { LUA_PATH = path("?.lua") })
            assert.same({ code = 0 }, ended, err)
            assert.equal("mine\t1\t" .. #path("?.lua") .. "\n", out)
        end)

        it("start programs that ignore the same signals as the command", function()
            local grep = "grep -e SigBlk: -e SigIgn: /proc/self/status"
            local file = script('os.execute("' .. grep .. '")')
            for _, ignored in ipairs { "", "--ignore-signal=HUP ", "--ignore-signal=INT,QUIT " } do
                local env = "exec env --default-signal=HUP,INT,QUIT,TERM,CHLD " .. ignored
                local run = env .. command.program .. " run --workers 1 " .. file
                local _, wanted = command.run("-c", env .. grep, { PROGRAM = "/bin/sh" })
                local _, out = command.run("-c", run, { PROGRAM = "/bin/sh" })
                -- Omits the C library's own signals (32 and 33), which the command ignores in child processes.
                local function of_programs(text)
                    return (text:gsub("%x+(%x%x%x%x%x%x%x)", "%1"))
                end
                assert.equal(of_programs(wanted), of_programs(out))
            end
        end)

        it("survive the truncation of a dictionary file, and recreate the dictionary", function()
            local process = start_ready(2, [[
                local shdict = require "resty.shdict"
                local dict = assert(shdict.open("cut" .. id, { size = "100k" }))
                dict:set("key", "value")
                mark("opened." .. id)
                while not io.open("]] .. path("cut_short") .. [[") do sleep(0.005) end
                mark("told." .. id, tostring(select(2, dict:set("key", "value"))))
                shdict.remove("cut" .. id)
                dict = assert(shdict.open("cut" .. id, { size = "100k" }))
                mark("anew." .. id, tostring(dict:set("key", "value")))
            ]])
            assert(count_files("^opened%.%d$", 2), process:err())
            assert.is_true(shell.succeeds("truncate -s 0 " .. command.world() .. "/cut?.dict"))
            write("cut_short", "")
            assert.same({ code = 0 }, process:wait(), process:err())
            for _, id in ipairs { 0, 1 } do
                assert.equal("dictionary not found", read("told." .. id))
                assert.equal("true", read("anew." .. id))
            end
        end)

        it("see the declared dictionaries, for which options take precedence over the environment", function()
            local file = script('print(os.getenv("HOLDFAST_DICTS"))')
            local _, out, err = command.run("run", "--workers", "1", "--dict", "a=1m", "--dict", "b=64K", file,
                { HOLDFAST_DICTS = "c=20480,a=2m" })
            assert.equal("a=1048576,b=65536,c=20480\n", out, err)
        end)

        it("see dictionaries with the declared largest value", function()
            local file = script([[
                local pages = require("resty.shdict").shared.pages
                print(pages:largest_value() >= 40 * 1048576, (pages:set("k", ("x"):rep(40 * 1048576))))
                print(os.getenv("HOLDFAST_DICTS"))
            ]])
            local expected = "true\ttrue\npages=83886080:largest=41943040\n"
            local _, out, err = command.run("run", "--workers", "1", "--dict", "pages=80m:largest=40m", file)
            assert.equal(expected, out, err)
            _, out, err = command.run("run", "--workers", "1", file, { HOLDFAST_DICTS = "pages=80m:largest=40m" })
            assert.equal(expected, out, err)
            err = refused(1, "", "run", "--dict", "pages=80m:largest=80m", file)
            assert.matches('dictionary "pages": bad largest value 83886080 .* a size of %d+ is enough', err)
        end)

        it("see declared dictionaries with any name", function()
            local file = script([[
                local shared = require("resty.shdict").shared
                for _, name in ipairs { "my:cache", "a,b=c", "100%", "caf\195\169" } do
                    print(shared[name]:capacity())
                end
                print(os.getenv("HOLDFAST_DICTS"))
            ]])
            local _, out, err = command.run("run", "--workers", "1", "--dict", "my:cache=1m", "--dict", "a%2Cb%3dc=2m",
                file, { HOLDFAST_DICTS = "100%25=3m,caf\195\169=4m" })
            assert.equal("1048576\n2097152\n3145728\n4194304\n"
                         .. "my%3Acache=1048576,a%2Cb%3Dc=2097152,100%25=3145728,caf%C3%A9=4194304\n", out, err)
        end)
    end)

    describe("exit status", function()
        it("is 1 when one worker fails, and the others continue", function()
            local ended, _, err = run_script(3, 'if id == 1 then os.exit(7) end sleep(0.3) mark("finished." .. id)')
            assert.same({ code = 1 }, ended)
            assert.same({ "finished.0", "finished.2" }, files("^finished%.%d$"))
            assert.matches("holdfast: worker 1 %(pid %d+%) exited with status 7\n", err)
        end)

        it("is 0 after os.exit(0) and os.exit(true, true)", function()
            assert.same({ code = 0 }, (run_script(2, "if id == 0 then os.exit(0) end os.exit(true, true)")))
        end)

        it("is 1 after an error, which is reported with the worker and a traceback", function()
            local body = 'local function inner() error("no luck") end\nif id == 1 then inner() end'
            local err = refused(1, "", "run", "--workers", "2", script(body))
            assert.matches("holdfast: worker 1 %(pid %d+%): %S+script%.lua:2: no luck\nstack traceback:\n", err)
            assert.matches("in function 'inner'", err)
            assert.not_matches("worker 0", err)
        end)

        it("is 1 when the error value is not a string", function()
            local err = refused(1, "", "run", "--workers", "2", script [[
                local mine = { __tostring = function() return 'mine' end }
                error(setmetatable({}, id == 1 and mine or nil))]])
            assert.matches("worker 0 %(pid %d+%): %(error object is a table value%)\n", err)
            assert.matches("worker 1 %(pid %d+%): mine\n", err)
        end)

        it("is 1 when the script does not compile, which is reported once", function()
            local err = refused(1, "", "run", "--workers", "4", write("broken.lua", "x = = 1\n"))
            assert.matches("^holdfast: %S+broken%.lua:1: unexpected symbol near '='\n$", err)
        end)

        it("is 1 when a worker is killed, and the signal is named", function()
            local process = start_ready(2, 'if id == 1 then for_ever() end until_told() mark("finished")')
            local pid = pids_of(1)[1]
            command.kill(pid, command.KILL)
            assert.truthy(await(function() return process:err():find("killed by signal", 1, true) end))
            assert.equal(("holdfast: worker 1 (pid %d) was killed by signal 9 (Killed)\n"):format(pid), process:err())
            assert_quits(process, 1)
            assert.truthy(read("finished"))
        end)

        it("is 1 when the output cannot be written", function()
            local line = ('exec "%s" run --workers 1 "%s" > /dev/full'):format(command.program, script('print("x")'))
            refused(1, "cannot write to standard output", "-c", line, { PROGRAM = "/bin/sh" })
        end)
    end)

    describe("on TERM or INT", function()
        for name, number in pairs({ TERM = command.TERM, INT = command.INT }) do
            it("ends the workers, and is then itself killed by the signal: " .. name, function()
                local process = start_ready(2, "for_ever()")
                process:signal(number)
                assert.same({ signal = number }, process:wait())
                assert.falsy(command.alive(pids_of(0)[1]))
                assert.falsy(command.alive(pids_of(1)[1]))
                assert.equal("", process:err())
            end)
        end

        it("kills a worker that ignores TERM after the grace period", function()
            local process = start_ready(2, "if id == 1 then ignore_term() end mark('deaf' .. id) for_ever()",
                "--grace", "1.5")
            assert.truthy(count_files("^deaf", 2))
            local before = command.now()
            process:signal(command.TERM)
            assert.same({ signal = command.TERM }, process:wait())
            assert.is_true(command.now() - before >= 1.5)
            assert.equal(("holdfast: worker 1 (pid %d) did not end within 1.5 s; killing it\n"):format(pids_of(1)[1]),
                process:err())
        end)

        it("kills the workers immediately on a second signal", function()
            local process = start_ready(1, "ignore_term() mark('deaf') for_ever()", "--grace", "3600")
            assert.truthy(count_files("^deaf", 1))
            process:signal(command.TERM)
            assert.is_nil(process:wait(0.2))
            -- Sends the signal repeatedly, because two signals count as one if the process has not handled the first
            -- yet.
            local ended = await(function()
                process:signal(command.TERM)
                return process:wait(0.2)
            end)
            assert.same({ signal = command.TERM }, ended)
        end)

        it("handles the terminal's INT only once, in the master", function()
            local process = start_ready(2, "ignore_term() mark('deaf' .. id) for_ever()", "--grace", "0.4")
            assert.truthy(count_files("^deaf", 2))
            local before = command.now()
            process:signal_group(command.INT)
            assert.same({ signal = command.INT }, process:wait())
            assert.is_true(command.now() - before >= 0.4)
        end)
    end)

    describe("on QUIT", function()
        for method, what in pairs { signal = "a signal", signal_group = "the terminal, which signals all" } do
            it("lets the workers finish, which learn about the signal through " .. what, function()
                local process = start_ready(2, "until_told() sleep(0.2) mark('finished' .. id)")
                process[method](process, command.QUIT)
                assert.same({ code = 0 }, process:wait())
                assert.same({ "finished0", "finished1" }, files("^finished"))
            end)
        end

        it("still ends the workers immediately if TERM follows", function()
            local process = start_ready(1, "until_told() mark('told') for_ever()")
            process:signal(command.QUIT)
            assert.truthy(count_files("^told", 1))
            process:signal(command.TERM)
            assert.same({ signal = command.TERM }, process:wait())
        end)

        it("does not restart workers", function()
            local process = start_ready(1, "until_told() os.exit(3)", "--respawn")
            assert_quits(process, 1)
            assert.equal(1, #pids_of(0))
        end)

        it("is noticed by a compiled loop", function()
            local process = start_ready(1, "local n = 0 while not worker.exiting() do n = n + 1 end mark('finished')")
            command.sleep(0.1)  -- long enough for the loop to be compiled
            assert_quits(process, 0)
            assert.truthy(read("finished"))
        end)
    end)

    describe("on HUP", function()
        it("starts the current script in new workers, and lets the old workers finish", function()
            local process = start_ready(2, "until_told() sleep(0.2) mark('old' .. id)")
            script("mark('new' .. id) until_told()")
            process:signal(command.HUP)
            assert.truthy(count_files("^new%d$", 2))
            assert.truthy(count_files("^old%d$", 2))
            assert.is_nil(process:wait(0.1))
            assert_quits(process, 0)
            assert.equal("", process:err())
        end)

        it("keeps the old workers when the script no longer compiles", function()
            local process = start_ready(2, "until_told() mark('finished' .. id)")
            write("script.lua", "x = = 1\n")
            process:signal(command.HUP)
            assert.truthy(await(function() return process:err():find("reload failed", 1, true) end))
            assert.matches("script%.lua:1: unexpected symbol near '='\n", process:err())
            assert.same({}, files("^finished"))
            assert_quits(process, 0)
            assert.same({ "finished0", "finished1" }, files("^finished"))
        end)

        it("can reload repeatedly", function()
            local process = start_ready(1, "until_told()")
            for round = 2, 5 do
                process:signal(command.HUP)
                assert.truthy(count_files("^ready%.0%.%d+$", round))
            end
            assert_quits(process, 0)
            assert.equal(5, #pids_of(0))
        end)
    end)

    describe("with --respawn", function()
        it("restarts a killed worker with the same number", function()
            local process = start_ready(2, "until_told()", "--respawn")
            local old = pids_of(1)[1]
            command.kill(old, command.KILL)
            assert.truthy(count_files("^ready%.1%.%d+$", 2))
            assert.equal(("holdfast: worker 1 (pid %d) was killed by signal 9 (Killed); restarting it in 0.1 s\n")
                :format(old), process:err())
            assert.equal(1, #pids_of(0))
            assert_quits(process, 0)
        end)

        it("doubles the delay each time a worker fails immediately", function()
            local before = command.now()
            local process = start_ready(1, "os.exit(1)", "--respawn")
            assert.truthy(count_files("^ready%.0%.%d+$", 4))
            assert.is_true(command.now() - before >= 0.1 + 0.2 + 0.4)
            local waits = {}
            for wait in process:err():gmatch("restarting it in (%S+) s") do
                waits[#waits + 1] = wait
            end
            assert.same({ "0.1", "0.2", "0.4" }, { unpack(waits, 1, 3) })
            assert_quits(process, 1)
        end)

        it("does not restart a worker that succeeded", function()
            local process = start_ready(2, "if id == 0 then return end until_told()", "--respawn")
            assert.is_nil(process:wait(0.3))
            assert.equal(1, #pids_of(0))
            assert_quits(process, 0)
        end)
    end)

    describe("with the scheduler", function()
        local TASKS = 'local scheduler = require "resty.holdfast.scheduler" '

        it("runs the tasks that the script has left behind", function()
            local ended, out, err = run_script(1, TASKS .. [[print("begin")
                scheduler.spawn(function() scheduler.sleep(0.05) print("done") end) print("end")]])
            assert.same({ code = 0 }, ended, err)
            assert.equal("begin\nend\ndone\n", out)
        end)

        it("fails when a task fails, and the other tasks continue", function()
            local ended, out, err = run_script(1, TASKS .. [[scheduler.spawn(error, "no luck")
                scheduler.spawn(function() scheduler.sleep(0.05) print("done") end)]])
            assert.same({ code = 1 }, ended)
            assert.equal("done\n", out)
            assert.matches("no luck", err)
            assert.matches("holdfast: worker 0 %(pid %d+%): 1 task failed\n", err)
        end)

        it("lets a task finish its sleep after QUIT", function()
            local process = start_ready(1, TASKS .. [[scheduler.spawn(function()
                mark("begun")
                local before = scheduler.now()
                scheduler.sleep(0.5)
                mark("finished", tostring(scheduler.now() - before))
            end)]])
            assert.truthy(count_files("^begun", 1))
            assert_quits(process, 0)
            assert.is_true(tonumber(read("finished")) >= 0.5)
        end)

        it("ends a wait in stopping immediately on QUIT, in a task and in the main chunk", function()
            local process = start_ready(2, TASKS .. [[
                local function wait() mark("begun" .. id) assert(scheduler.stopping(3600)) mark("told" .. id) end
                if id == 0 then scheduler.spawn(wait) else wait() end]])
            assert.truthy(count_files("^begun", 2))
            assert_quits(process, 0)
            assert.same({ "told0", "told1" }, files("^told"))
        end)
    end)

    describe("dictionaries", function()
        local COUNTS = 'local counts = require("resty.shdict").shared.counts '

        it("are shared by the workers", function()
            local process = start_ready(2, COUNTS .. [[
                mark("sum." .. counts:incr("n", 1, 0))
                until_told()]], "--dict", "counts=64k")
            assert.truthy(count_files("^sum", 2))
            assert_quits(process, 0)
            assert.same({ "sum.1", "sum.2" }, files("^sum"))
        end)

        it("outlive the death of every worker", function()
            local process = start_ready(1, COUNTS .. [[
                mark("sum." .. counts:incr("n", 1, 0))
                until_told()]], "--respawn", "--dict", "counts=64k")
            assert.truthy(count_files("^sum%.1$", 1))
            command.kill(pids_of(0)[1], command.KILL)
            assert.truthy(count_files("^sum%.2$", 1), process:err())
        end)

        it("end the run before it starts if their sizes differ from those of existing dictionaries", function()
            start_ready(1, "until_told()", "--dict", "counts=64k")
            local err = refused(1, "", "run", "--dict", "counts=128k", script("print('ran')"))
            assert.matches('^holdfast: dictionary "counts": .*65536.*131072', err)
        end)

        it("end the run before it starts if they are larger than the free space, which the message names", function()
            local err = refused(1, "", "run", "--dict", "counts=1000g", script("print('ran')"))
            assert.matches('^holdfast: dictionary "counts": .* %d+ bytes are free', err)
        end)

        it("need a runtime directory that this user owns", function()
            os.execute("chmod 777 " .. command.world())
            refused(1, "holdfast: runtime directory " .. command.world(), "run", script("print('ran')"))
        end)

        it("may be in the directory of another user if HOLDFAST_OWNER names that user", function()
            if shell.output("id -u") ~= "0" then
                pending("only root can give a directory away")
            end
            assert(shell.succeeds("chown www-data:www-data " .. command.world()))
            assert(shell.succeeds("chmod 770 " .. command.world()))
            refused(1, "HOLDFAST_OWNER names", "run", "-e", "print('ran')", { HOLDFAST_SHARE = "group" })
            local owner = shell.output("id -u www-data")
            local ended, out, err = command.run("run", "--workers", "1", "--dict", "theirs=100k", "-e", "print('ran')",
                                          { HOLDFAST_SHARE = "group", HOLDFAST_OWNER = owner })
            assert.same({ code = 0 }, ended, err)
            assert.equal("ran\n", out)
        end)
    end)

    describe("master", function()
        -- Expects that the first `count` workers end when the master is killed.
        local function assert_leaves_none(process, count)
            process:signal(command.KILL)
            assert.same({ signal = command.KILL }, process:wait())
            for number = 0, count - 1 do
                assert.truthy(await(function() return not command.alive(pids_of(number)[1]) end))
            end
        end

        it("leaves no worker behind when it is killed, not even one that ignores TERM", function()
            local process = start_ready(3, "if id == 2 then ignore_term() end mark('set' .. id) for_ever()")
            assert.truthy(count_files("^set", 3))
            assert_leaves_none(process, 3)
        end)

        it("leaves no worker behind when a worker's child survives with the worker's descriptors", function()
            local process = start_ready(2, [[
                if id == 0 then ignore_term() elseif ffi.C.fork() == 0 then mark("child") for_ever() end
                mark("set" .. id)
                for_ever()]])
            assert.truthy(count_files("^set", 2) and count_files("^child", 1))
            assert_leaves_none(process, 2)
        end)

        it("uses no processor time when idle", function()
            local process = start_ready(1, "while not worker.exiting() do sleep(0.05) end")
            -- The master may still be busy when its worker is ready.
            assert.truthy(await(function()
                local before = cpu_ticks(process.pid)
                command.sleep(1)
                return cpu_ticks(process.pid) - before <= 1
            end, 5))
        end)

        it("works if its parent ignores CHLD", function()
            local line = ('trap "" CHLD; exec "%s" run --workers 2 "%s"'):format(command.program,
                script("if id == 1 then os.exit(4) end"))
            local err = refused(1, "", "-c", line, { PROGRAM = "/bin/bash" })
            assert.matches("worker 1 %(pid %d+%) exited with status 4", err)
        end)
    end)
end)

describe("resty.holdfast.worker", function()
    it("is worker 0 of 1 outside of holdfast run, and exiting() is false", function()
        local worker = require "resty.holdfast.worker"
        assert.same({ 0, 1, false }, { worker.id(), worker.count(), worker.exiting() })
    end)
end)
