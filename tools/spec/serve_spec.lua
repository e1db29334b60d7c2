-- Tests `holdfast serve`. Its metrics must be the same as the Lua module's, and its JSON must be the same as the other
-- commands'. The server must refuse bad requests, and neither clients nor stopped processes may keep it from answering.

local command, http, json, server, shell, world =
    require "spec.support" ("command", "http", "tools/json", "tools/server", "shell", "tools/world")

local await, keep, output, run, start = command.await, world.keep, world.output, command.run, command.start
local get, serve = server.get, server.serve

local STOP, CONT = 19, 18

local MEMBERS = [[
    local shdict = require "resty.shdict"
    local cache = assert(shdict.open("cache", { size = "1m" }))
    assert(shdict.open("<script>alert(1)</script>", { size = "64k" }))
    assert(shdict.open("\255\"name", { size = "64k" }))
    for i = 1, 50 do cache:set("key" .. i, i) end
    for i = 1, 80 do cache:get("key" .. i) end
    held = require("resty.lock"):new("cache", { exptime = 3000, timeout = 0 })
    assert(held:lock("<img src=x>\255", { why = "a \"reason\"" }))
    assert(not require("resty.lock"):new("cache", { exptime = 3000, timeout = 0.01 }):lock("<img src=x>\255"))
]]


-- Requests a path from the server. Returns the decoded JSON. The request must succeed.
local function api(port, path)
    local body, status = get(port, "/api/v1/" .. path)
    assert.equal(200, status, body)
    return json.decode(body)
end

-- Returns the port of a server in a runtime directory that has these processes.
local function serve_members(...)
    keep(MEMBERS .. "ready()")
    return (select(2, serve(...)))
end

-- Returns the number of dictionaries that cannot be opened, according to a new server.
local function refused()
    local process, port = serve()
    local body = get(port, "/metrics")
    process:signal(command.TERM)
    return tonumber(body:match "\nholdfast_dictionaries_unreadable (%d+)\n")
end

