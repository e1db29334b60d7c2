-- Tests locks in an nginx that reloads, exits or loses a worker, and locks that other programs use at the same time.

local fixture, process, site = require "spec.support" ("fixture", "process", "site")

local NAME = "spec_nginx_life"
-- The number of seconds within which an old worker exits after its last request. It is 2, plus 3 in case the machine
-- stalls.
local EXIT_PATIENCE = 5
local PATIENCE = 20

-- Prepended to each location.
local COMMON = [[
    local dict = assert(require("resty.shdict").open("spec_nginx_life", { size = "1m" }))
    local function new(options)
        return assert(require("resty.lock"):new("spec_nginx_life", options or { timeout = 20, exptime = 60 }))
    end
]]

local LOCATIONS = {
    -- Increments a counter with a read and a write, which only the lock makes safe. Reports how many requests were in
    -- the critical section at the same time.
    ["/count"] = [[
        local lock = new()
        local elapsed, err = lock:lock("counter")
        if not elapsed then
            return ngx.print(err)
        end
        local inside = dict:incr("inside", 1, 0)
        local n = dict:get("n") or 0
        ngx.sleep(0.001)
        dict:set("n", n + 1)
        dict:incr("inside", -1)
        local ok, reason = lock:unlock()
        ngx.print(ok and inside or reason)
    ]],
    ["/hold"] = "local lock = new()\n" .. site.HOLD,
    -- Ends without releasing the lock, which the worker keeps.
    ["/keep"] = [[
        package.loaded.kept = new()
        ngx.print(package.loaded.kept:lock("key"))
    ]],
    ["/wait"] = [[
        local lock = new()
        local elapsed, err = lock:lock("key")
        ngx.print(elapsed and "got" or err)
        if elapsed then
            lock:unlock()
        end
    ]],
    ["/wait-shortly"] = [[
        local elapsed, err = new({ timeout = tonumber(ngx.var.arg_timeout) }):lock("key")
        ngx.print(elapsed or err)
    ]],
    ["/try"] = [[
        local ok, err = new():trylock("key")
        ngx.print(ok and "got" or err)
    ]],
}

-- A plain script that takes a lock.
local SCRIPT = COMMON .. [[
    local lock = new { timeout = 15, exptime = 60 }
]]

local it = fixture.it_unless(site.missing())


local function start(options)
    options = options or {}
    options.locations = options.locations or {}
    for path, source in pairs(LOCATIONS) do
        options.locations[path] = options.locations[path] or COMMON .. source
    end
    return site.start(options)
end


-- Returns the worker that answers this connection.
local function worker_of(connection)
    return tonumber((connection:get("/worker")))
end


local function await_exit(pid, seconds)
    site.await("worker " .. pid .. " exits", function () return not site.alive(pid) end, seconds or EXIT_PATIENCE)
end


