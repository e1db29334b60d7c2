-- Locks that the light threads of nginx hold for long: they are renewed as long as the light thread lives, and a
-- deadlock between requests is told, but none where somebody could still release.

local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"
local site = require "spec.support.site"

local NAME = "spec_nginx_keeping"

-- A request does one step after the other when the spec says so, by steps(n) in the dictionary.
local COMMON = [[
    local dict = require("resty.shdict").open("spec_nginx_keeping")
    local function new(options) return assert(require("resty.lock"):new("spec_nginx_keeping", options)) end
    local function await(step)
        while not dict:get(step) do ngx.sleep(0.002) end
    end
    local function done(step, ...)
        dict:set(step, table.concat({ ... }, " "))
    end
    -- What came of the wait for a key, which is released if it was got.
    local function try(key)
        local lock = new { timeout = 15 }
        local elapsed, err, keys = lock:lock(key)
        if elapsed then
            lock:unlock()
        end
        return elapsed and "got" or err .. (keys and " " .. table.concat(keys, ",") or "")
    end
]]

local missing = site.missing()
local it = missing and function (text) pending(text .. ": " .. missing) end or it


local function locations(sources)
    local all = {}
    for path, location in pairs(sources) do
        if type(location) == "string" then
            location = { content = location }
        end
        for phase, source in pairs(location) do
            location[phase] = COMMON .. source
        end
        all[path] = location
    end
    return all
end