-- Returns the samples in the history, from this number on.
local function samples(port, from)
    local history, all = api(port, "history/" .. (from or 0)), {}
    for _, chunk in ipairs(history.chunks) do
        for _, sample in ipairs(chunk) do
            all[#all + 1] = sample
        end
    end
    return all, history
end

-- Returns a dictionary's entries in the samples. For each sample, an entry contains the used memory in per mille, hits,
-- misses, held locks, waiters, the beginnings of the longest hold and wait, and new waits. If the first element is an
-- object, it is a new name.
local function entries_of(port, name)
    local found, number, names = {}, nil, 0
    for _, sample in ipairs((samples(port))) do
        for i = 4, #sample do
            local entry = sample[i]
            if type(entry[1]) == "table" then
                number = entry[1].name == name and names or number
                names = names + 1
            end
            if type(entry[1]) == "table" and entry[1].name == name or entry[1] == number then
                found[#found + 1] = { select(2, unpack(entry)) }
            end
        end
    end
    return found
end

local function fields(object)
    local names = {}
    for name in pairs(object) do
        names[name] = true
    end
    return names
end

local function status_of(port, text)
    return tonumber(http.answer_to(port, text):match "^HTTP/1.1 (%d+) ")
end


describe("holdfast serve", function ()
    before_each(command.set_up)
    after_each(function ()
        http.clean_up()
        command.tear_down()
    end)

    it("has the same metrics as the Lua module, with the same values", function ()
        keep(MEMBERS .. ([[
            local jobs = assert(require("resty.holdfast.queue").open("jobs", { size = "100k", max_attempts = 1 }))
            for i = 1, 4 do jobs:push(i, { delay = i == 1 and 3000 or nil }) end
            jobs:take(0)
            jobs:take(0):retry()
            local pages = assert(require("resty.holdfast.cache").new("pages", "pages", { size = "100k" }))
            for _ = 1, 2 do pages:get("one", nil, function () return 1 end) end
            pages:get("two", nil, error)
            pages.publish_at = 0
            pages:get("three", nil, error)
            local file = io.open("%s", "w")
            file:write((assert(require("resty.holdfast.prometheus").metrics())))
            file:close()
            ready()
        ]]):format(command.path "metrics"))
        local _, port = serve()
        local body, status, head = get(port, "/metrics")
        assert.equal(200, status)
        assert.matches("\r\nContent%-Type: text/plain; version=0%.0%.4; charset=utf%-8\r\n", head)
        local function without_times(text)
            text = text:gsub("\n(holdfast_lock_longest_%a+_seconds{.-}) [%d.e-]+", "\n%1")
                       :gsub("\n(holdfast_queue_oldest_seconds{.-}) [%d.e-]+", "\n%1")
            -- Both sides read the counts of caches and queues, and these reads count as hits.
            return (text:gsub('\n(holdfast_dictionary_hits_total{dictionary="[jp][oa][bg][%a.]+"}) %d+', "\n%1"))
        end
        assert.equal(without_times(command.read "metrics"), without_times(body))
        local hold = '\nholdfast_lock_longest_hold_seconds{dictionary="cache",waiters="no"} (%d+%.%d+)\n'
        assert.is_true(tonumber(body:match(hold)) >= tonumber(command.read "metrics":match(hold)))
        assert.truthy(body:find('holdfast_dictionary_hits_total{dictionary="cache"} 50\n', 1, true))
        assert.truthy(body:find('holdfast_locks_held{dictionary="cache",kind="lock"} 1\n', 1, true))
        for _, sample in ipairs { 'queue_waiting{dictionary="jobs"} 1', 'queue_jobs{dictionary="jobs",state="ready"} 1',
                                  'queue_jobs{dictionary="jobs",state="delayed"} 1',
                                  'queue_jobs{dictionary="jobs",state="taken"} 1',
                                  'queue_jobs{dictionary="jobs",state="dead"} 1',
                                  'cache_hits_total{dictionary="pages",level="1"} 1',
                                  'cache_loads_total{dictionary="pages"} 2',
                                  'cache_load_errors_total{dictionary="pages"} 1' } do
            assert.truthy(body:find("\nholdfast_" .. sample .. "\n", 1, true), sample)
        end
    end)

    it("counts the dictionaries that cannot be opened: overwritten, or deleted while in use", function ()
        keep(MEMBERS .. "ready()")
        assert.equal(0, refused())
        os.execute(("rm %s/cache.dict"):format(command.world()))
        assert.equal(1, refused())
        command.write(command.world() .. "/none.dict", "nothing")
        assert.equal(2, refused())
    end)

    it("counts the dictionaries in use whose process table was deleted", function ()
        keep [[
            assert(require("resty.shdict").open("cache", { size = "64k" }))
            assert(require("resty.shdict").open("temporary", { size = "64k", persist = false }))
            ready()
        ]]
        local _, port = serve()
        local function shows(count)
            return get(port, "/metrics"):find("\nholdfast_dictionaries_unreadable " .. count .. "\n", 1, true)
        end
        assert.truthy(shows(0))
        os.remove(command.world() .. "/processes")
        assert.truthy(await(function () return shows(2) end))
        assert.equal(503, (select(2, get(port, "/api/v1/dictionaries"))))
        run("run", "--workers", "1", command.write("come.lua", [[ require("resty.shdict").open("cache") ]]))
        assert.is_not_nil(command.read(command.world() .. "/processes"))
        assert.equal(2, refused())
    end)

    it("counts a dictionary that was deleted while only a command had locks in it", function ()
        local holder = start("lock", "-F", "jobs", "key", "--", "sleep", "3600")
        assert(await(function () return command.read("/proc/" .. holder.pid .. "/comm") == "sleep\n" end))
        assert.equal(0, refused())
        os.execute(("rm %s/jobs.dict"):format(command.world()))
        assert.equal(1, refused())
        holder:signal(command.KILL)
        holder:wait()
        assert.equal(0, refused())
    end)

    it("has metrics that promtool accepts", function ()
        if not shell.succeeds "command -v promtool >/dev/null" then
            return pending "promtool is not installed"
        end
        local port = serve_members("--keys", "5")
        local body = get(port, "/metrics")
        local waits = 'holdfast_key_waits_total{dictionary="cache",kind="lock",key="<img src=x>%FF"} 1\n'
        assert.truthy(body:find(waits, 1, true))
        command.write("metrics", body)
        local ended, out, err = run("-c", "promtool check metrics <'" .. command.path "metrics" .. "'",
                                    { PROGRAM = "/bin/sh" })
        assert.same({ { code = 0 }, "", "" }, { ended, out, err })
    end)

    it("adds up long keys that begin with the same 72 bytes, so that each series appears only once", function ()
        keep [[
            local resty_lock = require "resty.lock"
            assert(require("resty.shdict").open("cache", { size = "64k" }))
            for _, ending in ipairs { "one", "two", "" } do
                local key = ("k"):rep(72) .. ending
                local lock = resty_lock:new("cache")
                assert(lock:lock(key))
                assert(not resty_lock:new("cache", { timeout = 0.01 }):lock(key))
                assert(lock:unlock())
            end
            ready()
        ]]
        local _, port = serve("--keys", "64")
        local body = get(port, "/metrics")
        local labels = '{dictionary="cache",kind="lock",key="' .. ("k"):rep(72) .. '"} '
        local seen = {}
        for line in body:gmatch "(holdfast_key[^\n]*)\n" do
            local series, value = line:match "^(.*) ([^ ]*)$"
            assert.is_nil(seen[series .. " "])
            seen[series .. " "] = tonumber(value)
        end
        assert.equal(3, seen["holdfast_key_waits_total" .. labels])
        assert.is_true(seen["holdfast_key_wait_seconds_total" .. labels] >= 0.03)
    end)

    it("does not count dead waiters", function ()
        keep [[
            assert(require("resty.shdict").open("cache", { size = "64k" }))
            assert(keep(require("resty.lock"):new("cache", { exptime = 3000 })):lock("key"))
            ready()
        ]]
        local waiters = {}
        for i = 1, 2 do
            waiters[i] = start("lock", "cache", "key", "--", "true")
        end
        local function shows(count)
            local _, port = serve()
            return get(port, "/metrics"):find('\nholdfast_lock_waiters{dictionary="cache"} ' .. count .. "\n", 1, true)
        end
        assert(await(function () return world.rows(output("locks"))[1][12] == "2" end))
        assert.truthy(shows(2))
        waiters[1]:signal_group(command.KILL)
        waiters[1]:wait()
        assert.truthy(await(function () return shows(1) end))
    end)

    it("serves OpenMetrics to a request that accepts it", function ()
        local port = serve_members()
        local body, _, head = get(port, "/metrics", "-H", "Accept: application/openmetrics-text;version=1.0.0")
        assert.matches("\r\nContent%-Type: application/openmetrics%-text; version=1%.0%.0; charset=utf%-8\r\n", head)
        assert.matches("\n# EOF\n$", body)
        assert.truthy(body:find("# TYPE holdfast_dictionary_hits counter\n", 1, true))
    end)

    it("serves the objects of ls, stat, locks and doctor", function ()
        local port = serve_members()
        local found, wanted = api(port, "dictionaries"), json.decode(output("ls", "--json"))
        assert.same({ wanted.directory, json.null }, { found.directory, found.note })
        assert.equal(#wanted.dictionaries, #found.dictionaries)
        for i, dictionary in ipairs(wanted.dictionaries) do
            found.dictionaries[i].memory = dictionary.memory
            assert.same(dictionary, found.dictionaries[i])
        end
        local one = api(port, "dictionaries/cache")
        assert.equal(51, one.entries)
        assert.same(fields(json.decode(output("stat", "cache", "--json"))), fields(one))
        assert.equal("\\xFF\"name", api(port, "dictionaries/%FF%22name").name)
        local lock, of_command = api(port, "locks").locks[1], json.decode(output("locks", "--json")).locks[1]
        assert.equal("<img src=x>\\xFF", lock.key)
        assert.same(fields(of_command), fields(lock))
        assert.same(fields(of_command.holders[1]), fields(lock.holders[1]))
        assert.equal('a "reason"', lock.holders[1].why)
        assert.same(json.decode(output("doctor", "--json")).findings, api(port, "doctor").findings)
    end)

    it("serves lock wait times and contended keys", function ()
        local port = serve_members()
        local waited
        for _, dictionary in ipairs(api(port, "histograms").dictionaries) do
            waited = dictionary.name == "cache" and dictionary.lock.waited or waited
        end
        assert.equal(1, waited.count)
        assert.is_true(waited.max >= 0.005 and waited.buckets[1].le >= 0.005)
        local key = api(port, "contention").keys[1]
        assert.same({ "cache", "<img src=x>\\xFF", "3C696D67207372633D783EFF", 1, 1 },
                    { key.dictionary, key.key, key.key_hex, key.waits, key.timeouts })
    end)

    it("has a page that runs only its own scripts, and never interprets text as HTML", function ()
        local _, port = serve()
        local body, status, head = get(port, "/")
        assert.equal(200, status)
        assert.truthy(head:find("Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
                                .. "connect-src 'self'; img-src 'self'; base-uri 'none'", 1, true))
        assert.truthy(head:find("X-Content-Type-Options: nosniff", 1, true))
        for path in body:gmatch '[hs]re?[fc]="([^"#]*)"' do
            assert.matches("^/[%w.]+$", path)
            assert.equal(200, (select(2, get(port, path))), path)
        end
        for _, name in ipairs { "page", "dom", "charts", "graph", "history" } do
            local script = get(port, "/" .. name .. ".js")
            assert.falsy(script:find "innerHTML" or script:find "outerHTML" or script:find "insertAdjacentHTML"
                         or script:find "document%.write" or script:find "eval%(" or script:find "https?://[^w]")
        end
    end)

    it("answers HEAD with only the header", function ()
        local _, port = serve()
        local answer = http.answer_to(port, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert.matches("^HTTP/1.1 200 OK\r\n", answer)
        assert.matches("\r\n\r\n$", answer)
        assert.is_true(tonumber(answer:match "Content%-Length: (%d+)") > 1000)
        for status, path in pairs { [400] = "none", [404] = "/none" } do
            answer = http.answer_to(port, ("HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\n"):format(path))
            assert.matches("^HTTP/1.1 " .. status .. " .*\r\n\r\n$", answer)
        end
    end)

    it("refuses other methods, hosts and paths, and invalid requests", function ()
        local _, port = serve()
        local _, status, head = get(port, "/metrics", "-X", "POST", "-d", ("x"):rep(20000))
        assert.equal(405, status)
        assert.matches("\r\nAllow: GET, HEAD\r\n", head)
        local asked = "GET / HTTP/1.1\r\nHost: %s\r\n\r\n"
        for _, name in ipairs { "localhost", "LOCALHOST:80", "127.0.0.1:9145", "127.1.2.3", "[::1]:9145" } do
            assert.equal(200, status_of(port, asked:format(name)), name)
        end
        for _, name in ipairs { "evil.example", "127.0.0.1.evil.example", "localhost.evil", "127.0.0.1:x", "[::2]", "",
                                "127.0.0.1:80.evil", "[::1" } do
            assert.equal(403, status_of(port, asked:format(name)), name)
        end
        assert.equal(404, (select(2, get(port, "/none"))))
        assert.equal(404, (select(2, get(port, "/../etc/passwd"))))
        assert.equal(400, status_of(port, "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"))
        assert.equal(400, status_of(port, "GET /\r\n\r\n"))
        assert.equal(400, status_of(port, "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        assert.equal(400, status_of(port, "\0\255\r\n\r\n"))
        assert.equal(431, status_of(port, "GET /" .. ("x"):rep(9000)))
    end)

    it("accepts a target with the server's name, in the form that clients send to a proxy", function ()
        local port = serve_members()
        local asked = "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n"
        for _, target in ipairs { "http://localhost:9145/metrics", "HTTP://127.0.0.1/metrics", "http://localhost",
                                  "http://[::1]:9145?query", "http://localhost/api/v1/locks?query" } do
            assert.equal(200, status_of(port, asked:format(target, "localhost")), target)
        end
        -- The host in the target takes precedence over the header Host.
        assert.equal(403, status_of(port, asked:format("http://evil.example/metrics", "localhost")))
        assert.equal(404, status_of(port, asked:format("http://localhost/none", "localhost")))
        for _, target in ipairs { "http:///metrics", "http://", "https://localhost/", "localhost/", "*" } do
            assert.equal(400, status_of(port, asked:format(target, "localhost")), target)
        end
    end)

    it("requires the token of --token-file for everything except the page", function ()
        local token = command.write("token", ("0123456789abcdef"):rep(2) .. "\n")
        os.execute("chmod 600 " .. token)
        local port = serve_members("--token-file", token)
        local secret = "Authorization: Bearer " .. ("0123456789abcdef"):rep(2)
        for _, path in ipairs { "/metrics", "/api/v1/doctor", "/api/v1/history", "/none" } do
            local _, status, head = get(port, path)
            assert.equal(401, status)
            assert.matches("\r\nWWW%-Authenticate: Bearer", head)
            for _, wrong in ipairs { secret .. "0", secret:sub(1, -2), (secret:gsub("Bearer", "Basic")),
                                     secret:sub(1, 22), secret:upper() } do
                assert.equal(401, (select(2, get(port, path, "-H", wrong))), wrong)
            end
        end
        assert.equal(200, (select(2, get(port, "/metrics", "-H", secret))))
        assert.equal(200, (select(2, get(port, "/"))))
        assert.equal(403, (select(2, get(port, "/metrics", "-H", secret, "-H", "Host: evil.example"))))
    end)

    it("refuses bad addresses and token files, with a reason", function ()
        local function refusal(...)
            return world.refused(2, "", "serve", ...)
        end
        for _, bad in ipairs { "9145", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:x", "example.com:80",
                               "::1:80", "[::1]", ":80", "[127.0.0.1]:80" } do
            assert.matches('^holdfast: bad address ".*": expected IP:PORT', refusal("--listen", bad))
        end
        assert.matches("other machines can reach \"0%.0%.0%.0:0\"; require a token",
                       refusal("--listen", "0.0.0.0:0"))
        assert.matches("other machines can reach", refusal("--listen", "[::]:0"))
        local file = command.write("token", ("x"):rep(20))
        os.execute("chmod 640 " .. file)
        assert.matches("is open to other users %(mode 0640%); run chmod 600 on it", refusal("--token-file", file))
        os.execute("chmod 600 " .. command.write("token", "short"))
        assert.matches("expected one line of 16 to 512 printable", refusal("--token-file", file))
        assert.matches("No such file", refusal("--token-file", "/nowhere/token"))
        -- A regression test: the server used to start without a token.
        assert.matches("token%-file: no FILE was given", refusal("--token-file", ""))
        assert.matches("token%-file: no FILE was given", refusal("--token-file="))
        -- The message must not suggest chmod for a file that is not a token file.
        assert.matches('token file "/tmp" is not a regular file', refusal("--token-file", "/tmp"))
        assert.matches("expected one line of 16 to 512", refusal("--token-file", "/etc/passwd"))
        assert.matches("bad number \"65\": expected 0 to 64", refusal("--keys", "65"))
        local _, port = serve()
        assert.matches("^holdfast: cannot listen on 127%.0%.0%.1:" .. port .. ": Address already in use\n$",
                       refusal("--listen", "127.0.0.1:" .. port))
    end)

    it("answers while 200 connections are silent, and while there are more connections than slots", function ()
        local port = serve_members()
        for _ = 1, 7 do
            for _ = 1, 50 do  -- the listen queue does not have room for more connections
                http.connect(port)
            end
            assert.equal(200, (select(2, get(port, "/metrics"))))
        end
    end)

    it("keeps one copy of a long document for 250 idle readers, and truncates documents and keys", function ()
        keep [[
            local resty_lock = require "resty.lock"
            assert(require("resty.shdict").open("cache", { size = "32m" }))
            held = {}
            for i = 1, 1000 do
                held[i] = assert(resty_lock:new("cache", { exptime = 3000 }))
                assert(held[i]:lock(("%04d"):format(i) .. ("\255"):rep(9000)))
            end
            ready()
        ]]
        local process, port = serve()
        local found = api(port, "locks")
        assert.equal(1000, found.count)
        assert.is_true(found.truncated)
        assert.is_true(#found.locks > 300 and #found.locks < 1000)
        assert.equal(9004, found.locks[1].key_length)
        assert.equal(2 * 1024, #found.locks[1].key_hex)
        assert.is_false(api(port, "dictionaries").truncated)
        local readers = start(command.write("readers.py", [[
import socket, sys
readers = []
for i in range(250):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(60)
    s.connect(("127.0.0.1", int(sys.argv[1])))
    s.sendall(b"GET /api/v1/locks HTTP/1.1\r\nHost: localhost\r\n\r\n")
    readers.append(s)
assert all(s.recv(12) == b"HTTP/1.1 200" for s in readers)
print("all read", flush=True)
sys.stdin.read()
]]), tostring(port), { PROGRAM = "/usr/bin/python3" })
        local said = await(function ()
            return (readers:out() or ""):match "^.*\n" or readers:wait(0) and ""
        end, 60)
        assert.equal("all read\n", said, readers:err())
        local status = shell.output("cat /proc/" .. process.pid .. "/status")
        assert.is_true(tonumber(status:match "VmHWM:%s*(%d+) kB") < 64 * 1024, status)
        assert.equal(200, (select(2, get(port, "/metrics"))))
    end)

    it("exits immediately with 0 on TERM and INT, even while one client is silent and another waits", function ()
        keep(MEMBERS .. "ready()")
        for _, signal in ipairs { command.TERM, command.INT } do
            local process, port = serve()
            http.connect(port)
            http.connect(port):send "/api/v1/doctor"
            process:signal(signal)
            assert.same({ code = 0 }, process:wait(10))
        end
    end)

    it("notices a runtime directory that is created later, recreated dictionaries, and the directory's end", function ()
        local _, port = serve()
        local unused = "no program uses holdfast here yet"
        assert.same({ unused, {} }, { api(port, "dictionaries").note, api(port, "dictionaries").dictionaries })
        assert.same({ 0, {} }, { api(port, "locks").count, api(port, "locks").locks })
        assert.same({ {}, {} }, { api(port, "histograms").dictionaries, api(port, "contention").keys })
        assert.matches("^" .. unused, api(port, "doctor").findings[1].sentence)
        assert.equal("ok", api(port, "doctor").status)
        local body, status = get(port, "/metrics")
        assert.same({ 200, "\nholdfast_dictionaries_unreadable 0\n" }, { status, body:match "\n[^#\n]*\n$" })
        local function has(size)
            return await(function ()
                local text, code = get(port, "/api/v1/dictionaries/again")
                return size and code == 200 and json.decode(text).size == size or not size and code ~= 200
            end)
        end
        local make = [[
            assert(require("resty.shdict").open("again", { size = "%s" }))
            ready()
        ]]
        local process = keep(make:format "64k")
        assert.is_true(has(65536))
        output("rm", "-f", "again")
        assert.is_true(has(nil))
        process:signal_group(command.KILL)
        process:wait()
        keep(make:format "128k")
        assert.is_true(has(131072))
    end)

    it("keeps earlier events for clients that ask later: waits, and who held the lock", function ()
        keep [[ assert(require("resty.shdict").open("jobs", { size = "64k" })) ready() ]]
        local _, port = serve()
        local holder = start("lock", "jobs", "<b>\255", "--why", "weekly full", "--", "sleep", "4")
        assert.truthy(await(function () return #world.rows(output("locks")) == 1 end))
        assert.same({ code = 0 }, (start("lock", "jobs", "<b>\255", "--", "true"):wait(10)))
        holder:wait()
        local function waits()
            local found = {}
            for _, entry in ipairs(entries_of(port, "jobs")) do
                for i = 1, #(entry[8] or {}), 2 do
                    found[#found + 1] = { row = entry[8][i], count = entry[8][i + 1] }
                end
            end
            return found
        end
        -- A new sample appears after a second or two.
        assert.truthy(await(function () return #waits() > 0 end))
        assert.same({ { row = 10, count = 1 } }, waits())
        local _, history = samples(port)
        assert.same({ 3, 10, json.null }, { select(10, unpack(history.bounds)) })
        local long
        for _, sample in ipairs((samples(port))) do
            local seen = type(sample[3]) == "table" and sample[3][1]
            if seen and seen[4].holder.program ~= "true" then  -- false while the second command holds the lock
                long = seen[3] == 1 and seen or long
            end
        end
        assert.same({ "jobs", "<b>\\xFF", "3C623EFF" }, { long[4].dictionary, long[4].key, long[4].key_hex })
        assert.same({ "sleep", "weekly full" }, { long[4].holder.program, long[4].holder.why })
        assert.equal(1, long[3])
    end)

    it("returns all samples from a given number on, even if no client has asked for some time", function ()
        local _, port = serve()
        assert.truthy(await(function () return #samples(port) >= 2 end))
        local all, history = samples(port)
        for i, sample in ipairs(all) do
            assert.equal(i, sample[1])
            assert.is_true(sample[2] <= history.uptime and sample[2] >= (all[i - 1] or { 0, 0 })[2])
        end
        assert.is_true(math.abs(history.time - history.uptime - history.started) < 1)
        assert.equal(0, history.left_out)
        assert.is_true(#samples(port, #all + 1) >= #all)  -- the chunk to which the number belongs is complete
        assert.is_true(#(samples(port, "18446744073709551615")) >= #all)
        for _, bad in ipairs { "history/", "history/x", "history/-1", "history/1x", "history/18446744073709551616",
                               "history/1/2", "historyx" } do
            assert.equal(404, (select(2, get(port, "/api/v1/" .. bad))), bad)
        end
    end)

    it("reports that nothing is known about the time during which the server was stopped", function ()
        local process, port = serve()
        assert.truthy(await(function () return #samples(port) >= 2 end))
        process:signal(STOP)
        command.sleep(7.5)
        process:signal(CONT)
        local all = samples(port)
        assert.truthy(await(function ()
            all = samples(port)
            return all[#all][2] > 7.5
        end))
        local unknown = {}
        for i, sample in ipairs(all) do
            unknown[#unknown + 1] = #sample == 2 and i or nil
        end
        assert.equal(1, #unknown)
        local before, after = all[unknown[1] - 1][2], all[unknown[1] + 1][2]
        assert.is_true(all[unknown[1]][2] - before < 1.1 and after - before > 6, before .. " " .. after)
    end)

    it("keeps in its history dictionaries that are removed and created again, whatever their names", function ()
        local _, port = serve()
        local make = [[
            local dict = assert(require("resty.shdict").open("</script>\"", { size = "%s" }))
            for i = 1, %d do dict:set(i, i) dict:get(i) end
            ready()
        ]]
        local process = keep(make:format("64k", 50))
        local function last()
            local entries = entries_of(port, '</script>"')
            return entries[#entries], entries
        end
        assert.truthy(await(last))
        assert.equal(0, last()[2], "reads before the first sample are not counted")
        output("rm", "-f", '</script>"')
        assert.truthy(await(function () return #last() == 0 end))
        process:signal_group(command.KILL)
        process:wait()
        keep(make:format("128k", 300))
        assert.truthy(await(function () return #last() > 0 end))
        for _, entry in ipairs(select(2, last())) do
            assert.is_true((entry[2] or 0) <= 300)
        end
    end)

    it("occupies no process slot, and creates no files", function ()
        local process = keep(MEMBERS .. "ready()")
        local _, port = serve()
        get(port, "/metrics")
        api(port, "doctor")
        for _, dictionary in ipairs(json.decode(output("ls", "--json", "-p")).dictionaries) do
            assert.equal(1, #dictionary.processes)
            assert.equal(world.worker_of(process), dictionary.processes[1].pid)
        end
    end)

    it("is not blocked by processes, wherever they are stopped", function ()
        local process = keep [[
            local dict = assert(require("resty.shdict").open("busy", { size = "64k" }))
            ready()
            while true do
                dict:incr("key", 1, 0)
                dict:set("list", ("x"):rep(100 + dict:get("key") % 100))
            end
        ]]
        local _, port = serve()
        local worker = world.worker_of(process)
        for _ = 1, 10 do
            command.kill(worker, STOP)
            assert.equal(200, (select(2, get(port, "/api/v1/dictionaries/busy"))))
            assert.equal(200, (select(2, get(port, "/metrics"))))
            command.kill(worker, CONT)
            command.sleep(0.02)
        end
    end)

    it("reads the runtime directory only once for all requests within a second", function ()
        local port = serve_members()
        local times, count = {}, 0
        local begin = command.now()
        for _ = 1, 20 do
            local time = api(port, "dictionaries").time
            count = count + (times[time] and 0 or 1)
            times[time] = true
        end
        assert.is_true(count <= command.now() - begin + 1, count .. " looks")
    end)
end)
