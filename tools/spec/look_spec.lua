-- Tests the output of `holdfast ls`, `stat` and `locks` for people and for programs. The commands must change nothing,
-- and must not wait for any process.

local command, json, shell, typing, world =
    require "spec.support" ("command", "tools/json", "shell", "tools/typing", "tools/world")

local keep, output, refused, rows, run = world.keep, world.output, world.refused, world.rows, command.run

local MEMBERS = [[
    local shdict = require "resty.shdict"
    local cache = assert(shdict.open("cache", { size = "1m" }))
    assert(shdict.open("a b\t\\/", { size = "64k" }))
    for i = 1, 50 do cache:set("key" .. i, i) end
    for i = 1, 100 do cache:get("key" .. i) end
]]

-- Holds three keys, as a lock, an rwlock and a semaphore. One of them has an exptime and a reason.
local HOLDERS = [[
    local shdict = require "resty.shdict"
    local dict = assert(shdict.open("my_locks", { size = "64k" }))
    local lock = require("resty.lock"):new("my_locks", { exptime = 3000, timeout = 0 })
    assert(lock:lock("lock\1\\", { why = "the nightly\treport" }))
    assert(keep(require("resty.rwlock"):new("my_locks", { exptime = 3000 })):rdlock("readers"))
    assert(keep(require("resty.semaphore"):new("my_locks", { permits = 3, exptime = 3000 })):wait("permits"))
]]


