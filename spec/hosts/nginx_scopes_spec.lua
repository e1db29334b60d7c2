-- Tests lock/with.lua and host/nginx_threads.lua. A lock that `with` took is released even if nginx ends the request
-- during the function, and the lock's object can be used again.

local fixture, site = require "spec.support" ("fixture", "site")
local resty_lock = require "resty.lock"

local NAME = "spec_nginx_scopes"

-- Defines objects that a module keeps from one request to the next.
local COMMON = [[
    local dict = require("resty.shdict").open("spec_nginx_scopes")
    local kept = package.loaded.kept or {}
    package.loaded.kept = kept
    kept.lock = kept.lock or assert(require("resty.lock"):new(dict, { exptime = 600, timeout = 0 }))
    kept.rwlock = kept.rwlock or assert(require("resty.rwlock"):new(dict, { exptime = 600, timeout = 0 }))
    kept.semaphore = kept.semaphore or assert(require("resty.semaphore"):new(dict, { permits = 1, timeout = 0 }))
    local function with(fn)
        local what = ngx.var.arg_what
        if what == "lock" then
            return kept.lock:with("key", fn)
        elseif what == "rwlock" then
            return kept.rwlock:with_wr("key", fn)
        end
        return kept.semaphore:with("key", fn)
    end
]]

local LOCATIONS = {
    ["/exit"] = COMMON .. "with(function () ngx.exit(204) end)",
    ["/redirect"] = COMMON .. "with(function () ngx.redirect('/elsewhere') end)",
    ["/exec"] = COMMON .. "with(function () ngx.exec('/other') end)",
    ["/other"] = "ngx.print 'other'",
    ["/killed"] = COMMON .. [[
        local thread = ngx.thread.spawn(function () with(function () ngx.sleep(600) end) end)
        ngx.sleep(0.01)
        assert(ngx.thread.kill(thread))
        ngx.print "killed"
    ]],
    ["/elsewhere_exit"] = COMMON .. [[
        ngx.thread.spawn(function () with(function () ngx.sleep(600) end) end)
        ngx.exit(200)
    ]],
    ["/sleep"] = COMMON .. "dict:set('inside', true) with(function () ngx.sleep(600) end)",
    ["/use"] = COMMON .. "ngx.print(with(function () ngx.sleep(0.001) return 'ran' end))",
    -- Neither the caller's own coroutine nor a coroutine that it has resumed may count as gone.
    ["/nested"] = COMMON .. [[
        ngx.print(tostring(with(function ()
            local co = coroutine.create(function () return select(2, with(function () return "twice" end)) end)
            return select(2, coroutine.resume(co))
        end)))
    ]],
    -- One request ends before the worker's check, and another is cut off after the check.
    ["/draining"] = COMMON .. [[
        while not ngx.worker.exiting() do
            with(function () dict:set("inside", true) end)
            ngx.sleep(0.01)
        end
        ngx.sleep(0.5)
        local thread = ngx.thread.spawn(function () with(function () ngx.sleep(600) end) end)
        ngx.sleep(0.01)
        assert(ngx.thread.kill(thread))
        dict:set("cut off", true)
        while dict:get("cut off") do ngx.sleep(0.01) end
    ]],
    ["/waits"] = COMMON .. [[
        local lock = assert(require("resty.lock"):new(dict, { timeout = 5 }))
        local elapsed, err = lock:lock("key")
        ngx.print(elapsed and "got" or err)
        lock:unlock()
    ]],
    ["/long"] = COMMON .. [[
        ngx.print(with(function ()
            dict:set("inside", true)
            while not dict:get("go on") do ngx.sleep(0.005) end
            return "ran"
        end))
    ]],
}

local it = fixture.it_unless(site.missing())


describe("with, in nginx,", function ()
    local dict = fixture.site(NAME)

    local function is_free()
        local lock = resty_lock:new(NAME)
        return not dict:get("key") and (lock:trylock("key") and lock:unlock())
    end

    it("a request that reuses an ended request's memory does not wait for a lock that nobody holds", function ()
        local here = site.start { locations = LOCATIONS }
        for _ = 1, 3 do
            here:get("/exit?what=lock")
            assert.equal("got", (here:get("/waits")))
        end
    end)

    for _, what in ipairs { "lock", "rwlock", "semaphore" } do
        for _, ending in ipairs { "exit", "redirect", "exec", "killed", "elsewhere_exit" } do
            it("of a " .. what .. " in a request that ends by " .. ending .. " leaves nothing held", function ()
                local here = site.start { locations = LOCATIONS }
                for _ = 1, 3 do
                    here:get("/" .. ending .. "?what=" .. what)
                end
                if what ~= "semaphore" then
                    assert.equal("ran", (here:get("/use?what=" .. what)))
                end
                here:get("/" .. ending .. "?what=" .. what)
                site.await("it is given back", function ()
                    return here:get("/use?what=" .. what) == "ran"
                end, 5)
            end)
        end

        it("of a " .. what .. " is released even if the object is not used again", function ()
            local here = site.start { locations = LOCATIONS }
            here:get("/exit?what=" .. what)
            if what == "lock" then
                site.await("it is free", is_free, 5)
            end
            site.await("it is given back", function () return here:get("/use?what=" .. what) == "ran" end, 5)
        end)

        it("of a " .. what .. " in a request holds nothing after its client has disconnected", function ()
            local here = site.start { server = "lua_check_client_abort on;", locations = LOCATIONS }
            local connection = here:connect()
            connection:send("/sleep?what=" .. what)
            site.await("it is inside", function () return dict:get("inside") end)
            connection:close()
            site.await("it is given back", function () return here:get("/use?what=" .. what) == "ran" end, 5)
        end)

        it("of a " .. what .. " is not released while the function runs", function ()
            local here = site.start { locations = LOCATIONS }
            local connection = here:connect()
            connection:send("/long?what=" .. what)
            site.await("it is inside", function () return dict:get("inside") end)
            assert.is_true(here:get("/use?what=" .. what) ~= "ran")
            dict:set("go on", true)
            assert.equal("ran", (connection:receive()))
            assert.equal("ran", (here:get("/use?what=" .. what)))
            assert.not_equal("twice", (here:get("/nested?what=" .. what)))
        end)
    end

    it("is also released in a worker that is about to exit", function ()
        local here = site.start { locations = LOCATIONS }
        local connection = here:connect()
        connection:send("/draining?what=lock")
        site.await("it is inside", function () return dict:get("inside") end)
        here:signal("HUP")
        site.await("a request is cut off", function () return dict:get("cut off") end)
        site.await("it is free", is_free, 5)
        dict:delete("cut off")
        assert(connection:receive())
    end)

    it("works without a request, in init_by_lua", function ()
        local here = site.start {
            http = [[init_by_lua_block {
                local dict = require("resty.shdict").open("spec_nginx_scopes")
                local lock = require("resty.lock"):new(dict, { exptime = 600 })
                local function with()
                    return lock:with("key", function () return "ran" end)
                end
                ran = with() .. coroutine.wrap(with)()
            }]],
            locations = { ["/ran"] = "ngx.print(ran)" },
        }
        assert.equal("ranran", (here:get("/ran")))
        assert(is_free())
    end)
end)
