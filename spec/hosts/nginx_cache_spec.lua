-- Tests cache.lua in the workers of a real nginx: loads that workers share, background refreshes, phases that cannot
-- wait, loaders that are killed, and reloads.

local fixture, site = require "spec.support" ("fixture", "site")
local cache = require "resty.holdfast.cache"
local shdict = require "resty.shdict"

local COMMON = site.IN_THREADS .. [[
    local cache = require("resty.holdfast.cache").new("pages", "spec_nginx_cache", { ttl = 60 })
    local counts = require("resty.shdict").find("spec_nginx_calls") or
                   require("resty.shdict").open("spec_nginx_calls", { size = "100k" })
    local function load(value, seconds)
        counts:incr("calls", 1, 0)
        if seconds then ngx.sleep(seconds) end
        return value
    end
]]

local it = fixture.it_unless(site.missing())


describe("a cache in nginx", function ()
    local counts = fixture.site("spec_nginx_calls", { size = "100k" })
    local dict, mine

    before_each(function ()
        shdict.remove("spec_nginx_cache")
        mine = assert(cache.new("pages", "spec_nginx_cache", { size = "2m" }))
        dict = mine.dict
    end)

    local function calls()
        return counts:get("calls") or 0
    end

    local function start(locations, options)
        for path, source in pairs(locations) do
            locations[path] = type(source) == "string" and COMMON .. source or source
        end
        options = options or {}
        options.locations = locations
        return site.start(options)
    end

    it("calls only one loader when all light threads of all workers miss a value", function ()
        local here = start({ ["/get"] = [[
            ngx.print(in_threads(100, function ()
                return cache:get("key", nil, load, 1, 0.2)
            end))
        ]] }, { workers = 2 })
        local connections = here:connect_to_each(2)
        for _, connection in ipairs(connections) do
            connection:send("/get")
        end
        for _, connection in ipairs(connections) do
            assert.equal("100", (connection:receive(60)))
        end
        assert.equal(1, calls())
    end)

    it("new in init_by_lua does not open the dictionary, and the workers use the declared size", function ()
        shdict.remove("spec_nginx_cache")
        local here = start({ ["/get"] = [[
            local value, err, level = shared_cache:get("key", nil, load, "value")
            ngx.print(value, " ", err, " ", level, " ", require("resty.shdict").find("spec_nginx_cache"):capacity())
        ]] }, {
            dictionaries = { spec_nginx_cache = "3m" },
            http = [[init_by_lua_block {
                shared_cache = assert(require("resty.holdfast.cache").new("pages", "spec_nginx_cache"))
                assert(not shared_cache.dict)
            }]],
        })
        assert.equal("value nil 3 3145728", (here:get("/get")))
    end)

    it("a copy ends when its value ends, and when another process sets the value", function ()
        local here = start { ["/get"] = [[
            cache:set("short", { ttl = 0.05 }, 1)
            local before = select(3, cache:get("short"))
            ngx.sleep(0.06)
            ngx.print(before, (select(3, cache:get("short"))), (cache:get("long")), (select(3, cache:get("long"))))
        ]] }
        for i = 1, 5 do
            mine:set("long", nil, i)
            assert.equal("1-1" .. i .. "1", (here:get("/get")))
        end
    end)

    it("a stale value is served at once, while a timer loads a new one", function ()
        local here = start { ["/get"] = [[
            local value, _, level = cache:get("key", { ttl = 0.05, stale_ttl = 60 }, load, "new", 0.05)
            ngx.print(value, level)
        ]] }
        mine:set("key", { ttl = 0.05, stale_ttl = 60 }, "old")
        site.await("it is stale", function () return here:get("/get") == "old4" end)
        site.await("the timer has loaded", function () return dict:get("pages:key") == "new" end)
        assert.equal(1, calls())
    end)

    it("in a phase that cannot wait, get returns an existing value, or an error if another caller loads it", function ()
        local here = start { ["/log"] = { content = "ngx.print(1)", directives = "log_by_lua_block {" .. COMMON .. [[
            cache:set("found", nil, 1)
            local _, err = cache:get("key", nil, load, 1)
            local value = cache:get("found") + cache:get("free", nil, load, 2)
            counts:set("log", value .. tostring(err))
        }]] } }
        mine:get("key", nil, function ()
            here:get("/log")
            site.await("the log phase has run", function () return counts:get("log") end)
            return 1
        end)
        assert.matches("^3could not acquire callback lock: cannot wait here: API disabled in the context of log_by_lua",
                       counts:get("log"))
    end)

    it("the next caller loads when the request with the loader is terminated", function ()
        local here = start {
            ["/never"] = [[
                local thread = ngx.thread.spawn(function () cache:get("key", nil, load, 1, 600) end)
                while not counts:get("stop") do ngx.sleep(0.005) end
                ngx.exit(200)
            ]],
            ["/get"] = [[ ngx.print(cache:get("key", nil, load, "mine")) ]],
        }
        local first = here:connect()
        first:send("/never")
        site.await("it loads", function () return calls() == 1 end)
        local second = here:connect()
        second:send("/get")
        site.await("the other waits", function () return dict:waiters("!pages:key") == 1 end)
        counts:set("stop", true)
        assert.matches("^mine", (second:receive(60)))
        assert.equal(2, calls())
    end)

    it("values outlive a reload, and so does a load in progress", function ()
        local here = start { ["/get"] = [[ ngx.print(cache:get("key", nil, load, ngx.worker.pid(), 0.3)) ]] }
        local connection = here:connect()
        connection:send("/get")
        site.await("it loads", function () return calls() == 1 end)
        local before = here:workers()[1]
        here:signal("HUP")
        site.await("there are new workers", function ()
            return here:get("/worker") ~= tostring(before)
        end)
        assert.equal(tostring(before), (here:get("/get")):match("%d+"))
        assert.equal(tostring(before), (connection:receive(60)):match("%d+"))
        assert.equal(1, calls())
    end)

    it("get_bulk runs loaders in light threads", function ()
        local here = start { ["/bulk"] = [[
            local bulk, running, most = cache.new_bulk(), 0, 0
            for i = 1, 6 do
                bulk:add("key" .. i, nil, function ()
                    running = running + 1
                    most = math.max(most, running)
                    ngx.sleep(0.01)
                    running = running - 1
                    return i
                end)
            end
            local sum = 0
            for _, value in cache.each_bulk_res(cache:get_bulk(bulk)) do sum = sum + value end
            ngx.print(sum, " ", most)
        ]] }
        assert.equal("21 3", (here:get("/bulk")))
    end)
end)
