-- Tests `holdfast doctor`: it finds each fault, reports no fault that does not exist, changes nothing, and repairs
-- damage only with --repair.

local command, json, shell, world = require "spec.support" ("command", "tools/json", "shell", "tools/world")

local keep, output, overwrite, rows, run = world.keep, world.output, world.overwrite, world.rows, command.run

local STOP, CONT = 19, 18

local MEMBER = [[
    local dict = assert(require("resty.shdict").open("my_dict", { size = "64k" }))
    for i = 1, 20 do
        dict:set("key" .. i, "value")
    end
]]


-- Returns the findings as "severity: subject: sentence", and the exit status.
local function findings(...)
    local ended, out, err = run("doctor", ...)
    assert.equal("", err)
    local found = {}
    for _, row in ipairs(rows(out)) do
        found[#found + 1] = row[1] .. ": " .. (row[2] == "-" and "" or row[2] .. ": ") .. row[3]
    end
    return found, ended.code
end

local function finds(pattern, ...)
    local found, code = findings(...)
    for _, finding in ipairs(found) do
        if finding:match(pattern) then
            return code
        end
    end
    error("not found: " .. pattern .. "\nbut: " .. table.concat(found, "\n"))
end


local function content(name)
    return assert(command.read(command.world() .. "/" .. name))
end

-- Returns whether this user may see the open files of all processes.
local function may_inspect_all()
    return shell.succeeds 'for p in /proc/[0-9]*; do cat $p/maps >/dev/null 2>&1 || [ ! -d $p ] || exit 1; done'
end

-- Returns the first position of the text in the file.
local function place_of(name, text)
    return assert(content(name):find(text, 1, true)) - 1
end


describe("holdfast doctor", function ()
    command.fixture()

    it("finds nothing if all is well", function ()
        keep(MEMBER .. [[
            assert(keep(require("resty.lock"):new("my_dict", { exptime = 3000 })):lock("key"))
            assert(require("resty.shdict").open("large", { size = "8m" })):set("key", 1)
            ready()
        ]])
        assert.same({ {}, 0 }, { findings() })
        assert.same({ status = "ok", findings = {}, directory = command.world() },
                    json.decode(output("doctor", "--json")))
        assert.equal("no problems in " .. command.world() .. ": 2 dictionaries\n",
                     (world.in_terminal(200, "doctor", "--color=never")))
    end)

    it("finds locks with waits longer than --waiting, and locks that are held longer than --held", function ()
        local holder = world.hold("key", "--why", "a reason")
        assert.same({ {}, 0 }, { findings("--held", "0") })  -- without a waiter
        local waiters = {}
        for i = 1, 2 do
            waiters[i] = command.start("lock", "key", "--", "true")
        end
        local function await_waiters(count)
            assert(command.await(function () return rows(output("locks"))[1][12] == count end))
        end
        await_waiters "2"
        command.sleep(0.2)
        assert.same({ {}, 0 }, { findings() })
        local stuck = '^warning: dictionary commands: "key" has been held by pid %d+ %(sh%) for [%d.]+ s '
                      .. '%(why: a reason%), '
        for _, limit in ipairs { "--held=0.1", "--waiting=0.1" } do
            assert.equal(1, finds(stuck .. "and 2 callers have waited for it, the longest for [%d.]+ s$", limit))
            assert.same({ {}, 0 }, { findings((limit:gsub("0.1", "1000"))) })
        end
        local text, ended = world.in_terminal(200, "doctor", "--color=never", "--waiting", "0.1")
        assert.equal(1, ended.code)
        assert.is_nil(text:find("no problems", 1, true))
        waiters[1]:signal_group(command.KILL)
        await_waiters "1"
        assert.equal(1, finds(stuck .. "and a caller has waited for it for [%d.]+ s$", "--waiting=0.1"))
        holder:signal_group(command.KILL)
        assert.same({ code = 0 }, waiters[2]:wait())
        assert.same({ {}, 0 }, { findings("--waiting", "0") })
        for _, case in ipairs { { "--held", "x" }, { "--waiting", "-1" } } do
            world.refused(2, ('holdfast: %s: bad time "%s": expected seconds'):format(unpack(case)), "doctor",
                          unpack(case))
        end
    end)

    it("does not count callers that only wait for the release, and names only a few of many locks", function ()
        keep [[
            local lock = require "resty.lock"
            assert(require("resty.shdict").open("my_dict", { size = "1m" }))
            local scheduler = require "resty.holdfast.scheduler"
            assert(keep(lock:new("my_dict", { exptime = 3000 })):lock("watched"))
            scheduler.spawn(function () lock:new("my_dict", { timeout = 100 }):wait("watched") end)
            for i = 1, 12 do
                assert(keep(lock:new("my_dict", { exptime = 3000 })):lock("key" .. i))
                scheduler.spawn(function () lock:new("my_dict", { timeout = 100 }):lock("key" .. i) end)
            end
            scheduler.spawn(function ()
                scheduler.sleep(0.2)
                ready()
            end)
            scheduler.run()
        ]]
        assert.equal(13, #rows(output("locks")))
        local found, code = findings("--waiting", "0.1")
        assert.same({ 11, 1 }, { #found, code })
        assert.is_nil(table.concat(found):find("watched", 1, true))
        assert.equal("warning: callers wait too long for 2 further keys", found[11])
    end)

    it("reports 51 commands that wait in a cycle as one fault", function ()
        for i = 1, 51 do
            local inner = ("touch '%s'; until [ -e '%s' ]; do sleep 0.2; done; exec '%s' lock k%d -- true"):format(
                command.path("has" .. i), command.path "go", command.program, i % 51 + 1)
            command.start("lock", "k" .. i, "--", "sh", "-c", inner)
        end
        assert(command.await(function () return #command.files "^has%d+$" == 51 end))
        assert.same({ {}, 0 }, { findings() })
        command.write("go", "")
        assert(command.await(function ()
            return select(2, output("locks"):gsub("\talive\t[^\t]*\t%-\t1\t", "")) == 51
        end))
        local text = output("locks", "--waiting")
        assert.matches("^51 commands wait for each other, so none can proceed:\n", text)
        assert.equal(1 + 2 * 51, #rows(text))
        local found, code = findings("--waiting", "0")
        assert.same({ 1, 1 }, { #found, code })
        assert.matches("^warning: 51 commands wait for each other: pid %d+ %(true%) waits for commands k%d+, and its "
                       .. "parent command holds commands k%d+$", found[1])
    end)

    it("finds damage, changes nothing, and repairs it with --repair", function ()
        keep(MEMBER .. "ready()")
        -- Overwrites the key length of an entry.
        overwrite("my_dict.dict", place_of("my_dict.dict", "key7") - 24, "\255\127")
        local before = content("my_dict.dict")
        assert.equal(2, finds "^error: dictionary my_dict: 1 part of 1 is damaged: memory was overwritten$")
        assert.equal(before, content("my_dict.dict"))
        local ended, out = run("doctor", "--repair")
        assert.same({ code = 0 }, ended, out)
        assert.matches("^note\tdictionary my_dict\thas been repaired [12] times? since", out)
        assert.equal("value\n", output("get", "my_dict", "key1"))
    end)

    it("finds damage in a dictionary of many parts", function ()
        keep [[
            local dict = assert(require("resty.shdict").open("large", { size = "16m" }))
            for i = 1, 1000 do
                dict:set("key" .. i, "value")
            end
            ready()
        ]]
        overwrite("large.dict", place_of("large.dict", "key77\0") - 24, "\255\127")
        assert.equal(2, finds "^error: dictionary large: 1 part of 16 is damaged")
    end)

    it("does not mistake changes by other processes for damage", function ()
        keep(MEMBER .. [[
            local shdict = require "resty.shdict"
            local busy = assert(shdict.open("busy", { size = "1m" }))
            local lock = require("resty.lock"):new("busy", { exptime = 3000 })
            ready()
            for i = 1, math.huge do
                busy:set("key" .. i % 100, ("x"):rep(i % 5000))
                lock:lock("lock" .. i % 7)
                lock:unlock()
            end
        ]])
        for _ = 1, 20 do
            for _, finding in ipairs((findings())) do
                assert.matches("^note: dictionary busy: 1 part of 1 changed during every check", finding)
            end
        end
    end)

    it("finds a process that is stopped, inside a dictionary or elsewhere", function ()
        local process = keep(MEMBER .. [[
            ready()
            while true do
                dict:set("hot", ("x"):rep(20000))
            end
        ]])
        local pid = world.worker_of(process)
        local inside = false
        for _ = 1, 200 do
            command.kill(pid, STOP)
            assert(command.await(function () return command.read("/proc/" .. pid .. "/stat"):match "%) T" end))
            assert.is_true(finds("^warning: pid " .. pid .. ": %(ready1.lua%) is stopped") >= 1)
            inside = pcall(finds, "^error: dictionary my_dict: 1 part is locked by pid " .. pid
                           .. " %(ready1.lua%), stopped, which makes no progress")
            command.kill(pid, CONT)
            if inside then
                break
            end
        end
        assert.is_true(inside)
    end)

    it("finds mutexes that belong to dead processes, or to processes that are not inside the dictionary", function ()
        local process = keep(MEMBER .. "ready()")
        local pid = world.worker_of(process)
        -- The word of the mutex follows the header page. Its owner is stored as the slot and the generation of a
        -- process.
        local token
        for slot = 0, 1023 do
            local at = 4096 + slot * 512
            local bytes = content("processes"):sub(at + 1, at + 52)
            local of = bytes:byte(49) + bytes:byte(50) * 256 + bytes:byte(51) * 65536
            if of == pid then
                token = { slot = slot, bytes:byte(1, 3) }
            end
        end
        local function word(generation_change)
            local owner = (token.slot + 1) * 2 ^ 20 + (token[1] + token[2] * 256 + token[3] * 65536) % 2 ^ 20
                          + generation_change
            local bytes = {}
            for i = 1, 4 do
                bytes[i] = string.char(owner % 256)
                owner = math.floor(owner / 256)
            end
            return table.concat(bytes) .. "\1\0\0\0"
        end
        overwrite("my_dict.dict", 4096, word(0))
        assert.equal(2, finds("^error: dictionary my_dict: 1 part is marked as locked by pid " .. pid))
        overwrite("my_dict.dict", 4096, word(-1))
        assert.equal(1, finds "^warning: dictionary my_dict: 1 part was left locked by a process that died")
        local ended, out = run("doctor", "--repair")
        assert.same({ code = 0 }, ended, out)
    end)

    it("finds locks of dead processes, and frees them with --repair", function ()
        keep(MEMBER .. "ready()")
        local dead = keep [[
            assert(require("resty.shdict").open("my_dict"))
            assert(keep(require("resty.lock"):new("my_dict", { exptime = 3000 })):lock("one"))
            assert(keep(require("resty.rwlock"):new("my_dict", { exptime = 3000 })):rdlock("two"))
            ready()
        ]]
        world.kill(dead)
        assert.equal(0, finds "^note: dictionary my_dict: 2 keys are held by dead processes$")
        local ended, out = run("doctor", "--repair")
        assert.same({ code = 0 }, ended, out)
        assert.equal("", output("locks"))
    end)

    it("finds and frees a dead process's only lock among very many", function ()
        keep [[
            assert(require("resty.shdict").open("my_dict", { size = "48m" }))
            for i = 1, 101000 do
                local lock = keep(require("resty.lock"):new("my_dict", { exptime = 3000 }))
                assert(lock:lock(("key%06d"):format(i)))
            end
            ready()
        ]]
        -- Chooses one of the last keys that the scan returns.
        local key, token = output("locks"):match "my_dict\t(key%d+)\tlock\tlock\t(%d+)\t[^\n]*\n$"
        output("release", "my_dict", key, "--token", token)
        world.kill(keep(([[
            assert(require("resty.shdict").open("my_dict"))
            assert(keep(require("resty.lock"):new("my_dict", { exptime = 3000 })):lock("%s"))
            ready()
        ]]):format(key)))
        assert.equal(0, finds "^note: dictionary my_dict: 1 key is held by dead processes$")
        local ended, out = run("doctor", "--repair")
        assert.same({ code = 0 }, ended, out)
        assert.equal("", output("locks", "--prefix", key))
    end)

    it("finds dictionaries that dead processes left", function ()
        local process = keep(MEMBER .. [[
            assert(require("resty.shdict").open("temporary", { size = "64k", persist = false }))
            ready()
        ]])
        assert.same({ {}, 0 }, { findings() })
        world.kill(process)
        assert.equal(0, finds "^note: no process uses this directory, and these dictionaries are left: temporary$")
        assert.equal(0, finds "^note: 1 dictionary is unused but kept, with %d+K of memory: my_dict$")
        command.write(command.world() .. "/junk.dict", "junk")  -- a file that no process removes
        assert.equal(2, finds "^note: no process uses this directory, and these dictionaries are left: temporary$")
    end)

    it("counts a dictionary as used if only a command has locks in it, and finds that its file was deleted", function ()
        local script = command.write("open.lua", [[ require("resty.shdict").open("jobs", { size = "64k" }) ]])
        output("run", "--workers", "1", script)
        assert.equal(0, finds "^note: 1 dictionary is unused but kept, with %d+K of memory: jobs$")
        local holder = command.start("lock", "-F", "jobs", "key", "--", "sleep", "3600")
        assert(command.await(function () return command.read("/proc/" .. holder.pid .. "/comm") == "sleep\n" end))
        assert.same({ {}, 0 }, { findings() })
        os.execute(("rm %s/jobs.dict"):format(command.world()))
        local found, code = findings()
        local lost = "error: %s: a dictionary was deleted or moved while it was in use, and new programs cannot "
                     .. "use its name; pid %d (sleep) has locks in it"
        assert.same({ lost:format(command.world(), holder.pid) }, found)
        assert.equal(2, code)
        local ended, _, err = run("lock", "jobs", "key", "--", "true")
        assert.is_false(ended.code == 0)
        assert.matches("jobs%.dict was deleted, moved or replaced, but processes still use it", err)
        holder:signal(command.KILL)
        holder:wait()
        assert.same({ {}, 0 }, { findings() })
        assert.same({ code = 0 }, (run("lock", "jobs", "key", "--", "true")))
    end)

    it("warns if processes wait for a dead process's lock", function ()
        local holder = command.start("lock", "-F", "key", "--", "sleep", "3600")
        assert(command.await(function () return select(2, run("locks")):find "\tkey\t" end))  -- or no directory yet
        local waiter = command.start("lock", "key", "--", "true")
        assert(command.await(function ()
            return output("locks", "--waiting"):find "pid %d+ %(true%) has waited for"
        end))
        waiter:signal(STOP)
        holder:signal(command.KILL)
        holder:wait()
        local code = finds "^warning: dictionary commands: 1 key is held by dead processes, 1 of them with waiters$"
        waiter:signal(CONT)
        assert.equal(1, code)
        assert.same({ code = 0 }, waiter:wait())
    end)

    it("reports nothing after the end of a command that held its lock itself", function ()
        assert.same({ code = 0 }, (run("lock", "-F", "key", "--", "true")))
        assert.equal(0, finds "^note: dictionary commands: 1 key is held by dead processes$")
        assert.same({ {}, 0 }, { findings "--repair" })
    end)

    it("reports nothing while commands take locks and end, and their dictionary ends with them", function ()
        assert.same({ code = 0 }, (run("lock", "key", "--", "true")))
        local script = command.write("commands.sh", ('for i in $(seq 150); do %s lock key -- true; done')
                                                        :format(command.program))
        os.execute(("sh %s & echo $! >%s"):format(script, command.path "pid"))
        local pid = assert(tonumber(command.read "pid"))
        local looks = 0
        while command.alive(pid) do
            local found, code = findings()
            assert.equal(0, code, table.concat(found, "\n"))
            for _, list in ipairs { "ls", "locks" } do
                local ended, _, err = run(list)
                assert.same({ { code = 0 }, "" }, { ended, err })
            end
            local err = select(3, run("stat", "commands"))
            assert.is_nil(err:find('it contains "commands"', 1, true), err)
            looks = looks + 1
        end
        assert.is_true(looks > 0)
    end)

    it("finds foreign, truncated, copied and unprotected files, and reports each fault once", function ()
        keep(MEMBER .. [[
            local shdict = require "resty.shdict"
            assert(shdict.open("short", { size = "64k" }) and shdict.open("linked", { size = "64k" }))
            ready()
        ]])
        command.write(command.world() .. "/none.dict", "nothing")
        os.execute(("cd %s && cp my_dict.dict copy.dict && chmod 600 *.dict && truncate -s 8192 short.dict "
                    .. "&& ln linked.dict link && chmod 644 my_dict.dict"):format(command.world()))
        local found, code = findings()
        assert.equal(2, code)
        table.sort(found)
        local wanted = {
            "^error: copy.dict: is a copy, not the file that was created here$",
            "^error: linked.dict: has 2 hard links: programs refuse it$",
            "^error: my_dict.dict: has mode 0644, but was created with 0600: programs refuse it$",
            "^error: none.dict: is not a holdfast file, or was overwritten$",
            "^error: short.dict: was truncated or overwritten: it has 8192 bytes, but was created with ",
            "^note: 1 dictionary is unused but kept, with %d+K of memory: copy$",
        }
        assert.equal(#wanted, #found, table.concat(found, "\n"))
        for i, pattern in ipairs(wanted) do
            assert.matches(pattern, found[i])
        end
    end)

    it("finds name files that were deleted or replaced", function ()
        keep(MEMBER .. "ready()")
        local names = shell.output("ls " .. command.world()):match "names%-%d%d"
        assert.same({ {}, 0 }, { findings() })
        os.execute(("cd %s && cp %s copy && mv copy %s"):format(command.world(), names, names))
        assert.equal(2, finds("^error: " .. names:gsub("%-", "%%-") .. ": is not the file that was created here: "))
        os.execute(("rm %s/%s"):format(command.world(), names))
        assert.equal(2, finds("^error: " .. names:gsub("%-", "%%-") .. ": was deleted or moved: "))
    end)

    it("finds a directory where a name file is to be created", function ()
        keep(MEMBER .. "ready()")
        local free = shell.output(("cd %s; for i in 0 1 2 3 4; do [ -e names-0$i ] || echo names-0$i; done | head -1")
                                  :format(command.world()))
        os.execute(("mkdir %s/%s"):format(command.world(), free))
        assert.equal(2, finds("^error: " .. free:gsub("%-", "%%-") .. ": is not the file that was created here: "))
    end)

    it("finds a dictionary that was deleted while in use, but not one that was removed with rm", function ()
        local OPEN = [[ assert(require("resty.shdict").open("second", { size = "64k" })); ready() ]]
        keep(MEMBER .. [[ assert(require("resty.shdict").open("removed", { size = "64k" })) ]] .. OPEN)
        local user = keep(OPEN)
        assert(shell.succeeds(("HOLDFAST_DIR=%s %s rm --force removed"):format(command.world(), command.program)))
        assert.same({ {}, 0 }, { findings() })
        os.execute(("rm %s/second.dict"):format(command.world()))
        local found = finds("^error: second%.dict: the file was deleted or moved while it was in use, and new "
                            .. "programs cannot use its name; pids .* have it open")
        assert.equal(2, found)
        user:signal_group(command.KILL)
        user:wait()
        assert.equal(2, finds("^error: /dev/shm/[^:]*: a dictionary was deleted or moved while it was in use"))
    end)

    it("finds that the process table was deleted while in use, and names the dictionaries that are cut off", function ()
        local process = keep(MEMBER .. [[
            assert(require("resty.shdict").open("temporary", { size = "64k", persist = false }))
            ready()
        ]])
        local refused = '^error: %s.dict: belongs to an earlier file "processes", which was removed or replaced, '
                        .. "and new programs cannot open it; .*pids? .*" .. world.worker_of(process)
        os.remove(command.world() .. "/processes")
        assert.equal(2, finds "^error: processes: was deleted or moved, but programs still use it$")
        assert.equal(2, finds(refused:format "my_dict"))
        assert.equal(2, finds(refused:format "temporary"))
        local deleted = command.world() .. "/processes was deleted or moved, but programs still use it"
        for _, words in ipairs { { "ls" }, { "locks" }, { "del", "my_dict", "key" } } do
            world.refused(2, deleted, unpack(words))
        end
        keep "assert(require('resty.shdict').open('other', { size = '64k' })); ready()"
        assert.equal(2, finds(refused:format "my_dict"))
        assert.equal(2, finds(refused:format "temporary"))
        assert.matches('temporary\t.*does not belong to the file "processes" beside it', (select(2, run "ls")))
        world.kill(process)
        assert.equal(1, finds('^warning: my_dict.dict: belongs to an earlier file "processes", which was removed or '
                              .. "replaced; "))
    end)

    it("advises how to remove files that are not dictionaries", function ()
        keep(MEMBER .. "ready()")
        local directory = command.world()
        command.write(directory .. "/junk.dict", "junk")
        os.execute(("mkdir %s/folder.dict && ln -s my_dict.dict %s/link.dict"):format(directory, directory))
        local advice = {}
        for _, finding in ipairs(json.decode((select(2, run("doctor", "--json")))).findings) do
            advice[finding.subject or ""] = finding.advice
        end
        assert.same({
            ["folder.dict"] = "move it elsewhere: holdfast removes no directories",
            ["junk.dict"] = '"holdfast rm --force junk" removes it',
            ["link.dict"] = '"holdfast rm --force link" removes it',
        }, advice)
        assert.equal("", output("rm", "--force", "junk"))
        assert.equal("", output("rm", "--force", "link"))
        os.execute(("rmdir %s/folder.dict"):format(directory))
        assert.same({ {}, 0 }, { findings() })
    end)

    it("reports once that the process table cannot be used", function ()
        keep(MEMBER .. "ready()")
        os.execute("chmod 666 " .. command.world() .. "/processes")
        assert.same({ { "error: processes: has mode 0666, but was created with 0600: programs refuse it" }, 2 },
                    { findings() })
        os.execute(("chmod 600 %s/processes && truncate -s 100 %s/processes"):format(command.world(), command.world()))
        assert.same({ { "error: processes: is not a holdfast file, or was overwritten" }, 2 }, { findings() })
    end)

    it("names the processes that prevent an upgrade, with the same advice for each file", function ()
        local process = keep(MEMBER .. "ready()")
        world.kill(keep [[
            assert(require("resty.shdict").open("idle", { size = "64k", persist = true }))
            ready()
        ]])
        for _, name in ipairs { "processes", "my_dict.dict", "idle.dict" } do
            overwrite(name, 8, "\99\0\0\0")
        end
        local pid = world.worker_of(process)
        assert.equal(2, finds("^error: processes: has layout 99, but this version uses %d+; pids .*" .. pid
                              .. ".* have it open"))
        assert.equal(2, finds("^error: my_dict.dict: has layout 99, .*pids? .*" .. pid))
        local found = json.decode((select(2, run("doctor", "--json")))).findings
        assert.equal(3, #found)
        for _, finding in ipairs(found) do
            assert.matches("^programs of this version cannot use it until the processes of the other version have "
                           .. "ended: ", finding.advice)
        end
        world.kill(process)
        local nobody = may_inspect_all() and "no process has it open" or
                       "no process that this user may inspect has it open"
        finds("^warning: processes: has layout 99, but this version uses %d+; " .. nobody .. "$")
    end)

    it("names the programs that prevent an upgrade, with advice for each file", function ()
        local process = keep(MEMBER .. [[
            assert(require("resty.shdict").open("kept", { size = "64k", persist = true }))
            ready()
        ]])
        local pid = world.worker_of(process)
        for _, name in ipairs { "my_dict", "kept" } do
            overwrite(name .. ".dict", 8, "\99\0\0\0")
            assert.equal(2, finds("^error: " .. name .. ".dict: has layout 99, but this version uses %d+; pids? .*"
                                  .. pid .. " %(ready1.lua%).* ha%S+ it open"))
        end
        keep "assert(require('resty.shdict').open('other', { size = '64k' })); ready()"
        world.kill(process)
        local of = {}
        for _, finding in ipairs(json.decode((select(2, run("doctor", "--json")))).findings) do
            of[#of + 1] = finding.subject .. ": " .. finding.severity .. ": " .. finding.advice
        end
        table.sort(of)
        assert.same({
            'kept.dict: error: it persists, so no program replaces it: remove it with "holdfast rm --force", or keep '
            .. "using the other version",
            "my_dict.dict: warning: once no process has it open, the next process of this version replaces it",
        }, of)
        assert.equal("", output("rm", "--force", "kept"))
    end)

    it("explains separately from the fault how to close a directory that is open to others", function ()
        os.execute("chmod 777 " .. command.world())
        local ended, out = run("doctor", "--json")
        os.execute("chmod 700 " .. command.world())
        assert.same({ code = 2 }, ended)
        local finding = json.decode(out).findings[1]
        local wrong = "runtime directory %s has mode 0777, expected 0700: other users must not have access"
        assert.equal(wrong:format(command.world()), finding.sentence)
        local advice = ("run chmod 700 %s, or choose another one: export HOLDFAST_DIR="):format(command.world())
        assert.equal(advice, finding.advice:sub(1, #advice))
    end)

    it("reports a note for an unused directory, and an error for a missing directory of --dir", function ()
        local user = shell.output "id -u" == "0" and "4242424" or nil
        local directory = "/dev/shm/holdfast-" .. (user or shell.output "id -u")
        if shell.succeeds("test -e " .. directory) then
            return pending "the directory exists"
        end
        local words = user and { "doctor", "--user", user } or { "doctor" }
        words[#words + 1] = { HOLDFAST_DIR = "" }
        local ended, out, err = run(unpack(words))
        assert.same({ code = 0 }, ended, err)
        assert.equal("note\t-\tno program uses holdfast here yet (" .. directory .. ")\t"
                     .. "choose another directory with --dir, or another user with --user\n", out)
        local named = user and { "doctor", "--user", user, "--dir", directory } or { "doctor", "--dir", directory }
        ended, out = run(unpack(named))
        assert.same({ code = 2 }, ended)
        assert.matches("^error\t%-\tthere is no runtime directory " .. directory:gsub("%-", "%%-")
                       .. "\tchoose another directory with %-%-dir, or another user with %-%-user\n$", out)
        assert.is_false(shell.succeeds("test -e " .. directory))
    end)

    it("finds a dictionary that is full", function ()
        keep [[
            local dict = assert(require("resty.shdict").open("full", { size = "64k" }))
            for i = 1, 2000 do
                dict:set("key" .. i, ("x"):rep(50))
            end
            ready()
        ]]
        assert.equal(1, finds "^warning: dictionary full: is full: %d+ live entries were evicted so far$")
    end)

    it("finds dead jobs of a queue, and says how to list them", function ()
        keep [[
            local jobs = assert(require("resty.holdfast.queue").open("mails", { size = "64k", max_attempts = 1 }))
            for i = 1, 3 do
                jobs:push(i)
                if i < 3 then
                    jobs:take(0):retry()
                end
            end
            ready()
        ]]
        assert.equal(1, finds "^warning: dictionary mails: has 2 dead jobs, which failed too often$")
        assert.matches('\t"holdfast queue dead mails" lists them, and "holdfast queue retry mails JOB" retries one\n',
                       select(2, run("doctor")))
    end)

    it("notes that there are more processes than inotify instances", function ()
        local most = tonumber(command.read "/proc/sys/fs/inotify/max_user_instances")
        if most > 200 then
            return pending "too many inotify instances"
        end
        local script = command.write("member.lua", [[
            assert(require("resty.shdict").open("crowd", { size = "64k" })):incr("count", 1, 0)
            require("resty.holdfast.scheduler").sleep(3600)
        ]])
        command.start("run", "--workers", tostring(most + 1), script)
        assert(command.await(function ()
            local _, count = run("get", "crowd", "count")
            return tonumber(count) == most + 1
        end))
        assert.equal(0, finds "^note: %d+ processes use this directory, but a user has only %d+ inotify instances: ")
    end)

    it("finds that the file system is full", function ()
        local mount = "mkdir -m 700 %s/small && mount -t tmpfs -o size=900k,mode=700 none %s/small 2>/dev/null"
        if not shell.succeeds(mount:format(command.world(), command.world())) then
            return pending "no permission to mount"
        end
        local directory = command.world() .. "/small"
        local ok, err = pcall(function ()
            local script = command.write("member.lua", [[
                assert(require("resty.shdict").open("d", { size = "12k" }))
                while true do require("resty.holdfast.scheduler").sleep(0.1) end
            ]])
            local process = command.start("run", "--workers", "1", script, { HOLDFAST_DIR = directory })
            assert(command.await(function () return command.read(directory .. "/d.dict") end), process:err())
            assert.equal(2, finds("^error: the file system of .* has .* free: changes that need memory fail$", "--dir",
                                  directory))
            process:signal(command.KILL)
            process:wait()
        end)
        command.sleep(0.1)
        os.execute("umount -l " .. directory)
        assert(ok, err)
    end)
end)
