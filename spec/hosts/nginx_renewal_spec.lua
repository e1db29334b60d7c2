-- Tests host/nginx_jobs.lua: a lock that a light thread of nginx holds for a long time is renewed while the light
-- thread lives.

local expect, fixture, site, steps, waits =
    require "spec.support" ("expect", "fixture", "site", "steps", "waits")

local NAME = "spec_nginx_keeping"

local locations = steps.locations_with(NAME)

local it = fixture.it_unless(site.missing())


describe("in nginx", function ()
    local dict, lock = fixture.site(NAME)
    local await = steps.await_in(dict)

    -- Sends a request and waits until the request has reached the step. Returns the request's connection.
    local function begin(here, path, step)
        local connection = here:connect()
        connection:send(path)
        await(step)
        return connection
    end

    -- Returns whether the current grant is renewed three times. Returns false if the machine stalled for longer than
    -- the lease.
    local function is_kept(key)
        local holder = lock:holder(key)
        local grant, left, renewals = holder and holder.token, math.huge, 0
        while holder and holder.token == grant and renewals < 3 do
            renewals = renewals + (holder.remaining > left and 1 or 0)
            left = holder.remaining
            waits.sleep(0.01)
            holder = lock:holder(key)
        end
        return renewals == 3
    end

    describe("renew", function ()
        -- Starts a request that holds the lock until it may continue. Calls `act` while the request has the lock.
        -- Returns whether the request kept the lock.
        local function hold(act)
            dict:flush_all()
            local here = site.start { locations = locations { ["/hold"] = [[
                local lock = new { exptime = 0.6, renew = true }
                assert(lock:lock("key"))
                done "locked"
                await "go on"
                ngx.print(tostring(lock:unlock()))
            ]] } }
            local connection = begin(here, "/hold", "locked")
            local worker = here:workers()[1]
            act(here)
            local kept = is_kept "key"
            dict:set("go on", true)
            kept = connection:receive() == "1" and kept
            assert.is_nil(lock:holder("key"))
            return kept, here, worker
        end

        it("keeps a lock while its request runs", function ()
            expect.in_time(function ()
                local kept, here = hold(function () end)
                assert.is_nil(here:log():find("[error]", 1, true))
                return kept
            end)
        end)

        it("keeps a lock in a worker that is about to exit, and does not delay the worker's exit", function ()
            expect.in_time(function ()
                local kept, here, worker = hold(function (here) here:signal("HUP") end)
                site.await("the old worker is gone", function () return not site.alive(worker) end, 10)
                assert.is_nil(here:log():find("[error]", 1, true))
                return kept
            end)
        end)

        it("ends with the light thread, and the lock lapses although its object still exists", function ()
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
            local connection = begin(here, "/kill", "killed")
            site.await("the lock lapses", function () return not lock:holder("key") end)
            dict:set("go on", true)
            assert.equal("false", (connection:receive()))
        end)

        it("ends with a request when its client disconnects", function ()
            local here = site.start { server = "lua_check_client_abort on;", locations = locations { ["/hold"] = [[
                KEPT = new { exptime = 0.3, renew = true }
                assert(KEPT:lock("key"))
                done "locked"
                ngx.sleep(60)
            ]] } }
            begin(here, "/hold", "locked"):close()
            site.await("the lock lapses", function () return not lock:holder("key") end)
        end)

        it("calls on_lost, which may wait and fail, when the lock is lost", function ()
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
            site.await("the log has it", function () return here:log():find("holdfast: on_lost failed: ", 1, true) end)
            assert.is_truthy(here:log():find("failed on purpose", 1, true))
        end)

        it("refuses to take a lock that cannot be renewed", function ()
            local here = site.start { locations = locations { ["/log"] = {
                content = "ngx.print 'done'",
                log = [[done("log", tostring(select(2, new({ renew = true }):lock("key"))))]],
            } } }
            here:get("/log")
            assert.equal("cannot renew here: renewal needs an nginx phase that can wait", await "log")
            assert.is_nil(lock:holder("key"))
        end)
    end)
end)
