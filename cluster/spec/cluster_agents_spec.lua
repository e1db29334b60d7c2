-- Tests cluster/gate.lua, cluster/state.lua and cluster/store.lua. Tests, under each Lua host, the calls that need
-- information from the store, with locks of two machines, their agents and a real etcd.

local command, etcd, fixture, json, process, shell, site =
    require "spec.support" ("command", "cluster/etcd", "fixture", "tools/json", "process", "shell", "site")

local it = fixture.it_unless(etcd.missing())
local in_nginx = fixture.it_unless(etcd.missing() or site.missing())

-- How a program runs code under each host.
local HOSTS = {
    ["plain LuaJIT"] = "local function in_host(fn) return fn() end",
    ["the scheduler"] = [[
        local scheduler = require "resty.holdfast.scheduler"
        local function in_host(fn)
            local function pack(...) return { n = select("#", ...), ... } end
            local results
            scheduler.spawn(function () results = pack(fn()) end)
            assert(scheduler.run())
            return unpack(results, 1, results.n)
        end
    ]],
}

local PROGRAM = [[
    assert(require("resty.shdict").open("jobs", { size = "64k", cluster = "main" }))
    local resty_lock = require "resty.lock"
    lock = assert(resty_lock:new("jobs", { cluster = "main", timeout = 30, exptime = 3600 }))
    other = assert(resty_lock:new("jobs"))
    local function show(...)
        local words = {}
        for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
        return table.concat(words, " ")
    end
    say "begins"
    for line in io.lines() do
        say(show(in_host(assert(loadstring(line)))))
    end
]]