describe("the life of nginx", function ()
    local dict, lock = fixture.site(NAME)

    local function await_waiters(count, key)
        site.await(count .. " wait", function ()
            local holder = lock:holder(key or "key")
            return holder and holder.waiters == count
        end)
    end

    -- Waits until a new worker answers. The old worker may have to exit first.
    local function reload(here, old)
        here:signal("HUP")
        site.await("a new worker answers", function () return tonumber((here:get("/worker"))) ~= old end)
    end

    local function assert_exits_with_reload(here)
        local old = here:workers()[1]
        here:signal("HUP")
        await_exit(old)
    end

    local function await_held()
        site.await("the request holds the lock", function () return dict:get("held") end)
    end

    -- Expects that the key has neither a holder nor a waiter.
    local function assert_free(key)
        site.await("nobody has the lock of " .. key, function () return lock:holder(key) == nil end)
        assert.is_true(lock:trylock(key))
        assert.equal(0, lock:holder(key).waiters)
        assert.equal(1, lock:unlock())
    end

    it("reloads under load lose no lock and leave no request waiting", function ()
        local here = start { workers = 2 }
        local old = {}
        site.storm(function () return here:connect() end, "/count", 600, function (answered)
            if answered % 150 == 0 and answered < 600 then
                for _, pid in ipairs(here:workers()) do
                    old[pid] = true
                end
                here:signal("HUP")
            end
        end)
        assert.equal(600, dict:get("n"))
        site.await("a worker is replaced", function ()
            local gone = {}
            for pid in pairs(old) do
                gone[pid] = true
            end
            for _, pid in ipairs(here:workers()) do
                gone[pid] = nil
            end
            return next(gone)
        end)
        assert_free("counter")
        site.await("only new workers are left", function () return #here:workers() == 2 end, EXIT_PATIENCE)
    end)

    it("a running request keeps its lock during a reload", function ()
        local here = start()
        local holder = here:connect()
        local old = worker_of(holder)
        holder:send("/hold")
        await_held()
        reload(here, old)
        assert.equal("held", here:get("/try"))

        local waiter = here:connect()
        waiter:send("/wait")
        await_waiters(1)
        assert.is_true(site.alive(old))
        dict:set("go", true)
        assert.equal("1", holder:receive())
        await_exit(old)
        assert.equal("got", waiter:receive())
        assert_free("key")
    end)

    it("requests that wait when nginx reloads get the lock, and their worker exits soon afterwards", function ()
        local here = start()
        assert.is_true(lock:trylock("key"))
        local waiters = here:send(5, "/wait")
        await_waiters(5)
        local old = here:workers()[1]
        reload(here, old)
        assert.is_true(site.alive(old))
        assert.equal(1, lock:unlock())
        for _, waiter in ipairs(waiters) do
            assert.equal("got", waiter:receive())
        end
        await_exit(old)
    end)

    it("a worker that waited for locks a moment ago exits soon after a reload", function ()
        local here = start()
        assert.is_true(lock:trylock("key"))
        assert.equal("timeout", here:get("/wait-shortly?timeout=0.2"))
        assert_exits_with_reload(here)
    end)

    it("data survive a reload if init_worker_by_lua opens them, and a restart if they are persistent", function ()
        local OPEN = [[
            local shdict = require "resty.shdict"
            kept = shdict.open("spec_nginx_kept", { size = "100k" })
            data = shdict.open("spec_nginx_data", { size = "100k", persist = false })
        ]]
        local world = os.getenv("HOLDFAST_DIR") .. "/data" -- not the spec's own runtime directory
        local here = site.start {
            env = { HOLDFAST_DIR = world },
            http = "init_worker_by_lua_block { " .. OPEN .. " }",
            locations = {
                ["/set"] = "kept:set('a', 1) data:set('b', 2)",
                ["/get"] = "ngx.print(kept:get('a'), ' ', data:get('b'))",
                ["/stay"] = "while not ngx.shared.go:get('go') do ngx.sleep(0.005) end",
                ["/go"] = "ngx.shared.go:set('go', true)",
            },
            dictionaries = { go = "12k" },
        }
        here:get("/set")
        local staying = here:connect()
        local old = worker_of(staying)
        staying:send("/stay")
        reload(here, old)
        here:get("/go")
        staying:receive()
        await_exit(old)
        assert.equal("1 2", here:get("/get"))

        here:signal("TERM")
        await_exit(here.master.pid, PATIENCE)
        local text = process.run(OPEN .. "print(kept:get('a'), data:get('b')) shdict.remove('spec_nginx_kept')",
            { env = { HOLDFAST_DIR = world } })
        assert.equal("1\tnil\n", text)
        os.execute("rm -rf '" .. world .. "'")
    end)

    it("a graceful quit lets waiters get the lock or time out", function ()
        local here = start { workers = 2 }
        assert.is_true(lock:trylock("key"))
        local patient, hasty = here:connect(), here:connect()
        patient:send("/wait")
        hasty:send("/wait-shortly?timeout=2")
        await_waiters(2)
        here:signal("QUIT")
        assert.equal("timeout", hasty:receive())
        assert.is_false(patient:answered())
        assert.equal(1, lock:unlock())
        assert.equal("got", patient:receive())
        await_exit(here.master.pid)
    end)

    it("a killed worker's lock goes to a waiter in another worker", function ()
        local here = start { workers = 2 }
        local each = here:connect_to_each(2)
        local victim = worker_of(each[1])
        assert.equal("0", each[1]:get("/keep"))
        each[2]:send("/wait")
        await_waiters(1)
        here:signal("KILL", victim)
        assert.equal("got", each[2]:receive()) -- exptime is 60 seconds

        site.await("the worker is replaced", function ()
            return #here:workers() == 2 and not site.alive(victim)
        end)
        local again = here:connect_to_each(2)
        for _, connection in ipairs(again) do
            assert.equal("got", connection:get("/wait"))
        end
        assert_free("key")
    end)

    it("without the code cache, requests wait for each other, and their Lua states leave nothing behind", function ()
        local here = start { http = "lua_code_cache off;" }
        local pid = here:workers()[1]
        local function settled()
            site.await("the wake threads end", function () return site.count(pid, "task") == 1 end)
            return site.count(pid, "fd")
        end
        site.storm(function () return here:connect() end, "/count", 24)
        local before = settled()
        site.storm(function () return here:connect() end, "/count", 36)
        assert.equal(60, dict:get("n"))
        site.await("descriptors are closed", function () return settled() <= before end)

        -- If a request still holds a lock at its end, the lock is released when the request's Lua state is closed.
        assert.equal("0", here:get("/keep"))
        site.await("the lock is free", function () return lock:trylock("key") end)
        assert.is_nil(here:log():find("[error]", 1, true))
    end)

    it("when its client disconnects, a request's lock expires or is released by the collector", function ()
        local here = start {
            http = "lua_check_client_abort on;",
            locations = {
                ["/hold"] = COMMON .. [[
                    local lock = new { exptime = tonumber(ngx.var.arg_exptime) }
                    assert(lock:lock("key"))
                    dict:set("held", true)
                    ngx.sleep(60)
                ]],
                ["/collect"] = "collectgarbage() collectgarbage() ngx.print('done')",
            },
        }
        local function leave_behind(exptime)
            dict:delete("held")
            local holder = here:connect()
            holder:send("/hold?exptime=" .. exptime)
            await_held()
            holder:close()
        end
        leave_behind(0.3)
        assert.equal("got", here:get("/wait"))

        leave_behind(600)
        site.await("the lock is collected", function ()
            return here:get("/collect") == "done" and here:get("/try") == "got"
        end)
    end)

    -- After this timeout, nginx closes all connections, including the connection to the wake thread.
    it("worker_shutdown_timeout ends a worker with waiters, without a complaint in the log", function ()
        local here = start { main = "worker_shutdown_timeout 100ms;" }
        local script = process.start(SCRIPT .. "say(lock:lock('key')); hear()")
        assert.equal("0", script:hear())
        local waiter = here:connect()
        waiter:send("/wait")
        await_waiters(1)
        local worker = here:workers()[1]
        here:signal("QUIT")
        site.await("the worker exits", function () return not site.alive(worker) end, PATIENCE)
        assert.falsy(here:log():find("holdfast: ", 1, true), here:log())
        await_waiters(0)
    end)

    it("two nginx instances share a dictionary and its locks", function ()
        local one, other = start(), start()
        site.storm(function (number) return (number % 2 == 0 and one or other):connect() end, "/count", 200)
        assert.equal(200, dict:get("n"))

        assert.equal("0", one:get("/keep"))
        local waiter = other:connect()
        waiter:send("/wait")
        await_waiters(1)
        one:signal("KILL", one:workers()[1])
        assert.equal("got", waiter:receive())
    end)

    it("one of two nginx instances that share a dictionary may end", function ()
        local one, other = start(), start()
        site.storm(function () return one:connect() end, "/count", 20)
        assert.equal("0", one:get("/keep"))
        one:stop()
        assert.equal("got", other:get("/wait"))
        site.storm(function () return other:connect() end, "/count", 20)
        assert.equal(40, dict:get("n"))
    end)

    it("nginx waits for a plain script, and gets the lock when the script releases it or is killed", function ()
        local here = start()
        for _, ending in ipairs { "unlock", "kill" } do
            local script = process.start(SCRIPT .. [[
                say(lock:lock("key"))
                hear()
                lock:unlock()
                hear()
            ]])
            assert.equal("0", script:hear())
            local waiter = here:connect()
            waiter:send("/wait")
            await_waiters(1)
            if ending == "unlock" then
                script:say("unlock")
            else
                script:kill()
            end
            assert.equal("got", waiter:receive())
            script:kill()
            script:wait()
        end
        assert_free("key")
    end)

    it("a plain script waits for nginx", function ()
        local here = start()
        local holder = here:connect()
        holder:send("/hold")
        await_held()
        local script = process.start(SCRIPT .. [[
            local elapsed = lock:lock("key")
            say(elapsed and elapsed > 0, lock:unlock())
        ]])
        await_waiters(1)
        dict:set("go", true)
        assert.equal("true\t1", script:hear())
        assert.equal("1", holder:receive())
        assert_free("key")
    end)
end)