-- Returns the length of the longest line, in characters.
local function width_of(text)
    local most = 0
    for line in text:gmatch "[^\n]+" do
        most = math.max(most, #line:gsub("[\128-\191]", ""))
    end
    return most
end

local function listing()
    return shell.output("ls -lAi --time-style=full-iso " .. command.world())
end


describe("Commands that print columns", function ()
    -- The arguments of each command, and a text that it prints only for people.
    local COMMANDS = {
        { { "ls" }, "NAME +SIZE +USED" },
        { { "stat", "my_locks" }, "name +my_locks\n" },
        { { "locks" }, "DICTIONARY +KEY +KIND" },
        { { "top", "-b", "-n", "1", "-d", "0.1" }, "DICTIONARY +KEY +KIND" },
        { { "doctor" }, "no problems in" },
        { { "prune" }, "NAME +EXPIRED +FREED" },
    }
    local KEY = "/var/lib/backup/jobs/of/the/whole/company/weekly/nightly.lock"

    -- Returns what the command prints into a pipe if these arguments follow its own.
    local function piped(words, ...)
        local all = { unpack(words) }
        for _, word in ipairs { ... } do
            all[#all + 1] = word
        end
        return output(unpack(all))
    end

    setup(function ()
        command.set_up()
        keep(([[
            assert(require("resty.shdict").open("my_locks", { size = "64k" }))
            assert(keep(require("resty.lock"):new("my_locks", { exptime = 3000 })):lock("%s", { why = "full" }))
            ready()
        ]]):format(KEY))
    end)
    teardown(command.tear_down)

    it("with --header, print the titles into a pipe, and with --color, colours", function ()
        for _, case in ipairs(COMMANDS) do
            local words, people = unpack(case)
            local function check(has_columns, has_colours, ...)
                local text = piped(words, ...)
                local plain = text:gsub("\27%[%d*m", "")
                assert.equal(has_columns, plain:find(people) ~= nil, words[1] .. text)
                assert.equal(has_colours, text:find "\27" ~= nil, words[1] .. text)
            end
            check(false, false)
            check(false, false, "--color=auto")
            check(false, false, "--color=never")
            check(true, false, "--header")
            check(true, false, "--header", "--color=never")
            check(true, false, "--header", { NO_COLOR = "1" })
            check(true, true, "--color")
            check(true, true, "--header", "--color=always")
            check(true, true, "--color", { NO_COLOR = "1" })
        end
        for _, value in ipairs { "", "blue", "ALWAYS" } do
            refused(2, ('--color: bad value "%s": expected always, never or auto'):format(value), "ls",
                    "--color=" .. value)
        end
        refused(2, 'there is no dictionary "never"', "ls", "--color", "never")
    end)

    it("are as wide as COLUMNS or, without it, the terminal", function ()
        assert.is_true(width_of(piped({ "stat", "my_locks" }, "--header", { COLUMNS = "40" })) <= 40)
        for _, words in ipairs { { "ls" }, { "locks" } } do
            local whole = width_of(piped(words, "--header"))
            assert.is_true(whole > 64, words[1])
            local function assert_wide(text)
                assert.is_true(math.abs(width_of(text) - whole) <= 1, text)  -- 10 s is shorter than 9.9 s
            end
            assert.is_true(width_of(piped(words, "--header", { COLUMNS = "50" })) <= 50, words[1])
            for _, columns in ipairs { "", "0", "wide", "-1" } do
                assert_wide(piped(words, "--header", { COLUMNS = columns }))
            end
            local name = words[1]
            assert.is_true(width_of((world.in_terminal(60, name, { NO_COLOR = "1" }))) <= 60)
            assert.is_true(width_of((world.in_terminal(60, name, { NO_COLOR = "1", COLUMNS = "50" }))) <= 50)
            assert_wide((world.in_terminal(60, name, { NO_COLOR = "1", COLUMNS = "500" })))
        end
        assert.is_true(width_of(piped({ "top", "-b", "-n", "1", "-d", "0.1" }, "--header", { COLUMNS = "70" })) <= 70)
    end)

    it("elide the middle of a long key, so that its end and the holder remain visible", function ()
        local text = world.in_terminal(80, "locks", { NO_COLOR = "1" })
        assert.matches("\nmy_locks +/var/[^ ]*…[^ ]*%.lock +lock +pid %d+ %(ready%d%.lua%) ", text)
        assert.truthy(piped({ "locks" }, "--header"):find(KEY, 1, true))
        assert.truthy(world.in_terminal(80, "locks", "--wide", { NO_COLOR = "1" }):find(KEY, 1, true))
    end)

    it("do not divide an escaped byte, and do not elide anything for programs", function ()
        local key = ("\\\\"):rep(30) .. ("\1"):rep(30)
        keep(([[
            assert(require("resty.shdict").open("my_locks", { size = "64k" }))
            assert(keep(require("resty.lock"):new("my_locks", { exptime = 3000 })):lock(%q))
            ready()
        ]]):format(key))
        for columns = 60, 80 do
            local text = piped({ "locks", "--prefix", "\\" }, "--header", { COLUMNS = tostring(columns) })
            local shown = text:match "\n[^\n]*(\\\\[^ ]*)"
            assert.equal("…", (shown:gsub("\\\\", ""):gsub("\\x01", "")), text)
        end
        local row = rows(piped { "locks", "--prefix", "\\", { COLUMNS = "20" } })[1]
        assert.equal(("\\"):rep(120) .. ("\\x01"):rep(30), row[2])
    end)

    it("break sentences into lines, and elide the middle of a key only if it is longer than a line", function ()
        local key = KEY .. ("/deeper"):rep(10) .. "/end.lock"
        local holder = world.hold("my_locks", key, "--why", ("a reason "):rep(12))
        command.start("lock", "my_locks", key, "--", "true")
        assert(command.await(function () return output("locks", "-w"):find("has waited for", 1, true) end))
        local short = "/var/[%w/]*…[%w/]*/end%.lock"
        for columns, wanted in pairs { [40] = short, [72] = short, [300] = key:gsub("%p", "%%%0") } do
            for _, words in ipairs { { "locks", "-w" }, { "doctor", "--waiting", "0" } } do
                words[#words + 1] = "--color=never"
                local text = world.in_terminal(columns, unpack(words))
                assert.is_true(width_of(text) <= columns, text)
                assert.matches(wanted, text)
                assert.matches("has been held by pid %d+ %(sh%) for", (text:gsub("\n", " ")))
            end
        end
        local tree = world.in_terminal(32, "locks", "-w", "--color=never")
        assert.matches("\n└─ pid %d+ [^\n]*\n   [^\n]+\n$", tree)
        assert.matches("\27%[", (world.in_terminal(40, "locks", "-w", "--color=always")))
        for _, words in ipairs { { "locks", "-w" }, { "doctor", "--waiting=0" } } do
            local _, text = run(words[1], words[2], { COLUMNS = "40" })
            assert.matches(key, text, 1, true)
        end
        refused(1, ('holdfast: cannot release "%sx": it is not held\n'):format(key), "release", "-y", "my_locks",
                key .. "x", { COLUMNS = "40" })
        typing(([[
            say("stty cols 60; clear; " + program + " release my_locks %s\r")
            until("holdfast:\r\n")
            until("Release it?")
            assert all(len(line) <= 60 for line in before.split("\r\n")), before
            assert "…" in before and "end.lock\"" in before and "(sh)" in before, before
            say("n\r")
            until("end.lock\" was not released")
            say("exit\r")
        ]]):format(key))
        holder:signal_group(command.KILL)
    end)

    it("are shown with titles and colours by less -R and watch --color", function ()
        typing [[
            import shutil
            if shutil.which("less"):
                say(program + " locks --color --header | less -R -F -X\n")
                until("\x1b[1mDICTIONARY\x1b[0m")
                until("nightly.lock")
                until("ready> ")
            if shutil.which("watch"):
                say("timeout 60 watch --color -t " + program + " locks --color\n")
                until("DICTIONARY")
                until("ly.lock")
                say("\x03")
                until("ready> ")
            say("exit\n")
        ]]
    end)
end)


describe("holdfast ls", function ()
    command.fixture()

    it("prints a line for each dictionary, in order, with its counts and the processes that have it open", function ()
        local process = keep(MEMBERS .. "ready()")
        local found = rows(output("ls"))
        assert.equal(2, #found)
        local odd, cache = unpack(found)
        assert.equal("a b\\x09\\\\/", odd[1])
        assert.same({ "cache", "1048576" }, { cache[1], cache[2] })
        assert.is_true(tonumber(cache[3]) > 0)
        assert.same({ "50", "50", "50", "0", "0" }, { cache[4], cache[5], cache[6], cache[7], cache[8] })
        assert.equal(tostring(world.worker_of(process)), cache[9])
        assert.equal("-", cache[10])
    end)

    it("prints only named dictionaries, and lists the existing ones if one does not exist", function ()
        keep(MEMBERS .. "ready()")
        assert.equal(1, #rows(output("ls", "cache")))
        local none = 'holdfast: there is no dictionary "none" in %s: it contains "a b\\x09\\/", "cache"\n'
        refused(2, none:format(command.world()), "ls", "cache", "none")
    end)

    it("sends no control characters to a terminal, in JSON and in tables", function ()
        local name = "a\194\155\226\128\174\127\243\160\129\129b"
        keep(([[
            local name = %q
            assert(require("resty.shdict").open(name, { size = "64k" }))
            held = require("resty.lock"):new(name, { exptime = 3000 })
            assert(held:lock(name))
            ready()
        ]]):format(name))
        for _, words in ipairs { { "ls", "--json" }, { "locks", "--json" }, { "ls" }, { "locks" }, { "doctor" },
                                 { "doctor", "--json" } } do
            words[#words + 1] = { NO_COLOR = "1" }
            local out = world.in_terminal(100, unpack(words))
            assert.truthy(out:find "b" or words[1] == "doctor")
            assert.falsy(out:gsub("…", ""):find "[\127-\255]", out)
        end
        local text = world.in_terminal(100, "locks", "--json", { NO_COLOR = "1" })
        assert.equal(name, json.decode(text).locks[1].key)
        assert.equal(name, json.decode(output("ls", "--json")).dictionaries[1].name)
    end)

    it("prints columns and colours on a terminal", function ()
        keep(MEMBERS .. "ready()")
        local out = world.in_terminal(100, "ls", { NO_COLOR = "1" })
        local head, first, second = out:match "^(.-)\n(.-)\n(.-)\n$"
        assert.matches("^NAME +SIZE +USED +ENTRIES +HITS +EVICTED +REPAIRED +PROCESSES$", head)
        assert.equal("a b\\x09\\\\/", first:match "^(%S+ %S+)")
        assert.matches("^cache +1M +[%d.]+K +50 +50.0 %% +0 +0  1: ready1", second)
        assert.equal(head:find("SIZE", 1, true) + 3, (second:find "1M") + 1)
        assert.truthy(world.in_terminal(100, "ls", {}):find "\27%[1m")
        assert.truthy(world.in_terminal(100, "ls", "--color", { NO_COLOR = "1" }):find "\27%[1m")
        assert.falsy(world.in_terminal(100, "ls", "--color=never", {}):find "\27")
        assert.is_true(width_of((world.in_terminal(60, "ls", "--color=never", {}))) <= 60)
    end)

    it("prints JSON with the fields of the manual for programs", function ()
        local process = keep(MEMBERS .. "ready()")
        local object = json.decode(output("ls", "--json"))
        assert.equal(command.world(), object.directory)
        local odd, cache = unpack(object.dictionaries)
        assert.equal("a b\t\\/", odd.name)
        assert.equal(json.null, odd.hit_ratio)
        assert.equal(0.5, cache.hit_ratio)
        assert.same({ { pid = world.worker_of(process), program = "ready1.lua" } }, cache.processes)
        assert.is_true(cache.processes_complete)
        local manual = command.read(command.repository .. "/tools/docs/holdfast.md")
        local described = manual:match "A %*%*dictionary%*%* has.-\n\n"
        for field in pairs(cache) do
            assert.truthy(described:find("`" .. field .. "`", 1, true), field)
        end
    end)

    it("counts processes that hold or wait for a lock, even if they do not have the dictionary open", function ()
        local holder = world.hold("my_locks", "key")
        local pid = rows(output("locks"))[1][6]
        assert.equal(pid, rows(output("ls", "-p"))[1][9])
        local waiter = command.start("lock", "my_locks", "key", "--", "true")
        assert(command.await(function () return rows(output("locks"))[1][12] == "1" end))
        local waits = json.decode(output("locks", "--json")).locks[1].waiters[1].pid
        local both = { { pid = tonumber(pid), program = "sh" }, { pid = waits, program = "true" } }
        table.sort(both, function (one, other) return one.pid < other.pid end)
        for _, words in ipairs { { "ls", "-p", "--json" }, { "stat", "my_locks", "--json" } } do
            local object = json.decode(output(unpack(words)))
            local dictionary = object.dictionaries and object.dictionaries[1] or object
            assert.same(both, dictionary.processes)
        end
        local said = output("stat", "my_locks"):match "\nprocesses\t([^\n]*)\n"
        assert.matches(("^%d %%(%s%%), %d %%(%s%%)"):format(both[1].pid, both[1].program, both[2].pid, both[2].program),
                       said)
        holder:signal_group(command.KILL)
        assert.same({ code = 0 }, waiter:wait())
    end)

    it("has a second field for a name that is not UTF-8", function ()
        keep [[
            assert(require("resty.shdict").open("\255name", { size = "64k" }))
            ready()
        ]]
        local dictionary = json.decode(output("ls", "--json")).dictionaries[1]
        assert.equal("\\xFFname", dictionary.name)
        assert.equal("FF6E616D65", dictionary.name_hex)
    end)

    it("reports why a dictionary cannot be read, and lists the others", function ()
        keep(MEMBERS .. "ready()")
        command.write(command.world() .. "/broken.dict", ("x"):rep(8192))
        os.execute("chmod 600 " .. command.world() .. "/broken.dict")
        local ended, out = run("ls")
        assert.same({ code = 2 }, ended)
        local found = rows(out)
        assert.equal(3, #found)
        assert.same({ "broken", "-", "-" }, { found[2][1], found[2][2], found[2][3] })
        assert.truthy(found[2][10]:find("is not a holdfast file", 1, true))
        assert.equal("-", found[3][10])
    end)
end)


describe("holdfast stat", function ()
    command.fixture()

    it("prints every count of stats, and the processes that have the dictionary open", function ()
        local process = keep(MEMBERS .. "ready()")
        local said = {}
        for _, row in ipairs(rows(output("stat", "cache"))) do
            said[row[1]] = row[2]
        end
        assert.equal("50", said.entries)
        assert.equal("50.0 %", said["hit ratio"])
        assert.equal("futex", said.mutex)
        assert.equal("kept", said.persists)
        assert.equal(("%d (ready1.lua)"):format(world.worker_of(process)), said.processes)
        local stats = json.decode(output("stat", "--json", "cache"))
        assert.same({ true, "kept" }, { stats.persist, stats.life })
        for _, name in ipairs { "hits", "misses", "evictions", "expirations", "repairs", "mutex_waits", "lock_waits",
                                "lock_wakes", "lock_reserved_ms", "entries" } do
            assert.equal("number", type(stats[name]), name)
            assert.truthy(said[name:gsub("_", " ")], name)
        end
    end)

    it("counts the jobs of a queue, and the loads and hits of caches", function ()
        keep [[
            local jobs = assert(require("resty.holdfast.queue").open("jobs", { size = "100k", max_attempts = 1 }))
            for i = 1, 5 do jobs:push(i, { delay = i == 1 and 3000 or nil }) end
            jobs:take(0)
            jobs:take(0):retry()
            local pages = assert(require("resty.holdfast.cache").new("pages", "pages", { size = "100k" }))
            for _ = 1, 3 do pages:get("key", nil, function () return 1 end) end
            pages.publish_at = 0
            pages:get("another key", nil, error)
            ready()
        ]]
        local function said(name)
            return (output("stat", name):gsub("\n[^qc][^\n]*", ""):gsub("^name[^\n]*", ""):gsub("\ncluster[^\n]*", ""))
        end
        assert.matches("^\nqueue waiting\t2\nqueue oldest\t%d+%.%d\nqueue ready\t2\nqueue delayed\t1\n"
                       .. "queue taken\t1\nqueue dead\t1\n$", said "jobs")
        assert.equal("\ncache hits, level 1\t2\ncache loads\t1\n", said "pages")
        local found = json.decode(output("stat", "--json", "jobs"))
        found.queue.oldest = nil
        assert.same({ waiting = 2, ready = 2, delayed = 1, taken = 1, dead = 1 }, found.queue)
        assert.same({ l1_hits = 2, loads = 1 }, json.decode(output("stat", "--json", "pages")).cache)
        local top = output("top", "-b", "-n", "1")
        assert.matches("\ndictionary\tjobs\t[^\n]*\t%-\t2\n", top)
        assert.matches("\ndictionary\tpages\t[^\n]*\t0%.00\t%-\n", top)
    end)

    it("expects one dictionary name", function ()
        for _, case in ipairs { { {}, "no NAME was given" }, { { "a", "b" }, 'unexpected "b"' } } do
            refused(2, ("holdfast: %s\nTry \"holdfast stat --help\".\n"):format(case[2]), "stat", unpack(case[1]))
        end
    end)
end)


describe("holdfast locks", function ()
    command.fixture()

    it("prints a line for each holder, with its process and its reason", function ()
        local process = keep(HOLDERS .. "ready()")
        local pid = tostring(world.worker_of(process))
        local found = {}
        for _, row in ipairs(rows(output("locks"))) do
            assert.equal(13, #row)
            assert.equal("my_locks", row[1])
            found[row[2]] = row
        end
        local lock = found["lock\\x01\\\\"]
        assert.same({ "lock", "lock" }, { lock[3], lock[4] })
        assert.is_true(tonumber(lock[5]) > 0)
        assert.same({ pid, "ready1.lua", "-", "alive" }, { lock[6], lock[7], lock[8], lock[9] })
        assert.is_true(tonumber(lock[10]) >= 0)
        assert.is_true(tonumber(lock[11]) > 2000 and tonumber(lock[11]) <= 3000, lock[11])
        assert.same({ "0", "the nightly\\x09report" }, { lock[12], lock[13] })
        assert.same({ "rwlock", "read" }, { found.readers[3], found.readers[4] })
        assert.same({ "semaphore", "1 permit" }, { found.permits[3], found.permits[4] })
        assert.equal(1, #rows(output("locks", "--prefix", "read")))
        assert.equal(0, #rows(output("locks", "--prefix", "x")))
        assert.equal(2, #rows(output("locks", "--max", "2")))
    end)

    it("shows the token on a terminal if there is room for it, and always with --wide", function ()
        keep(HOLDERS .. "ready()")
        local token = rows(output("locks", "--prefix", "lock"))[1][5]
        local head = "^DICTIONARY +KEY +KIND +TOKEN +HOLDER"
        assert.matches(head, (world.in_terminal(200, "locks", "--color=never", {})))
        local narrow = world.in_terminal(80, "locks", "--color=never", {})
        assert.matches("^DICTIONARY +KEY +HOLDER +HELD FOR +WAITERS +WHY", narrow)
        local wide = world.in_terminal(80, "locks", "--wide", "--color=never", {})
        assert.matches(head, wide)
        assert.matches("\nmy_locks +lock\\x01\\\\ +lock +" .. token .. "  pid [^\n]* the nightly\\x09report\n", wide)
        assert.equal(token, rows(output("locks", "--wide", "--prefix", "lock"))[1][5])
    end)

    it("shows which holders are stopped or dead", function ()
        local process = keep(HOLDERS .. "ready()")
        local pid = world.worker_of(process)
        command.kill(pid, 19)
        assert(command.await(function () return rows(output("locks"))[1][9] == "stopped" end))
        keep [[ assert(require("resty.shdict").open("my_locks")); ready() ]]
        process:signal(command.KILL)
        command.kill(pid, command.KILL)
        assert(command.await(function () return rows(output("locks"))[1][9] == "dead" end))
        assert.equal("dead", json.decode(output("locks", "--json")).locks[1].holders[1].state)
    end)

    it("shows as a tree which process waits for which", function ()
        world.hold("my_locks", "outer", "--why", "a reason")
        local second = command.start("lock", "my_locks", "inner", "--", command.program, "lock", "my_locks", "outer",
                                     "--", "true")
        assert(command.await(function () return output("locks"):find("\tinner\t", 1, true) end), second:err())
        command.start("lock", "my_locks", "inner", "--", "true")
        local text
        assert(command.await(function ()
            text = output("locks", "--waiting")
            return select(2, text:gsub("has waited for", "")) == 2
        end), text)
        local parent, holder = text:match(
            "^my_locks outer has been held by pid %d+ %(sh%) for [%d.]+ s: a reason\n"
            .. "  pid %d+ %(true%), child of pid (%d+), has waited for [%d.]+ s\n"
            .. "    my_locks inner has been held by pid (%d+) %(holdfast%) for [%d.]+ s\n"
            .. "      pid %d+ %(true%) has waited for [%d.]+ s\n$")
        assert.truthy(parent, text)
        assert.equal(holder, parent)
        assert.truthy(world.in_terminal(100, "locks", "-w", "--color=never", {}):find("   └─ my_locks inner", 1, true))
        local waiting = json.decode(output("locks", "--waiting", "--json")).locks
        assert.equal(2, #waiting)
        assert.equal(1, waiting[1].waiter_count)
        assert.is_false(waiting[1].waiters[1].watches)
        assert.equal(json.null, waiting[1].waiters[1].child_of)
        assert.equal(tonumber(holder), waiting[2].waiters[1].child_of)
    end)

    it("shows equal waiters in one line", function ()
        world.hold("my_locks", "key")
        for _ = 1, 5 do
            command.start("lock", "my_locks", "key", "--", "true")
        end
        command.start("lock", "my_locks", "key", "--", "cat")
        local text
        assert(command.await(function ()
            text = output("locks", "--waiting")
            return text:find "5 × true" and text:find "cat"
        end), text)
        local lines = {}
        for line in text:gmatch "[^\n]+" do
            lines[line:match "^ *(%S)"] = line
        end
        assert.matches("^  5 × true %(pid %d+, %d+, %d+, …%) have waited, the longest for [%d.]+ s$", lines["5"])
        assert.matches("^  pid %d+ %(cat%) has waited for [%d.]+ s$", lines.p)
        assert.equal(6, #json.decode(output("locks", "--waiting", "--json")).locks[1].waiters)
    end)

    it("shows children that wait for a lock of their parent as one cycle", function ()
        local inner = ("for i in 1 2 3; do '%s' lock my_locks a -- true & done; wait"):format(command.program)
        command.start("lock", "my_locks", "a", "--", "sh", "-c", inner)
        local text
        assert(command.await(function ()
            text = output("locks", "--waiting")
            return text:find "3 × true"
        end), text)
        assert.matches("^a command waits for its child, which waits for the command:\n"
                       .. "  my_locks a has been held by pid %d+ %(sh%) for [%d.]+ s\n"
                       .. "    3 × true %(pid %d+, %d+, %d+%), children of pid %d+, have waited, "
                       .. "the longest for [%d.]+ s\n$",
                       text)
        local _, found = run "doctor"
        assert.equal(1, #rows(found))
    end)

    for _, options in ipairs { { "-x", "-x" }, { "-x", "-s" }, { "-s", "-x" }, { "--permits=1", "-s" } } do
        it(("shows nested commands with %s and %s that wait for each other as a deadlock, and so does doctor"):format(
            unpack(options)), function ()
            for i, keys in ipairs { { "a", "b" }, { "b", "a" } } do
                local inner = ("touch '%s'; until [ -e '%s' ]; do sleep 0.02; done; "):format(
                    command.path("has" .. i), command.path "go")
                    .. ("'%s' lock %s my_locks %s -- true"):format(command.program, options[2], keys[2])
                command.start("lock", options[1], "my_locks", keys[1], "--", "sh", "-c", inner)
            end
            assert(command.await(function () return command.read "has1" and command.read "has2" end))
            command.write("go", "")
            local text
            assert(command.await(function ()
                text = output("locks", "--waiting")
                return select(2, text:gsub("has waited for", "")) == 2
            end), text)
            local one, of_other, other, of_one = text:match(
                "^2 commands wait for each other, so none can proceed:\n"
                .. "  my_locks a has been held by pid (%d+) %(sh%) for [%d.]+ s\n"
                .. "    pid %d+ %(true%), child of pid (%d+), has waited for [%d.]+ s\n"
                .. "  my_locks b has been held by pid (%d+) %(sh%) for [%d.]+ s\n"
                .. "    pid %d+ %(true%), child of pid (%d+), has waited for [%d.]+ s\n$")
            assert.truthy(one, text)
            assert.same({ one, other }, { of_one, of_other })
            assert.matches("\n├─ my_locks a [^\n]*\n│  └─ pid [^\n]*\n└─ my_locks b [^\n]*\n   └─ pid ",
                           (world.in_terminal(100, "locks", "-w", "--color=never", {})))
            local ended, found = run("doctor")
            assert.same({ code = 1 }, ended)
            assert.matches("\ncommands wait for each other: pid %d+ %(true%) waits for my_locks b, "
                           .. "and its parent command holds my_locks a", "\n" .. found:gsub("warning\t%-?\t?", ""))
        end)
    end

    it("does not wait for a process that is stopped inside a dictionary", function ()
        local process = keep [[
            local dict = assert(require("resty.shdict").open("my_locks", { size = "64k" }))
            assert(keep(require("resty.lock"):new("my_locks", { exptime = 3000 })):lock("key"))
            ready()
            while true do
                dict:set("hot", ("x"):rep(20000))
            end
        ]]
        local pid = world.worker_of(process)
        -- Stops the process at an arbitrary point in its loop. Most of the time, it is then inside the dictionary.
        for _ = 1, 20 do
            command.kill(pid, 19)
            local begin = command.now()
            assert.equal("key", rows(output("locks"))[1][2])
            assert.equal(1, #rows(output("ls")))
            assert.is_true(command.now() - begin < 20, "waited")
            command.kill(pid, 18)
        end
    end)
end)


describe("Reading a runtime directory", function ()
    command.fixture()

    local LOOKS = { { "ls" }, { "ls", "-p" }, { "stat", "my_locks" }, { "locks" }, { "locks", "--waiting" },
                    { "get", "my_locks", "value" }, { "keys", "my_locks" }, { "ttl", "my_locks", "value" },
                    { "doctor" } }

    it("changes nothing, even if all its processes are dead", function ()
        local process = keep(HOLDERS .. [[ dict:set("value", 1); ready() ]])
        world.kill(process)
        local before = listing()
        for _, words in ipairs(LOOKS) do
            local ended, out, err = run(unpack(words))
            assert.is_true(ended.code == 0 or (words[1] == "doctor" and ended.code == 1), out .. err)
            assert.equal(before, listing(), table.concat(words, " "))
        end
        assert.matches("my_locks", output("ls"))
        run("prune")
        assert.matches("my_locks", output("ls")) -- the dictionary still exists
    end)

    it("reports that no program has used it yet, and creates nothing", function ()
        local unused = "no program uses holdfast here yet (" .. command.world() .. ")"
        local others = "choose another directory with --dir, or another user with --user"
        for _, words in ipairs { { "ls" }, { "ls", "-p" }, { "locks" }, { "locks", "-w" } } do
            local ended, out, err = run(unpack(words))
            assert.same({ { code = 0 }, "", ("holdfast: %s; %s\n"):format(unused, others) }, { ended, out, err })
            assert.equal("", (select(3, run(unpack(words), "--json"))))
        end
        assert.equal(("note\t-\t%s\t%s\n"):format(unused, others), output "doctor")
        assert.equal(("note: %s\n    %s\n"):format(unused, others), (world.in_terminal(200, "doctor", "--color=never")))
        assert.same({ directory = command.world(), dictionaries = {} }, json.decode(output("ls", "--json")))
        assert.same({ directory = command.world(), locks = {} }, json.decode(output("locks", "--json")))
        assert.equal("ok", json.decode(output("doctor", "--json")).status)
        assert.equal("total 0", listing())
        local later = { HOLDFAST_DIR = command.world() .. "/later" }
        assert.truthy(output("doctor", later):find("yet (" .. later.HOLDFAST_DIR .. ")", 1, true))
    end)

    it("refuses to read a missing dictionary, or a missing directory that --dir names", function ()
        for _, words in ipairs { { "ls", "my_locks" }, { "locks", "my_locks" }, { "top", "-b", "my_locks" },
                                 { "stat", "my_locks" }, { "get", "my_locks", "value" }, { "keys", "my_locks" } } do
            refused(2, "there is no " .. command.world() .. "/processes", unpack(words))
        end
        assert.equal("total 0", listing())
        local missing = command.world() .. "/missing"
        for _, words in ipairs(LOOKS) do
            words = { words[1], "--dir", missing, unpack(words, 2) }
            local ended, out, err = run(unpack(words))
            assert.same({ code = 2 }, ended)
            assert.truthy((out .. err):find("there is no runtime directory " .. missing, 1, true), out .. err)
        end
        assert.is_nil(command.read(missing .. "/processes"))
    end)

    it("uses the directory of --dir", function ()
        keep(MEMBERS .. "ready()")
        local directory = command.world()
        assert.equal(2, #rows(output("ls", "--dir", directory, { HOLDFAST_DIR = "/nowhere" })))
    end)

    it("refuses a directory with a different layout, and reports the layout", function ()
        keep(MEMBERS .. "ready()")
        world.overwrite("processes", 8, "\99\0\0\0")
        for _, name in ipairs { "ls", "locks" } do
            refused(2, "has layout version 99, but this library uses", name)
        end
    end)

    it("as a different user requires root, and switches to that user", function ()
        if shell.output "id -u" ~= "0" then
            refused(2, 'cannot become user "root": only root can', "ls", "--user", "root")
            return
        end
        refused(2, 'holdfast: there is no user "no such user": expected a name, or a number from 0 to 4294967294\n',
                "ls", "--user", "no such user")
        refused(2, 'there is no user "4294967296"', "ls", "--user", "4294967296")
        -- This user has no name on this machine, as it may happen in a container.
        local err = select(3, run("ls", "--user", "4294967294"))
        assert.is_nil(err:find("there is no user", 1, true), err)
        -- The directory belongs to the user nobody, but the process that uses it was root, so only root may see its
        -- open files.
        local folder = shell.output "mktemp -d /var/tmp/holdfast-spec.XXXXXX"
        local directory = command.world() .. ".nobody"
        os.execute(("chmod 755 %s && cp -r lua %s && cp %s %s && chmod -R a+rX %s"):format(
            folder, folder, command.program:gsub("holdfast$", "libholdfast.so"), folder, folder))
        os.execute(("mkdir -m 700 %s && chown nobody: %s"):format(directory, directory))
        local script = command.write("member.lua", ([[
            local ffi = require "ffi"
            ffi.cdef "int setgid(int); int setuid(int);"
            assert(ffi.C.setgid(65534) == 0 and ffi.C.setuid(65534) == 0)
            assert(require("resty.shdict").open("of_nobody", { size = "64k" }))
            local lock = require("resty.lock"):new("of_nobody", { exptime = 600 })
            assert(lock:lock("key"))
            io.open("%s/ready", "w"):close()
            while true do require("resty.holdfast.scheduler").sleep(0.1) end
        ]]):format(directory))
        local member = command.start(script, { PROGRAM = shell.output "command -v luajit", HOLDFAST_DIR = directory,
                                               LUA_PATH = folder .. "/lua/?.lua;;",
                                               HOLDFAST_LIB = folder .. "/libholdfast.so" })
        assert(command.await(function () return command.read(directory .. "/ready") or member:wait(0) end))
        assert.is_nil(member.status, member:err())
        refused(2, " belongs to user 65534; run this with --user 65534", "ls", "--dir", directory)
        local row = rows(output("ls", "--dir", directory, "--user", "nobody"))[1]
        assert.same({ "of_nobody", tostring(member.pid) }, { row[1], row[9] })
        assert.equal("key", rows(output("locks", "--dir", directory, "--user", "65534"))[1][2])
        member:signal(command.KILL)
        os.execute(("rm -rf %s %s"):format(directory, folder))
    end)
end)