describe("a lock of two machines", function ()
    local server, one, two, space

    setup(function () server = not etcd.missing() and etcd.start() end)
    teardown(function () return server and server:stop() end)

    before_each(function ()
        command.set_up()
        space = etcd.new_space()
        one, two = etcd.machine "one", etcd.machine "two"
    end)

    after_each(function ()
        site.clean_up()
        process.clean_up()
        command.tear_down()
    end)

    local function start_agents(...)
        local function start(machine, ...)
            return etcd.agent(machine, "--etcd", server.url, "--namespace", space, ...)
        end
        return start(one, ...), start(two, ...)
    end

    local function program(machine, host)
        local child = process.start(HOSTS[host or "plain LuaJIT"] .. PROGRAM, { env = { HOLDFAST_DIR = machine } })
        child:expect "begins"
        return function (line)
            child:say((line:gsub("\n", " ")))
            return child:hear()
        end
    end

    local function run_cluster(machine, ...)
        local words = { "cluster", ... }
        words[#words + 1] = { HOLDFAST_DIR = machine }
        local ended, out, err = command.run(unpack(words))
        return ended.code, out, err
    end


    for host in pairs(HOSTS) do
        it("is held on only one machine, and reported on the other, in " .. host, function ()
            start_agents()
            local here, there = program(one, host), program(two, host)
            assert.equal("nil", there 'return lock:holder("key")')
            assert.equal("nil not supported in a cluster dictionary", there 'return lock:holder(("k"):rep(10000))')
            assert.equal("true", here 'return lock:trylock("key", { why = "a test" })')
            assert.equal("nil held", there 'return lock:trylock("key")')
            assert.equal("nil timeout", there 'return lock:lock("key", { timeout = 0.05 })')
            local pid, machine, revision = here [[
                local holder = lock:holder("key")
                assert(holder.host and holder.why == "a test" and holder.remaining > 0)
                return holder.process, holder.machine, holder.revision, holder.host
            ]]:match "^(%d+) (%x+) (%d+)"
            assert.matches(("^lock %d luajit %s %s "):format(pid, machine, revision), there [[
                local holder = lock:holder("key")
                assert(holder.since and holder.held >= 0 and holder.held < 60, holder.held)
                return holder.kind, holder.process, holder.program, holder.machine, holder.revision, holder.host
            ]])
            assert.equal(pid, there 'return require("resty.shdict").shared.jobs:holder("key").process')
            assert.equal("true 1 nil", here [[
                return lock:unlock() and lock:trylock("other"), lock:unlock(), lock:holder("other")
            ]])
        end)

        it("is verified at the store, in " .. host, function ()
            start_agents("--ttl", "60")
            local here, there = program(one, host), program(two, host)
            assert.equal("nil unlocked", here 'return lock:verify()')
            assert.equal("true", here 'return lock:trylock("key")')
            assert.equal("true", here 'return lock:verify()')
            local revision = there 'return lock:holder("key").revision'
            assert.equal(0, (run_cluster(two, "break", "jobs", "key", "--revision", revision)))
            assert.equal("nil not owner", here 'return lock:verify()')
            assert.equal("nil not owner", here 'return lock:unlock()')
            assert.equal("true", there 'return lock:trylock("key")')
        end)

        it("is not verified if the store does not have it, whatever this machine believes, in " .. host, function ()
            start_agents("--ttl", "60")
            local here = program(one, host)
            assert.equal("true", here 'return lock:trylock("key")')
            server:erase(space .. "/l/jobs/key")
            assert.equal("nil not owner", here 'return lock:verify()')
        end)

        it("cannot be verified without store or agent, but is still held, in " .. host, function ()
            local agent = start_agents("--ttl", "60")
            local here = program(one, host)
            assert.equal("true", here 'return lock:trylock("key")')
            server:kill()
            assert.equal("nil unavailable", here 'return lock:verify()')
            assert.equal("nil unavailable", here 'return lock:holder("another")')
            assert.equal("true", here 'return lock:valid()')
            agent:signal(command.KILL)
            agent:wait()
            assert.equal("nil unavailable", here 'return lock:verify()')
            assert.equal("1", here 'return lock:unlock()')
            server:begin()
        end)
    end

    it("is granted by trylock even if the agent has not noticed the dictionary yet", function ()
        start_agents()
        local here = program(one)
        assert.equal("", here [[
            local refused = {}
            for i = 1, 20 do
                assert(require("resty.shdict").open("new" .. i, { size = "64k", cluster = "main" }))
                local ok, err = require("resty.lock"):new("new" .. i):trylock("key")
                refused[#refused + 1] = not ok and err or nil
            end
            return table.concat(refused, " ")
        ]])
    end)

    it("is verified while other tasks run, which may use its object for a different lock", function ()
        start_agents()
        local here = program(one, "the scheduler")
        assert.equal("true", here 'return lock:trylock("key")')
        assert.equal("true", here [[
            local scheduler = require "resty.holdfast.scheduler"
            local turns, over = 0, false
            scheduler.spawn(function () while not over do turns = turns + 1; scheduler.sleep(0.0005) end end)
            local ok = lock:verify()
            over = true
            return ok and turns > 1
        ]])
        assert.equal("nil unlocked", here [[
            local scheduler = require "resty.holdfast.scheduler"
            scheduler.spawn(function () lock:unlock(); assert(lock:lock("another")) end)
            return lock:verify()
        ]])
        assert.equal("another", here 'return lock.key')
    end)

    it("is reported by on_lost once if the lock is broken", function ()
        start_agents("--ttl", "60")
        local here, there = program(one, "the scheduler"), program(two)
        assert.equal("true", here [[
            lost = {}
            lock = assert(require("resty.lock"):new("jobs", { exptime = 3600, on_lost = function (_, key, reason)
                lost[#lost + 1] = key .. " " .. reason
            end }))
            return lock:trylock("key")
        ]])
        local revision = there 'return lock:holder("key").revision'
        assert.equal(0, (run_cluster(two, "break", "jobs", "key", "--revision", revision)))
        assert.equal("key not owner 1", here [[
            local scheduler = require "resty.holdfast.scheduler"
            for _ = 1, 3000 do if #lost > 0 then break end; scheduler.sleep(0.01) end
            lock:unlock()
            scheduler.sleep(0.4)
            return lost[1], #lost
        ]])
    end)

    in_nginx("is verified and named in nginx", function ()
        start_agents("--ttl", "60")
        local there = program(two)
        local here = site.start {
            dictionaries = { jobs = "1m" },
            main = "env HOLDFAST_CLUSTER=jobs=main;",
            env = { HOLDFAST_DIR = one },
            locations = {
                ["/take"] = [[
                    local lock = require("resty.lock"):new("jobs", { cluster = true, exptime = 3600 })
                    ngx.say(lock:trylock("key"), " ", lock:verify())
                    package.loaded.kept = lock
                ]],
                ["/verify"] = [[ngx.say(tostring(package.loaded.kept:verify()))]],
                ["/holder"] = [[
                    local holder = require("resty.lock"):new("jobs"):holder("key")
                    ngx.say(holder and holder.machine)
                ]],
            },
        }
        assert.equal("true true\n", here:get "/take")
        assert.equal("nil held", there 'return lock:trylock("key")')
        assert.equal(there 'return lock:holder("key").machine' .. "\n", here:get "/holder")
        assert.equal("true\n", here:get "/verify")
    end)

    in_nginx("is never local in nginx: without an agent, nobody gets it", function ()
        local here = site.start {
            dictionaries = { jobs = "1m" },
            main = "env HOLDFAST_CLUSTER=jobs=main;",
            env = { HOLDFAST_DIR = one },
            locations = { ["/"] = [[
                local lock = require("resty.lock"):new("jobs")
                ngx.say(lock:trylock("key"))
                ngx.say(select(2, lock:lock("key", { timeout = 0.1 })))
            ]] },
        }
        assert.equal("nilunavailable\nunavailable\n", here:get "/")
    end)


    it("log_timeouts does not claim that nobody holds a lock that another machine may hold", function ()
        start_agents()
        local here, there = program(one), program(two)
        assert.equal("true", there 'return lock:trylock("key")')
        assert.matches("; no program on this machine holds it, but another machine may$", here [[
            local line
            local other = require("resty.lock"):new("jobs", {
                timeout = 0.2, block = true, log_timeouts = function (text) line = text end,
            })
            other:lock("key")
            return line
        ]])
    end)


    it("has no holder on a machine that waits for it, according to `holdfast locks`", function ()
        start_agents()
        local here = program(one)
        assert.equal("true", here 'return lock:trylock("key")')
        local waits = process.start([[
            assert(require("resty.shdict").open("jobs", { size = "64k", cluster = "main" }))
            say(require("resty.lock"):new("jobs", { timeout = 60 }):lock("key") and "has it")
        ]], { env = { HOLDFAST_DIR = two } })
        local text
        assert.truthy(command.await(function ()
            text = select(2, command.run("locks", "--waiting", { HOLDFAST_DIR = two }))
            return text:find "has waited for"
        end), text)
        assert.matches('^jobs key is not held on this machine: "holdfast cluster holders" shows which machine '
                       .. "holds it\n", text)
        here 'return lock:unlock()'
        waits:expect "has it"
    end)


    describe("shown by `holdfast cluster`", function ()
        it("status without a name shows each dictionary, and its agent once", function ()
            start_agents()
            local here = program(one)
            here 'return require("resty.shdict").open("more", { size = "64k", cluster = "main" }) ~= nil'
            here 'return require("resty.shdict").open("plain", { size = "64k" }) ~= nil'
            assert.truthy(command.await(function ()
                local code, out = run_cluster(one, "status")
                return code == 0
                       and out:match "^jobs: cluster main, agent %d+, session 1 with [%d.]+ s left, machine %x+\n"
                       and out:find("\nmore: cluster main, agent ", 1, true) and not out:find("plain", 1, true)
                       and select(2, out:gsub("requests", "")) == 1
            end), select(2, run_cluster(one, "status")))
        end)

        it("status reports what is missing, and exits with 1", function ()
            local here = program(one)
            here 'return 1'
            local code, out = run_cluster(one, "status")
            assert.equal(1, code)
            assert.equal("jobs: cluster main, no agent, no session\n"
                         .. '  no agent of cluster "main" answers in this runtime directory: No such file or '
                         .. 'directory\n', out)
            command.start("agent", "main", "--etcd", "http://127.0.0.1:1", { HOLDFAST_DIR = one })
            local reason = "etcd at http://127.0.0.1:1 does not answer: Connection refused\n"
            assert.truthy(command.await(function ()
                code, out = run_cluster(one, "status", "jobs")
                return code == 1 and out:find(reason, 1, true)
            end), out)
            local err
            code, out, err = run_cluster(two, "status")
            assert.same({ 1, "", "holdfast: no dictionary here belongs to a cluster\n" }, { code, out, err })
            command.start("agent", "main", "--etcd", "http://127.0.0.1:1", { HOLDFAST_DIR = two })
            assert.truthy(command.await(function ()
                code, out, err = run_cluster(two, "status")
                return code == 1 and out:find(reason, 1, true)
                       and err == 'holdfast: no dictionary here belongs to a cluster yet; agents here: "main"\n'
            end), out)
            code, out, err = run_cluster(two, "status", "--dir", "/nonexistent")
            assert.same({ 2, "" }, { code, out })
            assert.matches("^holdfast: there is no runtime directory /nonexistent; ", err)
            code, out, err = run_cluster(two, "status", "jobs")
            assert.same({ 2, "" }, { code, out })
            assert.equal('holdfast: there is no dictionary "jobs" in ' .. two .. ": it contains no dictionaries\n", err)
        end)

        it("status shows an agent that listens before any dictionary exists", function ()
            etcd.agent(one, "--etcd", server.url, "--namespace", space)
            local code, out, err = run_cluster(one, "status")
            assert.matches("^no dictionary: cluster main\n  agent: up for ", out)
            assert.equal('holdfast: no dictionary here belongs to a cluster yet; agents here: "main"\n', err)
            assert.equal(0, code)
            code, out = run_cluster(one, "status", "--json")
            local told = json.decode(out)
            assert.same({}, told.dictionaries)
            assert.is_nil(told.agents.main.error)
            assert.is_true(told.agents.main.requests > 0, out)
            assert.equal(0, code)
        end)

        it("holders prints JSON on request, for the runtime directory that --dir names", function ()
            start_agents()
            local here = program(one)
            assert.equal("true", here 'return lock:trylock("key", { why = "a test" })')
            local code, out = run_cluster(two, "holders", "jobs", "key", "--json", "--dir", one)
            assert.equal(0, code)
            local holder = json.decode(out)
            assert.same({ "jobs", "key", true, "a test" }, { holder.dictionary, holder.key, holder.held, holder.why })
            assert.is_true(holder.pid > 0 and holder.revision > 0 and holder.when > 1.7e12, out)
            out = select(2, run_cluster(one, "holders", "--json", "jobs", "other"))
            assert.equal('{"dictionary":"jobs","key":"other","held":false,"host":null,"program":null,"why":null,'
                         .. '"machine":null,"pid":null,"revision":null,"when":null}\n', out)
            for _, revision in ipairs { "-1", "0", "abc", "99999999999999999999999" } do
                local err
                code, out, err = run_cluster(one, "break", "jobs", "key", "--revision", revision)
                assert.same({ 2, "" }, { code, out })
                assert.matches('bad revision "' .. revision .. '": expected 1 to 9223372036854775807', err, 1, true)
            end
            assert.equal("1", here 'return lock:unlock()')
        end)

        it("status shows the numbers of hand-overs and requests, also as JSON", function ()
            start_agents()
            local here, there = program(one), program(two)
            for _ = 1, 3 do
                assert.matches("^%d", here 'return lock:lock("key")')
                assert.equal("1", here 'return lock:unlock()')
                assert.matches("^%d", there 'return lock:lock("key")')
                assert.equal("1", there 'return lock:unlock()')
            end
            local code, out = run_cluster(one, "status", "--json")
            assert.equal(0, code)
            assert.truthy(shell.succeeds("command -v python3 >/dev/null || exit 0; python3 -m json.tool '"
                                         .. command.write("status.json", out) .. "' >/dev/null"), out)
            local function number(name) return tonumber(out:match('"' .. name .. '":(%d+)')) end
            assert.is_true(number "hand_overs" + number "returns" >= 2, out)
            assert.is_true(number "requests" >= 6, out)
            assert.equal(number "requests", number "count", out)
            assert.equal(0, number "requests_unanswered", out)
            assert.equal(0, number "sessions_lost", out)
        end)
    end)
end)
