-- Tests the locks of a dictionary that belongs to a cluster, with an agent that has no store
-- (cluster/spec/support/agent.lua). cluster/spec/cluster_back_end_spec.lua tests the behaviour that these locks share
-- with other locks.

local agents, expect, fixture, process, site, tasks =
    require "spec.support" ("cluster/agent", "expect", "fixture", "process", "site", "tasks")
local none = require "resty.holdfast.host.none"
local scheduler = require "resty.holdfast.scheduler"
local resty_lock, rwlock, semaphore = require "resty.lock", require "resty.rwlock", require "resty.semaphore"
local shdict = require "resty.shdict"

local it = fixture.it_unless(agents.missing())

local NAME = "spec_cluster"
local OPTIONS = { size = "1m", cluster = "main" }
local MACHINE = "0000000000000001" -- the lease with which the agent begins each session
local UNSUPPORTED = "not supported in a cluster dictionary"


describe("a dictionary", function ()
    after_each(function ()
        process.clean_up()
        shdict.remove(NAME)
    end)


    it("belongs only to the cluster that open names", function ()
        local dict = assert(shdict.open(NAME, OPTIONS))
        assert.equal("main", dict:cluster().name)
        assert.equal(dict, shdict.open(NAME, OPTIONS))
        for _, other in ipairs { { size = "1m" }, { size = "1m", cluster = "other" } } do
            local found, err = shdict.open(NAME, other)
            assert.is_nil(found)
            assert.matches('dictionary "spec_cluster" exists with size 1048576 and mutex futex in the cluster "main", '
                           .. "but the caller requested size 1048576 and mutex futex", err, 1, true)
        end
        shdict.remove(NAME)
        assert(shdict.open(NAME, { size = "1m" }))
        assert.matches('but the caller requested size 1048576 and mutex futex in the cluster "main"',
                       select(2, shdict.open(NAME, OPTIONS)), 1, true)
    end)

    it("does not belong to a cluster by default", function ()
        local dict = assert(shdict.open(NAME, { size = "1m" }))
        assert.same({ nil, 'dictionary "spec_cluster" belongs to no cluster' }, { dict:cluster() })
    end)

    it("refuses invalid names for its cluster", function ()
        for _, bad in ipairs { "", "a b", ".a", "a\0b", ("x"):rep(64) } do
            local dict, err = shdict.open(NAME, { cluster = bad })
            assert.is_nil(dict)
            assert.matches("^bad cluster ", err)
        end
        assert.equal('bad option "cluster" to open: expected a string, got boolean',
                     expect.blamed(function () shdict.open(NAME, { cluster = true }) end))
    end)

    -- Returns the output of a process that opens dictionaries with these variables in its environment.
    local function declared(source, clusters, dictionaries)
        local text = process.run([[
            local shdict = require "resty.shdict"
            local function cluster_of(dict, err) return dict and dict:cluster().name or err end
        ]] .. source, { env = { HOLDFAST_CLUSTER = clusters, HOLDFAST_DICTS = dictionaries } })
        return text
    end

    it("that HOLDFAST_CLUSTER names belongs to the cluster, however it is opened", function ()
        local declarations = "spec_other=other," .. NAME .. "=main"
        assert.equal("main\nmain\n", declared([[
            say(cluster_of(shdict.open("spec_cluster", { size = "64k" })))
            say(cluster_of(shdict.open("spec_cluster", { size = "64k", cluster = "main" })))
        ]], declarations))
        assert.equal("main\n", declared('say(cluster_of(shdict.shared.spec_cluster))', declarations, NAME .. "=64k"))
        assert.equal("main\n", declared([[
            assert(shdict.open("spec_cluster"))
            say(cluster_of(require("resty.lock"):new("spec_cluster", { cluster = "main" }).dict))
        ]], declarations))
    end)

    it("that HOLDFAST_CLUSTER names is never local", function ()
        assert(shdict.open(NAME, { size = "64k" }))
        local contradiction = 'dictionary "spec_cluster" exists and belongs to no cluster, but HOLDFAST_CLUSTER '
                              .. 'assigns it to the cluster "main"\n'
        assert.equal(contradiction, declared('say(select(2, require("resty.lock"):new("spec_cluster")))',
                                             NAME .. "=main"))
        assert.equal(contradiction, declared('say(select(2, shdict.open("spec_cluster")))', NAME .. "=main"))
        assert.matches('exists with .* but the caller requested .* in the cluster "main"; open it '
                       .. 'with the same options, .*\n$',
                       declared('say(select(2, shdict.open("spec_cluster", { size = "64k" })))', NAME .. "=main"))
        shdict.remove(NAME)
        assert.equal('dictionary "spec_cluster" is opened with the cluster "other", but HOLDFAST_CLUSTER assigns it to '
                     .. 'the cluster "main"\n',
                     declared('say(select(2, shdict.open("spec_cluster", { cluster = "other" })))', NAME .. "=main"))
    end)

    it("remains in its cluster even if it is removed and created again as a local dictionary", function ()
        assert(shdict.open(NAME, OPTIONS))
        local lock = assert(resty_lock:new(NAME))
        assert.equal("", (process.run [[
            local shdict = require "resty.shdict"
            assert(shdict.remove("spec_cluster"))
            assert(shdict.open("spec_cluster", { size = "1m" }))
        ]]))
        assert.same({ nil, "dictionary not found" }, { lock:trylock("key") })
    end)

    it("is named in the message about a mistake in HOLDFAST_CLUSTER", function ()
        for _, bad in ipairs { NAME, NAME .. "=", NAME .. "=a b", "=main", NAME .. "=main," .. NAME .. "=other" } do
            assert.matches("HOLDFAST_CLUSTER", declared('say(select(2, shdict.open("spec_cluster")))', bad), 1, true)
        end
    end)
end)


