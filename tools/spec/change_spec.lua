-- Tests `holdfast release`, `rm` and `prune`, which change a runtime directory that other processes use.

local command, json, shell, typing, world =
    require "spec.support" ("command", "tools/json", "shell", "tools/typing", "tools/world")

local keep, output, refused, rows, run = world.keep, world.output, world.refused, world.rows, command.run

local HOLDER = [[
    local shdict = require "resty.shdict"
    local dict = assert(shdict.open("my_locks", { size = "64k" }))
    local lock = require("resty.lock"):new("my_locks", { exptime = 3000 })
    assert(lock:lock("key"))
]]


describe("holdfast release", function ()
    command.fixture()

    it("ends the grant with the token, and the next waiter gets the lock", function ()
        keep(HOLDER .. "ready()")
        local waiter = command.start("lock", "my_locks", "key", "--", "echo", "mine")
        assert(command.await(function () return rows(output("locks"))[1][12] == "1" end))
        local token = rows(output("locks"))[1][5]
        assert.equal("", output("release", "my_locks", "key", "--token", token))
        assert.same({ code = 0 }, waiter:wait())
        assert.equal("mine\n", waiter:out())
        assert.equal("", output("locks"))
    end)

    it("does not end another grant, and names the holder", function ()
        local process = keep(HOLDER .. "ready()")
        local token = tonumber(rows(output("locks"))[1][5])
        for _, other in ipairs { token - 1, token + 1 } do
            local err = refused(1, "", "release", "my_locks", "key", "-t", ("%d"):format(other))
            assert.matches(('^holdfast: cannot release "key" with token %d: it is held with token %d by pid %d '
                            .. '%%(ready1.lua%%) %%([%%d.]+ s%%)\n$'):format(
                                other, token, world.worker_of(process)), err)
        end
        assert.equal(1, #rows(output("locks")))
        refused(1, 'holdfast: cannot release "free": it is not held\n', "release", "my_locks", "free", "-t", "1")
    end)

    it("ends only one of several grants of permits", function ()
        keep(HOLDER .. [[
            for i = 1, 3 do
                local semaphore = keep(require("resty.semaphore"):new("my_locks", { permits = 3, exptime = 3000 }))
                assert(semaphore:wait("permits"))
            end
            ready()
        ]])
        local held = rows(output("locks", "--prefix", "permits"))
        assert.equal(3, #held)
        output("release", "my_locks", "permits", "-t", held[2][5])
        local left = rows(output("locks", "--prefix", "permits"))
        assert.same({ held[1][5], held[3][5] }, { left[1][5], left[2][5] })
    end)

    it("without a token, shows the holder and asks on a terminal", function ()
        keep(HOLDER:gsub('"key"', '"key", { why = "a reason" }') .. "ready()")
        for _, answer in ipairs { "\\n", "no\\n", "\\x04" } do
            typing(([[
                say(f"{program} release my_locks key; echo status $?\n")
                until('holdfast: "key" has been held by pid ')
                until("(ready1.lua) since 2")
                until(" s): a reason\r\n")
                until("Release it? [y/N] ")
                say("%s")
                until('"key" was not released\r\n')
                until("status 1\r\n")
            ]]):format(answer))
            assert.equal(1, #rows(output("locks")))
        end
        typing [[
            say(f"{program} release my_locks key; echo status $?\n")
            until("Release it? [y/N] ")
            say("y\n")
            until("status 0\r\n")
        ]]
        assert.equal("", output("locks"))
        typing [[
            say(f"{program} release my_locks key; echo status $?\n")
            until('cannot release "key": it is not held\r\n')
            until("status 1\r\n")
        ]]
    end)

    it("asks about each holder, and does not release a later grant than the one that it showed", function ()
        keep(HOLDER .. [[
            for i = 1, 2 do
                local semaphore = keep(require("resty.semaphore"):new("my_locks", { permits = 3, exptime = 3000 }))
                assert(semaphore:wait("permits"))
            end
            ready()
        ]])
        local held = rows(output("locks", "--prefix", "permits"))
        typing [[
            say(f"{program} release my_locks permits; echo status $?\n")
            until('"permits" (1 permit) has been held by pid ')
            until("Release it? [y/N] ")
            say("n\n")
            until("Release it? [y/N] ")
            say("y\n")
            until("status 1\r\n")
        ]]
        local left = rows(output("locks", "--prefix", "permits"))
        assert.same({ 1, held[1][5] }, { #left, left[1][5] })
        typing(([[
            say(f"{program} release my_locks permits; echo status $?\n")
            until("Release it? [y/N] ")
            import subprocess
            subprocess.run([program, "release", "my_locks", "permits", "--token", "%s"], check=True)
            say("y\n")
            until("the grant with token %s has just ended")
            until("status 1\r\n")
        ]]):format(left[1][5], left[1][5]))
    end)

    it("does not ask with --yes", function ()
        keep(HOLDER .. "ready()")
        assert.equal("", output("release", "my_locks", "key", "--yes"))
        assert.equal("", output("locks"))
        refused(1, 'holdfast: cannot release "key": it is not held\n', "release", "my_locks", "key", "-y")
    end)

    for _, case in ipairs {
        { { "my_locks", "key" }, "cannot ask for confirmation: there is no terminal; use --token N or --yes" },
        { { "my_locks", "key", "--token", "0" }, '--token: bad token "0": expected a number above 0' },
        { { "my_locks", "key", "--token", "-1" }, '--token: bad token "-1"' },
        { { "my_locks", "--token", "1" }, "no KEY was given" },
        { { "none", "key", "--token", "1" }, 'there is no dictionary "none"' },
    } do
        it("refuses: " .. table.concat(case[1], " "), function ()
            keep(HOLDER .. "ready()")
            refused(2, "holdfast: " .. case[2], "release", unpack(case[1]))
        end)
    end
end)


describe("holdfast rm", function ()
    command.fixture()

    local PERSISTENT = [[
        local shdict = require "resty.shdict"
        local dict = assert(shdict.open("%s", { size = "64k", persist = true }))
        dict:set("key", "value")
    ]]

    local function is_refused(name, why)
        assert.matches('^holdfast: dictionary "' .. name .. '" was not removed: ' .. why
                       .. "; use %-%-force to override\n$", refused(1, "", "rm", name))
    end

    it("removes a dictionary that no process uses", function ()
        world.kill(keep(PERSISTENT:format("kept") .. "ready()"))
        keep "assert(require('resty.shdict').open('other', { size = '64k' })); ready()"
        assert.equal("", output("rm", "kept"))
        assert.equal("other", rows(output("ls"))[1][1])
    end)

    it("refuses if another process has the dictionary open, except with --force", function ()
        local process = keep(PERSISTENT:format("used") .. [[
            ready()
            while dict:get("key") do
                require("resty.holdfast.scheduler").sleep(0.01)
            end
            print(dict:get("key"))
            os.exit(3)
        ]])
        is_refused("used", "1 process has it open: pid " .. world.worker_of(process) .. " %(ready1.lua%)")
        assert.equal("", output("rm", "--force", "used"))
        assert.same({ code = 1 }, process:wait())
        assert.equal("nil\tremoved\n", (process:out():gsub("dictionary not found", "removed")))
    end)

    it("refuses if it cannot see the open files of all processes, except with --force", function ()
        keep(PERSISTENT:format("used") .. [[
            local ffi = require "ffi"
            ffi.cdef "int prctl(int, ...);"
            assert(ffi.C.prctl(4, ffi.cast("long", 0)) == 0)  -- PR_SET_DUMPABLE, which hides this process in /proc
            ready()
        ]])
        -- Without this, root may inspect all processes.
        local command_line = { "--bounding-set=-all", command.program, "rm", "used",
                               { PROGRAM = shell.output "command -v setpriv" } }
        if shell.output "id -u" ~= "0" then
            command_line = { "rm", "used" }
        end
        refused(1, 'holdfast: dictionary "used" was not removed: cannot tell whether a process has it open: '
                   .. "this user may not inspect all processes; use --force to override\n",
                unpack(command_line))
        assert.equal("used", rows(output("ls"))[1][1])
        assert.equal("", output("rm", "--force", "used"))
    end)

    it("refuses if a process of the runtime directory is not visible, as in another container", function ()
        local unshare = "unshare --pid --fork --mount-proc "
        if not shell.succeeds(unshare .. "true 2>/dev/null") then
            return pending "no permission to create a pid namespace"
        end
        keep(PERSISTENT:format("used") .. "ready()")
        local err = refused(1, "", "-c", "exec " .. unshare .. command.program .. " rm used", { PROGRAM = "/bin/sh" })
        assert.matches('^holdfast: dictionary "used" was not removed: cannot tell whether pid %d+ %([%w.]+%).* '
                       .. "has it open: that process is in another pid namespace; use %-%-force to override\n$", err)
        assert.equal("used", rows(output("ls"))[1][1])
    end)

    it("refuses while a process holds a lock in the dictionary, among many locks of dead processes", function ()
        local dead = keep [[
            local dict = assert(require("resty.shdict").open("used", { size = "8m" }))
            local lock = require "resty.lock"
            for i = 1, 6000 do
                assert(keep(lock:new("used", { exptime = 3000 })):lock("key" .. i))
            end
            ready()
        ]]
        local holder = world.hold("used", "last")
        world.kill(dead)
        is_refused("used", 'pid %d+ %(sh%) holds "last" in it')
        local of_holder = rows(output("locks", "--prefix", "last"))[1][6]
        holder:signal_group(command.KILL)
        holder:wait()
        assert(command.await(function () return not command.alive(of_holder) end))
        keep "assert(require('resty.shdict').open('other', { size = '64k' })); ready()"
        run("rm", "used")
        assert.equal("other", rows(output("ls"))[1][1])
    end)

    -- The first process that joins an unused runtime directory removes the directory's dictionaries, so a dictionary
    -- may be replaced after the check.
    it("does not take a lock from a process that appeared during the check", function ()
        for round = 1, 4 do
            local dead = keep [[
                for i = 1, 60 do
                    assert(require("resty.shdict").open("left" .. i, { size = "1m" })):set("key", 1)
                end
                ready()
            ]]
            world.kill(dead)
            local names = {}
            for i = 60, 1, -1 do
                names[#names + 1] = "left" .. i
            end
            local removal = command.start("rm", unpack(names))
            shell.output("sleep 0.0" .. round)
            local ended, _, err = run("lock", "left1", "job", "--", "sleep", "0.3")
            assert.same({ code = 0 }, ended, err)
            removal:wait()
        end
    end)

    it("refuses if it cannot list the locks", function ()
        world.hold("used", "key")
        local file = command.world() .. "/used.dict"
        os.execute("chmod 0640 " .. file)
        is_refused("used", "cannot list its locks: .*/used.dict has mode 0640, but it was created with 0600")
        os.execute(("chmod 0600 %s && ln %s %s/link"):format(file, file, command.world()))
        is_refused("used", "cannot list its locks: .*/used.dict has 2 names.*")
        os.execute(("rm %s/link && mv %s %s.real && ln -s %s.real %s"):format(command.world(), file, file, file, file))
        is_refused("used", "cannot tell whether a process has it open: .*/used.dict is not a regular file")
        os.execute(("mv %s.real %s"):format(file, file))
        is_refused("used", 'pid %d+ %(sh%) holds "key" in it')
    end)

    it("refuses if it cannot read one of the locks", function ()
        world.hold("used", "key")
        world.damage_lock("used", "key")
        is_refused("used", 'cannot tell whether "key" is held %(.+%)')
    end)

    it("refuses if a forked child without a process slot reads the dictionary", function ()
        local script = command.write("parent.lua", ([[
            local dict = assert(require("resty.shdict").open("used", { size = "64k", persist = true }))
            dict:set("key", "value")
            local ffi = require "ffi"
            ffi.cdef "int fork(void); int getpid(void); void _exit(int); int usleep(unsigned int);"
            if ffi.C.fork() ~= 0 then
                ffi.C._exit(0)
            end
            assert(dict:get("key") == "value")
            local file = io.open("%s.new", "w")
            file:write(ffi.C.getpid())
            file:close()
            os.rename("%s.new", "%s")
            while dict:get("key") do ffi.C.usleep(10000) end
        ]]):format(command.path("child"), command.path("child"), command.path("child")))
        local parent = command.start(script, { PROGRAM = shell.output "command -v luajit" })
        assert.same({ code = 0 }, parent:wait(), parent:err())
        local child = assert(command.await(function () return command.read "child" end))
        is_refused("used", "1 process has it open: pid " .. child .. " %(luajit[^)]*%)")
        assert.equal("", output("rm", "-f", "used"))
        assert(command.await(function () return not command.alive(tonumber(child)) end))
    end)

    it("removes those of several dictionaries that are not in use, and names the others", function ()
        world.hold("used", "key")
        world.kill(keep(PERSISTENT:format("kept") .. "ready()"))
        assert.matches('^holdfast: dictionary "used" was not removed: [^\n]+\n$', refused(1, "", "rm", "kept", "used"))
        assert.equal("used", rows(output("ls"))[1][1])
        assert.is_nil(command.read(command.world() .. "/kept.dict"))
    end)

    it("names the existing dictionaries if one does not exist", function ()
        keep(HOLDER .. "ready()")
        local none = 'holdfast: there is no dictionary "none" in %s: it contains "my_locks"\n'
        refused(2, none:format(command.world()), "rm", "none")
        refused(2, "holdfast: empty dictionary name: ", "rm", "--force", "")
    end)
end)


describe("holdfast prune", function ()
    command.fixture()

    it("frees expired values and locks of dead processes", function ()
        keep [[
            local dict = assert(require("resty.shdict").open("my_locks", { size = "256k" }))
            for i = 1, 500 do
                dict:set("key" .. i, ("x"):rep(100), 0.001)
            end
            ready()
        ]]
        local dead = keep [[
            assert(require("resty.shdict").open("my_locks"))
            assert(keep(require("resty.rwlock"):new("my_locks", { exptime = 3000 })):rdlock("of the dead"))
            ready()
        ]]
        world.kill(dead)
        assert.equal("dead", rows(output("locks"))[1][9])
        local row = rows(output("prune"))[1]
        assert.same({ "my_locks", "500" }, { row[1], row[2] })
        assert.is_true(tonumber(row[3]) > 50000, row[3])
        assert.equal("0", row[4])
        assert.equal("", output("locks"))
        assert.same({ { name = "my_locks", expired = 0, freed = 0, repairs = 0 } },
                    json.decode(output("prune", "--json", "my_locks")).dictionaries)
    end)

    it("removes the dictionaries that dead processes left", function ()
        local process = keep(HOLDER .. [[
            assert(require("resty.shdict").open("temporary", { size = "64k", persist = false }))
            ready()
        ]])
        world.kill(process)
        assert.equal(2, #rows(output("ls")))
        output("prune")
        local left = rows(output("ls"))
        assert.same({ 1, "my_locks" }, { #left, left[1][1] })
    end)

    it("names a dictionary that does not exist", function ()
        keep(HOLDER .. "ready()")
        local ended, out, err = run("prune", "my_locks", "none")
        assert.same({ code = 2 }, ended)
        assert.equal(1, #rows(out))
        assert.truthy(err:find('there is no dictionary "none"', 1, true), err)
    end)
end)