describe("in nginx", function ()
    local dict, lock

    before_each(function ()
        dict = assert(shdict.open(NAME, { size = "1m" }))
        dict:flush_all()
        lock = assert(resty_lock:new(NAME, { exptime = 600 }))
    end)

    after_each(function ()
        site.clean_up()
        lock:unlock()
    end)

    local function await(step)
        return site.await(step, function () return dict:get(step) end)
    end

    local function await_waiter(key)
        site.await("somebody waits for " .. key, function ()
            local holder = lock:holder(key)
            return holder and holder.waiters > 0
        end)
    end

    local function sleep(seconds)
        require("ffi").C.usleep(seconds * 1e6)
    end

    local function assert_kept(key, seconds)
        local grant = assert(lock:holder(key)).token
        for _ = 1, seconds / 0.05 do
            sleep(0.05)
            local holder = lock:holder(key)
            assert.equal(grant, holder and holder.token)
            assert.is_true(holder.remaining > 0)
        end
    end


    describe("renew", function ()
        local HOLD = [[
            local lock = new { exptime = 4, renew = true }
            assert(lock:lock("key"))
            done "locked"
            await "go on"
            ngx.print(lock:unlock())
        ]]

        it("keeps a lock while its request goes on", function ()
            local here = site.start { locations = locations { ["/hold"] = HOLD } }
            local connection = here:connect()
            connection:send("/hold")
            await "locked"
            assert_kept("key", 4.5)
            dict:set("go on", true)
            assert.equal("1", (connection:receive()))
            assert.is_nil(lock:holder("key"))
            assert.is_nil(here:log():find("[error]", 1, true))
        end)


        it("keeps it in a worker that is told to exit, and does not keep the worker", function ()
            local here = site.start { locations = locations { ["/hold"] = HOLD } }
            local connection = here:connect()
            connection:send("/hold")
            await "locked"
            local worker = here:workers()[1]
            here:signal("HUP")
            assert_kept("key", 4.5)
            dict:set("go on", true)
            assert.equal("1", (connection:receive()))
            site.await("the old worker is gone", function () return not site.alive(worker) end, 10)
            assert.is_nil(here:log():find("[error]", 1, true))
        end)


        it("ends with the light thread: the lock lapses, though its object is still there", function ()
            local here = site.start { locations = locations { ["/leave"] = [[
                KEPT = new { exptime = 0.3, renew = true }
                assert(KEPT:lock("key"))
            ]] } }
            here:get("/leave")
            site.await("the lock lapses", function () return not lock:holder("key") end)
            assert.equal(0, lock:lock("key"))
        end)


        it("ends with a light thread that is killed", function ()
            local here = site.start { locations = locations { ["/kill"] = [[
                local kept = new { exptime = 0.3, renew = true }
                local thread = ngx.thread.spawn(function () assert(kept:lock("key")) ngx.sleep(60) end)
                assert(ngx.thread.kill(thread))
                done "killed"
                await "go on"
                ngx.print(tostring(kept:valid()))
            ]] } }
            local connection = here:connect()
            connection:send("/kill")
            await "killed"
            site.await("the lock lapses", function () return not lock:holder("key") end)
            dict:set("go on", true)
            assert.equal("false", (connection:receive()))
        end)


        it("ends with a request whose client went away", function ()
            local here = site.start { server = "lua_check_client_abort on;", locations = locations { ["/hold"] = [[
                KEPT = new { exptime = 0.3, renew = true }
                assert(KEPT:lock("key"))
                done "locked"
                ngx.sleep(60)
            ]] } }
            local connection = here:connect()
            connection:send("/hold")
            await "locked"
            connection:close()
            site.await("the lock lapses", function () return not lock:holder("key") end)
        end)


        it("tells on_lost when the lock is lost; it may wait, and fail", function ()
            local here = site.start { locations = locations { ["/lose"] = [[
                local lock = new { exptime = 0.3, renew = true, on_lost = function (_, key, why)
                    ngx.sleep(0.01)
                    done("lost", key, why)
                    error "failed on purpose"
                end }
                assert(lock:lock("key"))
                dict:delete("key")
                await "lost"
                ngx.sleep(0.01)
                ngx.print(select(2, lock:unlock()))
            ]] } }
            assert.equal("not owner", (here:get("/lose")))
            assert.equal("key not owner", dict:get("lost"))
            site.await("the log tells", function () return here:log():find("holdfast: on_lost failed: ", 1, true) end)
            assert.is_truthy(here:log():find("failed on purpose", 1, true))
        end)


        it("says so where a lock cannot be renewed, and takes none there", function ()
            local here = site.start { locations = locations { ["/log"] = {
                content = "ngx.print 'done'",
                log = [[done("log", tostring(select(2, new({ renew = true }):lock("key"))))]],
            } } }
            here:get("/log")
            assert.equal("cannot renew here: in nginx locks are renewed only where one can wait for them", await "log")
            assert.is_nil(lock:holder("key"))
        end)
    end)


    describe("a deadlock", function ()
        -- Takes one key, and then wants the other.
        local CROSS = [[
            local mine, other = ngx.var.arg_mine, ngx.var.arg_other
            local lock = new { exptime = 60 }
            assert(lock:lock(mine))
            done(mine .. " taken", "")
            await(other .. " taken")
            local outcome = try(other)
            lock:unlock()
            ngx.print(outcome)
        ]]

        local function assert_one_is_told(first, second)
            first:send("/cross?mine=a&other=b")
            second:send("/cross?mine=b&other=a")
            local outcomes = { (first:receive(30)), (second:receive(30)) }
            local told = outcomes[1] == "got" and 2 or 1
            assert.equal("got", outcomes[3 - told])
            assert.equal(told == 1 and "deadlock b,a" or "deadlock a,b", outcomes[told])
        end

        it("of two requests of one worker is told to one, and the other goes on", function ()
            local here = site.start { locations = locations { ["/cross"] = CROSS } }
            assert_one_is_told(here:connect(), here:connect())
        end)


        it("of requests of two workers is told to one, and the other goes on", function ()
            local here = site.start { workers = 2, locations = locations { ["/cross"] = CROSS } }
            local connections = here:connect_to_each(2)
            assert_one_is_told(connections[1], connections[2])
        end)


        -- Holds b and wants a, whoever has that.
        local HOLDER_OF_B = [[
            local lock = new { exptime = 60 }
            assert(lock:lock("b"))
            done "b taken"
            await "a taken"
            local outcome = try "a"
            lock:unlock()
            ngx.print(outcome)
        ]]

        it("is none while another light thread of the request holds what is waited for", function ()
            local here = site.start { locations = locations { ["/b"] = HOLDER_OF_B, ["/a"] = [[
                local lock = new { exptime = 60 }
                await "b taken"
                assert(lock:lock("a"))
                done "a taken"
                local thread = ngx.thread.spawn(function () return try "b" end)
                await "go on"
                lock:unlock()
                ngx.print(select(2, ngx.thread.wait(thread)))
            ]] } }
            local a, b = here:connect(), here:connect()
            b:send("/b")
            a:send("/a")
            await_waiter "a"
            await_waiter "b"
            sleep(0.1)
            dict:set("go on", true)
            assert.equal("got", (a:receive()))
            assert.equal("got", (b:receive()))
        end)


        -- nginx uses the coroutine of a request again as soon as that is over.
        it("is none when another request has the coroutine of the one that took the lock", function ()
            local here = site.start { locations = locations {
                ["/b"] = HOLDER_OF_B,
                ["/a"] = [[
                    TAKEN = new { exptime = 60 }
                    assert(TAKEN:lock("a"))
                    done "a taken"
                ]],
                ["/release"] = [[
                    await "go on"
                    ngx.print(TAKEN:unlock())
                ]],
                ["/want"] = "ngx.print(try 'b')",
            } }
            local b, release, wanting = here:connect(), here:connect(), {}
            b:send("/b")
            release:send("/release")
            await "b taken"
            here:get("/a")
            for i = 1, 5 do
                wanting[i] = here:connect()
                wanting[i]:send("/want")
            end
            await_waiter "a"
            await_waiter "b"
            sleep(0.1)
            dict:set("go on", true)
            assert.equal("1", (release:receive()))
            assert.equal("got", (b:receive()))
            for i = 1, 5 do
                assert.equal("got", (wanting[i]:receive()))
            end
        end)


        it("is none where somebody waited whose client went away", function ()
            local here = site.start { server = "lua_check_client_abort on;", locations = locations {
                ["/other"] = [[
                    OTHER = new { exptime = 60 }
                    assert(OTHER:lock("other"))  -- who holds nothing is in no circle
                    collectgarbage "stop"
                ]],
                ["/want"] = "try 'b'",
                ["/b"] = HOLDER_OF_B,
                ["/a"] = [[
                    local lock = new { exptime = 60 }
                    assert(lock:lock("a"))
                    done "a taken"
                    await "go on"
                    ngx.print(lock:unlock())
                ]],
            } }
            here:get("/other")
            local a, b = here:connect(), here:connect()
            b:send("/b")
            await "b taken"
            for _ = 1, 5 do
                local wanting = here:connect()
                wanting:send("/want")
                await_waiter "b"
                wanting:close()
            end
            sleep(0.1)
            a:send("/a")
            await_waiter "a"
            sleep(0.1)
            dict:set("go on", true)
            assert.equal("1", (a:receive()))
            assert.equal("got", (b:receive()))
        end)
    end)
end)