describe("a lock of a cluster", function ()
    local dict, agent

    before_each(function ()
        if not agents.missing() then
            dict = assert(shdict.open(NAME, OPTIONS))
            agent = agents.start { NAME }
        end
    end)

    after_each(function ()
        process.clean_up()
        fixture.collect()
        shdict.remove(NAME)
    end)

    local function new(options)
        return assert(resty_lock:new(NAME, options))
    end

    local function holding(key, options)
        local lock = new(options)
        assert(lock:lock(key))
        return lock
    end

    -- Makes the agent act as if it had lost the store and then reached it again.
    local function lose()
        agent:does "lose"
    end


    it("can be required by the program", function ()
        assert(resty_lock:new(NAME, { cluster = true }))
        assert(resty_lock:new(NAME, { cluster = "main" }))
        assert(resty_lock:new(NAME, { cluster = false }))
        assert.same({ nil, 'dictionary "spec_cluster" belongs to the cluster "main", not "other"' },
                    { resty_lock:new(NAME, { cluster = "other" }) })
        assert(shdict.open("spec_plain", { size = "64k" }))
        for _, wanted in ipairs { true, "main" } do
            assert.same({ nil, 'dictionary "spec_plain" belongs to no cluster' },
                        { resty_lock:new("spec_plain", { cluster = wanted }) })
        end
        assert.equal('bad option "cluster" to new: expected a boolean or a cluster name, got 1',
                     expect.refusal_of(resty_lock, NAME) { cluster = 1 })
    end)

    it("is granted by the agent, and is then handed over between this machine's processes", function ()
        local lock = new()
        assert.is_true(lock:lock("key") >= 0)
        local token = lock:token()
        assert.is_true(token > 1000 * 2 ^ 14 and token % 1 == 0)
        assert.equal(1, lock:unlock())
        agent:kill()
        assert.equal(0, lock:lock("key"))
        assert.equal(token + 1, lock:token())
        assert.same({ nil, "held" }, { new():trylock("key") })
        assert.equal(1, lock:unlock())
    end)

    it("is requested by trylock and by a timeout of 0", function ()
        assert.is_true(new():trylock("free"))
        assert.is_number(new({ timeout = 0 }):lock("also free"))
        agent:does "refuse key"
        assert.same({ nil, "held" }, { new():trylock("key") })
        assert.same({ nil, "timeout" }, { new({ timeout = 0 }):lock("key") })
        agent:does "ignore silent"
        assert.same({ nil, "unavailable" }, { new():trylock("silent") })
        agent:does "allow key"
        assert.is_true(new():trylock("key"))
        assert.equal(0, dict:waiters("key"))
    end)

    it("goes to a local process that is faster than trylock", function ()
        agent:does "ignore key"
        local child = process.start [[
            local lock = require("resty.lock"):new("spec_cluster")
            say "begins"
            say(lock:lock("key") and "has it")
            hear()
        ]]
        child:expect "begins"
        repeat none.sleep(0.01) until dict:waiters("key") == 1
        local tried
        tasks.run(function ()
            scheduler.spawn(function () tried = { new():trylock("key") } end)
            repeat scheduler.sleep(0.001) until dict:waiters("key") == 2 or tried
            agent:does "allow key"
        end)
        child:expect "has it"
        assert.is_nil(tried[1])
        assert.is_true(tried[2] == "held" or tried[2] == "unavailable", tried[2])
    end)

    -- Expects that a task that waits for the lock gets it after the agent has executed this command.
    local function is_got_after(word)
        tasks.run(function ()
            scheduler.spawn(function ()
                repeat scheduler.sleep(0.001) until dict:waiters("key") == 1
                agent:does(word)
            end)
            assert.is_true(new():lock("key") > 0)
        end)
    end

    it("makes callers wait until another machine returns it", function ()
        agent:does "refuse key"
        assert.same({ nil, "timeout" }, { new({ timeout = 0.1 }):lock("key") })
        is_got_after "allow key"
    end)

    it("leaves this machine when its holder releases it", function ()
        local lock = holding "key"
        agent.child:say "withdraw key"
        repeat none.sleep(0.001) until dict:waiters("key") == 1
        assert.is_true(lock:valid())
        assert.equal(1, lock:unlock())
        agent.child:expect "done"
        assert.same({ nil, "held" }, { lock:trylock("key") })
    end)

    it("is unavailable without an agent or a session, and never becomes local", function ()
        for _, stop in ipairs { function () agent:kill() end, lose } do
            stop()
            assert.same({ nil, "unavailable" }, { new():trylock("key") })
            assert.same({ nil, "unavailable" }, { new({ timeout = 0 }):lock("key") })
            assert.same({ nil, "unavailable" }, { new({ timeout = 0.05 }):lock("key") })
            assert.same({ nil, "unavailable" }, { new():with("key", { timeout = 0.05 }, error) })
            -- Two agents that serve the same dictionary would end each other's sessions.
            if stop == lose then
                agent:kill()
            end
            agent = agents.start { NAME }
            assert(new():trylock("key"))
            fixture.collect()
        end
    end)

    it("is held, not unavailable, if a local process has it when the agent dies", function ()
        local lock = holding "key"
        agent:kill()
        assert.same({ nil, "timeout" }, { new({ timeout = 0.05 }):lock("key") })
        assert.is_true(lock:valid())
        assert.equal(1, lock:unlock())
    end)

    it("goes to a waiter when there is an agent with a session", function ()
        lose()
        is_got_after "begin"
    end)

    it("makes even an object that polls wait in the queue", function ()
        assert.is_number(new({ wait = "poll" }):lock("key"))
        assert.is_true(new({ wait = "poll" }):trylock("other"))
    end)

    it("is lost with the session", function ()
        local lock = holding "key"
        local token = lock:token()
        lose()
        assert.is_false(lock:valid())
        assert.same({ nil, "not owner" }, { lock:remaining() })
        assert.same({ nil, "not owner" }, { lock:expire(30) })
        assert.is_nil(dict:holder("key"))
        assert.same({}, dict:holders("key"))
        assert.same({ nil, "not owner" }, { lock:unlock() })
        assert.same({ nil, "unlocked" }, { lock:unlock() })
        agent:does "begin"
        assert.is_number(lock:lock("key"))
        assert.is_true(lock:token() > token)
    end)

    it("lasts no longer than the session or its exptime", function ()
        agent:does "begin 20"
        for _, exptime in ipairs { 3600, 0, math.huge } do
            local lock = holding("key", { exptime = exptime })
            local left = lock:remaining()
            assert.is_true(left > 0 and left <= 20, left)
            lock:unlock()
        end
        assert.is_true(holding("key", { exptime = 2 }):remaining() <= 2.001)
    end)

    it("is lost when the session ends because no agent extends it", function ()
        agent:does "begin 0.2"
        local lock = new()
        if lock:trylock("key") then
            agent:kill()
            none.sleep(0.25)
            assert.is_false(lock:valid())
            assert.same({ nil, "not owner" }, { lock:unlock() })
        end
        assert.same({ nil, "unavailable" }, { lock:trylock("key") })
    end)

    it("can be waited for if this machine owns it, and is otherwise not reported as free", function ()
        assert.same({ nil, "held" }, { new():wait("key") })
        local lock = holding "key"
        assert.same({ nil, "timeout" }, { new():wait("key", { timeout = 0.01 }) })
        tasks.run(function ()
            scheduler.spawn(function ()
                repeat scheduler.sleep(0.001) until dict:waiters("key") == 1
                lock:unlock()
            end)
            assert.is_true(new():wait("key") > 0)
        end)
        assert.equal(0, new():wait("key"))
        lose()
        assert.same({ nil, "held" }, { new():wait("key") })
    end)

    it("is a lock, not an rwlock or a semaphore", function ()
        local rw, sem = rwlock:new(NAME), semaphore:new(NAME, { permits = 2 })
        for _, method in ipairs { "rdlock", "wrlock", "tryrdlock", "trywrlock" } do
            assert.same({ nil, UNSUPPORTED }, { rw[method](rw, "key") })
        end
        assert.same({ nil, UNSUPPORTED }, { rw:with_wr("key", error) })
        assert.same({ nil, UNSUPPORTED }, { sem:wait("key") })
        assert.same({ nil, UNSUPPORTED }, { sem:wait("key", 0) })
        assert.same({ nil, UNSUPPORTED }, { sem:count("key") })
    end)

    it("has a cluster that describes its session", function ()
        local found = dict:cluster()
        assert.same({ name = "main", agent = agent.pid, epoch = 1, machine = MACHINE, seconds = found.seconds,
                      state = "standing" }, found)
        assert.is_true(found.seconds > 3600)
        lose()
        local lost = dict:cluster()
        assert.matches("has no session with the store", lost.trouble)
        lost.trouble = nil
        assert.same({ name = "main", agent = agent.pid, epoch = 1, machine = MACHINE, seconds = 0, state = "lost" },
                    lost)
        agent:does "begin"
        assert.equal(2, dict:cluster().epoch)
        agent:kill()
        found = dict:cluster()
        assert.matches("^no agent of cluster", found.trouble)
        found.trouble = nil
        assert.same({ name = "main", epoch = 2, machine = MACHINE, seconds = found.seconds, state = "no agent" },
                    found)
        assert.is_true(found.seconds > 3600)
    end)

    it("does not affect values, which stay on this machine, with or without an agent", function ()
        agent:kill()
        assert.is_true(dict:set("value", 5))
        assert.equal(6, dict:incr("value", 1))
        assert.equal(6, dict:get("value"))
    end)


    describe("in the scheduler", function ()
        it("is requested by trylock while other tasks run", function ()
            agent:does "ignore key"
            local turns, over = 0, false
            tasks.run(function ()
                scheduler.spawn(function ()
                    while not over do
                        turns = turns + 1
                        scheduler.sleep(0.01)
                    end
                end)
                assert.same({ nil, "unavailable" }, { new():trylock("key") })
                over = true
            end)
            assert.is_true(turns > 5, turns)
        end)

        for _, renew in ipairs { false, true } do
            it("calls on_lost after its loss" .. (renew and ", also if it is renewed" or ""), function ()
                local told = {}
                tasks.run(function ()
                    local options = { exptime = 3600, renew = renew, on_lost = function (lock, key, reason)
                        told[#told + 1] = { key, reason, select(2, lock:unlock()) }
                    end }
                    local lock = holding("key", options)
                    lose()
                    local patience = none.now() + 60
                    repeat scheduler.sleep(0.001) until #told > 0 or none.now() > patience
                    agent:does "begin"
                    assert(lock:lock("key"))
                    scheduler.sleep(0.4)
                    assert.equal(1, lock:unlock())
                end)
                assert.same({ { "key", "not owner", "not owner" } }, told)
            end)
        end

        it("is no longer watched after its release", function ()
            tasks.run(function ()
                local lock = holding("key", { on_lost = error })
                assert.equal(1, lock:unlock())
                lose()
                scheduler.sleep(0.4)
            end)
        end)

        it("calls on_lost within 0.3 s", function ()
            expect.in_time(function ()
                local lost_at, told_at
                tasks.run(function ()
                    holding("key", { on_lost = function (lock)
                        told_at = none.now()
                        lock:unlock()
                    end })
                    lost_at = none.now()
                    lose()
                    repeat scheduler.sleep(0.001) until told_at
                end)
                agent:does "begin"
                return told_at - lost_at < 0.3
            end)
        end)
    end)
end)


describe("a lock of a cluster in nginx", function ()
    local in_nginx = fixture.it_unless(agents.missing() or site.missing())

    after_each(function ()
        site.clean_up()
        shdict.remove(NAME)
    end)

    local function start()
        return site.start {
            dictionaries = { [NAME] = "1m" },
            main = "env HOLDFAST_CLUSTER=" .. NAME .. "=main;",
            locations = {
                ["/cluster"] = [[
                    local dict = require("resty.lock"):new("spec_cluster", { cluster = true }).dict
                    ngx.say(dict:cluster().name)
                ]],
                ["/new"] = [[ngx.say(select(2, require("resty.lock"):new("spec_cluster")))]],
                ["/lock"] = [[
                    local lock = require("resty.lock"):new("spec_cluster", { timeout = 20 })
                    local elapsed, err = lock:lock("key")
                    ngx.say(elapsed and "has it" or err, ngx.shared.spec_cluster:get_keys()[1])
                ]],
                ["/try"] = [[
                    ngx.say(select(2, require("resty.lock"):new("spec_cluster"):trylock("key")))
                ]],
                ["/keep"] = [[
                    local told
                    local lock = require("resty.lock"):new("spec_cluster", {
                        exptime = 3600, timeout = 20,
                        on_lost = function (_, key, reason) told = key .. " " .. reason end })
                    assert(lock:lock("key"))
                    ngx.say "has it"
                    ngx.flush(true)
                    while not told do ngx.sleep(0.01) end
                    ngx.say(told, " ", lock:valid(), " ", select(2, lock:unlock()))
                ]],
            },
        }
    end

    in_nginx("belongs to a lua_shared_dict that HOLDFAST_CLUSTER names", function ()
        local here = start()
        assert.equal("main\n", here:get("/cluster"))
        assert.equal("unavailable\n", here:get("/try"))
        local waiting = here:send(1, "/lock")[1]
        local agent = agents.start { NAME }
        assert.equal("has itnil\n", waiting:receive())
        assert.equal(agent.pid, shdict.shared[NAME]:cluster().agent)
    end)

    in_nginx("calls on_lost after its loss while the request that holds it sleeps", function ()
        local here = start()
        here:get("/cluster")
        local agent = agents.start { NAME }
        local keeping = here:send(1, "/keep")[1]
        site.await("the lock is held", function () return shdict.shared[NAME]:holder("key") end)
        agent:does "lose"
        assert.equal("has it\nkey not owner false not owner\n", keeping:receive())
    end)

    in_nginx("is refused if a local dictionary has the name", function ()
        assert(shdict.open(NAME, { size = "1m" }))
        local here = start()
        assert.equal('dictionary "spec_cluster" exists and belongs to no cluster, but HOLDFAST_CLUSTER assigns it to '
                     .. 'the cluster "main"\n', here:get("/new"))
    end)
end)
