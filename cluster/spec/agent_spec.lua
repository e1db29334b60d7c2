-- Tests `holdfast agent`: its command line and configuration, how it ends, and which of two agents is active.

local command, etcd, fixture, files, process, shell =
    require "spec.support" ("command", "cluster/etcd", "fixture", "files", "process", "shell")

local await, run, said = command.await, command.run, etcd.said
local start, write = command.start, command.write

local it_has_agent = fixture.it_unless(not files.find(command.program .. "-agent") and "there is no agent" or nil)
local it_has_etcd = fixture.it_unless(etcd.missing())


-- Writes a configuration file with this mode. `fields` is the text between its braces.
local function config(fields, mode)
    local path = write("main.json", "{" .. fields .. "}")
    assert(shell.succeeds("chmod " .. (mode or "600") .. " '" .. path .. "'"))
    return path
end

-- Writes a file that a configuration may name.
local function secret(name, mode)
    local path = write(name, "secret\n")
    assert(shell.succeeds("chmod " .. (mode or "600") .. " '" .. path .. "'"))
    return path
end

-- Expects that the agent refuses these arguments with status 2 and a sentence that contains `wanted`.
local function assert_refused(wanted, ...)
    local ended, out, err = run("agent", ...)
    assert.same({ code = 2 }, ended, err)
    assert.equal("", out)
    assert.matches("^holdfast%-agent: [^\n]+\n", err)
    assert.truthy(err:find(wanted, 1, true), err .. "has no: " .. wanted)
end

local function assert_config_refused(wanted, fields)
    local path = config(fields)
    assert_refused(path .. ": " .. wanted, "main", "--config", path)
end

local URLS = '"endpoints": ["http://127.0.0.1:1"]'


describe("holdfast agent", function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    describe("refuses", function ()
        it_has_agent("a wrong command line", function ()
            for _, case in ipairs {
                { "no CLUSTER was given" },
                { 'bad cluster "a/b": expected 1 to 63', "a/b" },
                { 'bad cluster ".."', "..", "--etcd", "http://127.0.0.1:1" },
                { "--walk", "main", "--walk" },
                { '--ttl: bad time "1": expected a whole number of seconds from 2 to 3600', "main", "--ttl", "1" },
                { '--ttl: bad time "3601": expected a whole number of seconds from 2 to 3600', "main",
                  "--ttl", "3601" },
                { '--ttl: bad time "5s": expected a whole number of seconds', "main", "--ttl", "5s" },
                { '--ttl: bad time "": expected a whole number of seconds', "--ttl=", "main" },
                { "--ttl: no SECONDS was given", "main", "--ttl" },
                { "--config: no FILE was given", "--config=", "main", "--etcd", "http://127.0.0.1:1" },
                { "--etcd: no endpoints: expected URLs", "--etcd=", "main" },
                { 'unknown option "--frob": expected one of --help, ', "main", "--frob" },
                { 'unexpected "other"', "main", "other", "--etcd", "http://127.0.0.1:1" },
                { 'unexpected "--drain=3": --drain takes no value', "main", "--drain=3" },
                { 'the command line: bad endpoint "127.0.0.1:2379": expected a URL with a scheme, a host and a port, '
                  .. 'such as "https://host:2379"',
                  "main", "--etcd", "127.0.0.1:2379" },
                { 'the command line: bad endpoint "http://"', "main", "--etcd", "http://a:1,http://" },
                { 'the command line: bad namespace "a/": expected a prefix without zero bytes that does not end in "/"',
                  "main", "--etcd", "http://127.0.0.1:1", "--namespace", "a/" },
                { 'the command line: bad namespace ""', "main", "--etcd", "http://127.0.0.1:1", "--namespace", "" },
            } do
                assert_refused(unpack(case))
            end
        end)

        it_has_agent("a missing configuration, and names the alternative", function ()
            assert_refused('no configuration of cluster "no-such": cannot read /etc/holdfast/no-such.json: '
                           .. "No such file or directory; or use --etcd URL", "no-such")
            assert_refused('no configuration of cluster "main": cannot read /no/such.json: No such file or directory',
                           "main", "--config", "/no/such.json")
            assert_refused("/tmp is not a regular file", "main", "--config", "/tmp")
        end)

        it_has_agent("a file that is open to all users", function ()
            for _, mode in ipairs { "604", "602", "601", "644", "777" } do
                local path = config(URLS, mode)
                assert_refused(path .. " is open to all users: expected mode 0640 or less; run chmod o= " .. path,
                               "main", "--config", path)
            end
            for _, field in ipairs { "key", "password_file" } do
                local other = field == "key" and '"cert": "' .. secret "cert" .. '"' or '"user": "me"'
                local path = secret("secret", "644")
                assert_config_refused(field .. ": " .. path .. " is open to all users",
                                      URLS .. ("," .. '"%s": "%s", %s'):format(field, path, other))
            end
        end)

        it_has_agent("a file that is not a configuration, without a complaint about its mode", function ()
            local path = write("passwd", "root:x:0:0\n")
            local ended, _, err = run("agent", "main", "--config", path)
            assert.same({ code = 2 }, ended)
            assert.truthy(err:find(path .. ": parse error at line 1", 1, true), err)
            assert.falsy(err:find "chmod", err)
        end)

        it_has_agent("a file that is not a JSON object, and names the position", function ()
            local path = config '\n"endpoints": ["http://127.0.0.1:1",]\n'
            assert_refused(path .. ": parse error at line 2, column ", "main", "--config", path)
            write("main.json", "")
            assert_refused(path .. ": parse error at line 1, column 1: ", "main", "--config", path)
            write("main.json", "[]")
            assert_refused(path .. ": expected one JSON object, such as {", "main", "--config", path)
        end)

        it_has_agent("an unknown field, and lists the known fields", function ()
            assert_config_refused('unknown field "endpoint": expected one of ca, cert, endpoints, key, linger_ms, '
                                  .. "max_hold_ms, namespace, password_file, require_fixed_etcd, slice_ms, "
                                  .. "state_directory, ttl, user",
                                  '"endpoint": "http://127.0.0.1:1"')
        end)

        it_has_agent("a bad value of each field, and names the expected values", function ()
            for _, case in ipairs {
                { 'bad endpoints "http://a:1": expected a list of at least one string', '"endpoints": "http://a:1"' },
                { "bad endpoints []: expected a list of at least one string", '"endpoints": []' },
                { 'bad endpoint "...@h:1": expected a URL with', '"endpoints": ["http://u:secret@h:1"]' },
                { 'bad endpoint "http://h:1/v3": expected a URL with', '"endpoints": ["http://h:1/v3"]' },
                { 'bad endpoint "http://h:99999": expected a URL with', '"endpoints": ["http://h:99999"]' },
                { 'bad endpoint "ftp://h:1": expected a URL with', '"endpoints": ["ftp://h:1"]' },
                { 'bad endpoint "http://h": expected a URL with', '"endpoints": ["http://h"]' },
                { "slice_ms is 60: expected at most max_hold_ms, which is 50", URLS .. ', "slice_ms": 60' },
                { "bad endpoints [1]: expected a list of at least one string", '"endpoints": [1]' },
                { "no endpoints: expected URLs", '"ttl": 10' },
                { 'bad endpoint "a:1": expected a URL', '"endpoints": ["a:1"]' },
                { 'bad endpoint "etcd://a:1": expected a URL', '"endpoints": ["etcd://a:1"]' },
                { "bad namespace 1: expected a string", URLS .. ', "namespace": 1' },
                { 'bad namespace "": expected a prefix', URLS .. ', "namespace": ""' },
                { 'bad namespace "a/": expected a prefix', URLS .. ', "namespace": "a/"' },
                { 'bad ttl "10": expected a whole number from 2 to 3600', URLS .. ', "ttl": "10"' },
                { "bad ttl 1: expected a whole number from 2 to 3600", URLS .. ', "ttl": 1' },
                { "bad ttl 3601: expected a whole number from 2 to 3600", URLS .. ', "ttl": 3601' },
                { "bad ttl 2.5: expected a whole number from 2 to 3600", URLS .. ', "ttl": 2.5' },
                { "bad ttl 18446744073709551615: expected a whole", URLS .. ', "ttl": 18446744073709551615' },
                { "bad ttl null: expected a whole number", URLS .. ', "ttl": null' },
                { "bad slice_ms -1: expected a whole number from 0 to 60000", URLS .. ', "slice_ms": -1' },
                { "bad max_hold_ms 60001: expected a whole number from 0 to 60000", URLS .. ', "max_hold_ms": 60001' },
                { "bad linger_ms 0: expected a whole number from 1 to 60000", URLS .. ', "linger_ms": 0' },
                { "bad require_fixed_etcd 1: expected true or false", URLS .. ', "require_fixed_etcd": 1' },
                { "bad user true: expected a string", URLS .. ', "user": true' },
                { "bad password_file {}: expected a string", URLS .. ', "password_file": {}' },
                { "bad ca 1: expected a string", URLS .. ', "ca": 1' },
                { "bad cert 1: expected a string", URLS .. ', "cert": 1' },
                { "bad key 1: expected a string", URLS .. ', "key": 1' },
                { 'bad user "": expected a string that is not empty', URLS .. ', "user": ""' },
                { 'bad password_file "": expected a string that is not', URLS .. ', "password_file": ""' },
                { 'bad ca "": expected a string that is not empty', URLS .. ', "ca": ""' },
                { 'bad cert "": expected a string that is not empty', URLS .. ', "cert": "", "key": ""' },
                { 'bad key "": expected a string that is not empty', URLS .. ', "key": ""' },
                { "user and password_file: expected both or neither", URLS .. ', "user": "me"' },
                { "user and password_file: expected both or neither", URLS .. ', "password_file": "/p"' },
                { "cert and key: expected both or neither", URLS .. ', "cert": "/c"' },
                { "cert and key: expected both or neither", URLS .. ', "key": "/k"' },
                { "ca: cannot read /no/ca: No such file or directory", URLS .. ', "ca": "/no/ca"' },
                { "cert: cannot read /no/c: No such file", URLS .. ', "cert": "/no/c", "key": "/no/k"' },
                { "password_file: cannot read /no/p: No such", URLS .. ', "user": "me", "password_file": "/no/p"' },
            } do
                assert_config_refused(unpack(case))
            end
        end)
    end)

    it_has_agent("warns only about a password that is sent over a network without encryption", function ()
        local login = (', "user": "me", "password_file": "%s"'):format(secret "password")
        local function warning(endpoint)
            local path = config(('"endpoints": ["%s"]'):format(endpoint) .. login)
            local agent = start("agent", "main", "--config", path)
            assert(command.await(function () return (agent:err() or ""):find "etcd at http" end), agent:err())
            agent:signal(command.KILL)
            agent:wait()
            return agent:err():match "warning: [^\n]*"
        end
        -- This address belongs to no network, so nothing is sent.
        assert.equal("warning: the password of etcd's user me is sent to http://0.0.0.1:1 without encryption; "
                     .. "use https://", warning "http://0.0.0.1:1")
        for _, url in ipairs { "http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://0.0.0.1:1" } do
            assert.is_nil(warning(url))
        end
    end)

    it_has_agent("prints its options and its version", function ()
        local ended, out = run("agent", "--help")
        assert.same({ code = 0 }, ended)
        for _, option in ipairs { "--config", "--etcd", "--namespace", "--ttl", "--drain", "--standby" } do
            assert.truthy(out:find(option, 1, true), out)
        end
        ended, out = run("agent", "--version")
        assert.same({ code = 0 }, ended)
        assert.equal((run("--version") and "holdfast-agent " .. require("resty.lock")._VERSION .. "\n"), out)
    end)


    describe("with etcd", function ()
        local server, machine, space

        setup(function () server = not etcd.missing() and etcd.start() end)
        teardown(function () return server and server:stop() end)
        after_each(process.clean_up)

        before_each(function ()
            machine = etcd.machine "m"
            space = etcd.new_space()
        end)

        -- Starts an agent and waits for its lease.
        local function start_agent(...)
            return etcd.agent(machine, "--etcd", server.url, "--namespace", space, ...)
        end

        -- Starts a program on this machine that holds the lock "key", and returns it.
        local function holder(timeout)
            local child = process.start(([[
                assert(require("resty.shdict").open("jobs", { size = "64k", cluster = "main" }))
                local lock = require("resty.lock"):new("jobs", { timeout = %g, exptime = 3600 })
                say(lock:lock("key") and "has it" or "has it not")
                hear()
                say(lock:valid() and lock:unlock() == 1 and "released" or "lost")
                hear()
            ]]):format(timeout or 30), { env = { HOLDFAST_DIR = machine } })
            child:expect(timeout and "has it not" or "has it")
            return child
        end

        -- Returns whether the store has the lease that the agent has logged.
        local function lives(agent, namespace)
            local lease = assert(agent:err():match "has lease (%x+)")
            local keys = server:keys((namespace or space) .. "/b/" .. lease)
            return #keys == 1
        end

        it_has_etcd("accepts each field of its configuration", function ()
            local path = config(([["endpoints": ["%s", "%s"], "namespace": "fields", "ttl": 20,
                "slice_ms": 0, "max_hold_ms": 0, "linger_ms": 1, "require_fixed_etcd": false, "ca": "%s",
                "state_directory": "%s"]])
                :format(server.url, server.url, secret "ca.pem", machine), "640")
            local agent = etcd.agent(machine, "--config", path)
            holder()
            assert.same({ "fields/l/jobs/key" }, server:keys "fields/l/")
            assert.is_true(lives(agent, "fields"))
        end)

        it_has_etcd("prefers the command line to its configuration", function ()
            local path = config '"endpoints": ["http://127.0.0.1:1"], "namespace": "file", "ttl": 30'
            etcd.agent(machine, "--config", path, "--etcd", server.url, "--namespace", "line", "--ttl", "5")
            holder()
            assert.same({ "line/l/jobs/key" }, server:keys "line/l/")
        end)

        it_has_etcd("avoids an etcd that may end leases early, if configured so, and reports this once", function ()
            local path = config(('"endpoints": ["%s"], "require_fixed_etcd": true'):format(server.url))
            local agent = start("agent", "main", "--config", path, { HOLDFAST_DIR = machine })
            assert.truthy(await(function () return said(agent):find("\n$") end))
            local sentence = agent:err():match("^holdfast%-agent: %d+%-%d%d%-%d%dT%d%d:%d%d:%d%d[+-]%d+: "
                                               .. "(etcd [%d.]+ at http://[%d.:]+ may end a lease early .*)\n$")
            assert.matches("; require_fixed_etcd is set$", sentence)
            holder(0)
            local _, out = run("cluster", "status", { HOLDFAST_DIR = machine })
            assert.truthy(out:find("no session\n  " .. sentence .. "\n", 1, true), out)
            assert.is_nil(agent:wait(2.5))
            assert.matches("^holdfast%-agent: [^\n]+\n$", agent:err())
            agent:signal(command.TERM)
            assert.same({ code = 0 }, agent:wait())
        end)

        for name, signal in pairs { TERM = command.TERM, INT = command.INT, HUP = command.HUP } do
            it_has_etcd("gives its lease back at " .. name .. " if nobody holds a lock, and exits with 0", function ()
                local agent = start_agent()
                local child = holder()
                child:say ""
                child:expect "released"
                assert.is_true(lives(agent))
                agent:signal(signal)
                assert.same({ code = 0 }, agent:wait(), agent:err())
                assert.is_false(lives(agent))
            end)
        end

        it_has_etcd("gives its lease back at TERM even if a holder was killed", function ()
            local agent = start_agent("--ttl", "60")
            local child = holder()
            child:kill()
            child:wait()
            agent:signal(command.TERM)
            assert.same({ code = 0 }, agent:wait(), agent:err())
            assert.is_false(lives(agent))
            assert.same({}, server:keys(space .. "/l/"))
        end)

        it_has_etcd("leaves its lease to the next agent at TERM if a lock is held", function ()
            local agent = start_agent("--ttl", "60")
            local child = holder()
            agent:signal(command.TERM)
            assert.same({ code = 0 }, agent:wait(), agent:err())
            assert.truthy(agent:err():find("the lease stays for the next agent", 1, true), agent:err())
            assert.is_true(lives(agent))
            local second = start_agent("--ttl", "60")
            assert.equal(agent:err():match "lease %x+", second:err():match "lease %x+")
            child:say ""
            child:expect "released"
        end)

        it_has_etcd("with --drain, gets no new lock, waits until no lock is held, and gives its lease back", function ()
            local agent = start_agent("--drain", "--ttl", "60")
            local child = holder()
            agent:signal(command.TERM)
            assert.truthy(await(function () return said(agent):find("waiting for their release", 1, true) end))
            assert.equal("nil\tunavailable\n", (process.run([[
                assert(require("resty.shdict").open("jobs", { size = "64k", cluster = "main" }))
                local lock = require("resty.lock"):new("jobs")
                say(lock:trylock("other"))
            ]], { env = { HOLDFAST_DIR = machine } })))
            local _, found = run("doctor", { HOLDFAST_DIR = machine })
            local finding = "error\tdictionary jobs\tbelongs to cluster main, which grants no new locks: "
                            .. 'the agent of cluster "main" takes no new locks: it is draining\t'
            assert.truthy(found:find(finding, 1, true), found)
            assert.is_nil(agent:wait(0.1))
            assert.is_true(lives(agent))
            child:say ""
            child:expect "released"
            assert.same({ code = 0 }, agent:wait(), agent:err())
            assert.is_false(lives(agent))
        end)

        it_has_etcd("with --drain, leaves its lease to the next agent at a second signal", function ()
            local agent = start_agent("--drain", "--ttl", "60")
            holder()
            agent:signal(command.TERM)
            assert.truthy(await(function () return said(agent):find("waiting for their release", 1, true) end))
            agent:signal(command.TERM)
            assert.same({ code = 0 }, agent:wait(), agent:err())
            assert.is_true(lives(agent))
        end)

        it_has_etcd("with --drain and without a lock, ends at once", function ()
            local agent = start_agent "--drain"
            agent:signal(command.TERM)
            assert.same({ code = 0 }, agent:wait(), agent:err())
        end)

        it_has_etcd("with --standby, takes over when the other agent ends, and not before", function ()
            local first = start_agent("--ttl", "60")
            local child = holder()
            local second = start("agent", "main", "--etcd", server.url, "--namespace", space, "--standby",
                                 "--ttl", "60", { HOLDFAST_DIR = machine })
            assert.is_nil(first:wait(0.3))
            assert.equal("", said(second))
            first:signal(command.KILL)
            first:wait()
            assert.truthy(await(function () return said(second):find("has lease", 1, true) end), second:err())
            assert.equal(first:err():match "lease %x+", second:err():match "lease %x+")
            child:say ""
            child:expect "released"
        end)

        it_has_etcd("with --standby, exits with 0 at TERM while the other agent is active", function ()
            start_agent()
            local second = start("agent", "main", "--etcd", server.url, "--standby", { HOLDFAST_DIR = machine })
            local function waits()  -- the agent blocks TERM and reads it from a descriptor
                local status = files.find("/proc/" .. second.pid .. "/status") or ""
                return status:match "SigBlk:%s+0*[1-9a-f]"
            end
            assert.truthy(await(waits))
            second:signal(command.TERM)
            assert.same({ code = 0 }, second:wait(), second:err())
            assert.equal("", said(second))
        end)

        it_has_etcd("reports why its lease is lost, and continues with another lease", function ()
            local agent = start_agent()
            local lease = agent:err():match "has lease (%x+)"
            holder()
            server:erase(space .. "/b/" .. lease)
            assert.truthy(await(function ()
                return said(agent):find("the lease is lost: the store ended it\n.*has lease ")
            end), agent:err())
        end)

        -- Starts a service manager, as sd_notify(3) describes it, which prints each line that it gets.
        local function start_manager(path)
            local manager = process.start(([[
                local ffi = require "ffi"
                ffi.cdef "int socket(int, int, int); int bind(int, const void *, unsigned);"
                ffi.cdef "ssize_t recv(int, void *, size_t, int);"
                local address = ffi.new("struct { unsigned short family; char path[108]; }", { 1, %q })
                local socket, text = ffi.C.socket(1, 2, 0), ffi.new("char[4096]")
                assert(ffi.C.bind(socket, address, ffi.sizeof(address)) == 0)
                say "listens"
                while true do say(ffi.string(text, ffi.C.recv(socket, text, 4096, 0))) end
            ]]):format(path))
            manager:expect "listens"
            return manager
        end

        it_has_etcd("reports to its service manager that it is ready, which lease it has, and that it ends", function ()
            local path = command.path "notify"
            local manager = start_manager(path)
            local agent = start("agent", "main", "--etcd", server.url,
                                { HOLDFAST_DIR = machine, NOTIFY_SOCKET = path })
            manager:expect "READY=1"
            assert.matches("^STATUS=cluster main: this machine has lease %x+$", manager:hear())
            agent:signal(command.TERM)
            manager:expect "STOPPING=1"
        end)

        it_has_etcd("with --standby, reports that it is ready while the other agent is active", function ()
            start_agent()
            local path = command.path "notify"
            local manager = start_manager(path)
            local second = start("agent", "main", "--etcd", server.url, "--standby",
                                 { HOLDFAST_DIR = machine, NOTIFY_SOCKET = path })
            manager:expect "READY=1"
            manager:expect "STATUS=cluster main: waiting until the other agent on this machine exits"
            second:signal(command.TERM)
            second:wait()
        end)
    end)
end)
