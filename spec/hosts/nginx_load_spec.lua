-- Tests later.lua in nginx: which modules a request compiles, and that no call reads a file after the start.

local fixture, site = require "spec.support" ("fixture", "site")

local NAME = "spec_nginx_load"
local UNCACHED = "lua_code_cache off; "

local it = fixture.it_unless(site.missing())

-- Prepended to each location. `loaded` returns the library's modules in this Lua state, by their names without
-- "resty." and "holdfast.".
local COMMON = [[
    local function loaded()
        local found, count = {}, 0
        for name, module in pairs(package.loaded) do
            local short = name:match("^resty%.holdfast%.(.*)$") or name:match("^resty%.(%a*lock)$")
            if short and name ~= "resty.lrucache" and module then
                found[short] = true
                count = count + 1
            end
        end
        return found, count
    end
    local function new(options)
        return assert(require("resty.lock"):new("spec_nginx_load", options))
    end
]]

-- For each kind of method, the expected results and the calls. The calls run in a Lua state that has compiled no module
-- for them yet, and that cannot find files.
local METHODS = {
    cluster = { 'dictionary "spec_nginx_load" belongs to no cluster', [[
        return select(2, require("resty.lock"):new("spec_nginx_load", { cluster = true }))
    ]] },
    deadlock = { "0 1", [[ local lock = new { deadlock = true } return lock:lock("deadlock"), lock:unlock() ]] },
    dictionary = { "true 1 true", [[
        local dict = new().dict
        return dict:set("k", 1), dict:get("k"), rawget(getmetatable(dict), "incr") ~= nil
    ]] },
    expire = { "true true", [[
        local lock = new() lock:lock("expire") return lock:expire(90), lock:remaining() > 80
    ]] },
    hand_over = { "true true", [[
        local lock = new { deadlock = true } lock:lock("hand_over")
        return lock:hand_over(), lock:token() > 0
    ]] },
    holder = { "true", [[
        local lock = new() lock:lock("holder") return lock:holder("holder").process == ngx.worker.pid()
    ]] },
    holders = { "1 0", [[
        local lock = new() lock:lock("holders") return #lock:holders("holders"), lock:waiters("holders")
    ]] },
    lost = { "nil lost not owner 1", [[
        local lock = new { exptime = 0.02, on_lost = function (_, key, err) ngx.ctx.told = key .. " " .. err end }
        lock:lock("lost")
        ngx.sleep(0.1)
        local other = new()
        other:lock("lost")
        return lock:unlock(), ngx.ctx.told, other:unlock()
    ]] },
    renew = { "1", [[
        local lock = new { renew = true, exptime = 0.3 }
        lock:lock("renew")
        ngx.sleep(0.6)
        return lock:unlock()
    ]] },
    trylock = { "true held 1", [[
        local lock = new()
        return lock:trylock("trylock"), select(2, new():trylock("trylock")), lock:unlock()
    ]] },
    verify = { "true true", [[ local lock = new() lock:lock("verify") return lock:verify(), lock:valid() ]] },
    wait = { "0", [[ return new():wait("free") ]] },
    wait_for = { "nil timeout", [[
        local lock = new() lock:lock("wait_for") return new():wait("wait_for", { timeout = 0.01 })
    ]] },
    timeout = { "nil timeout", [[
        local lock = new() lock:lock("timeout")
        return new({ timeout = 0.01, log_timeouts = true }):lock("timeout")
    ]] },
    with = { "inside", [[ return new():with("with", function () return ngx.sleep(0.001) or "inside" end) ]] },
    rwlock = { "0 true 0 1 read", [[
        local rwlock = require("resty.rwlock"):new("spec_nginx_load")
        local wrote = rwlock:wrlock("rw")
        return wrote, rwlock:downgrade(), rwlock:upgrade(), rwlock:unlock(),
               rwlock:with_rd("rw", function () return "read" end)
    ]] },
    upgrade = { "deadlock true", [[
        local first, second = require("resty.rwlock"):new("spec_nginx_load"),
                              require("resty.rwlock"):new("spec_nginx_load")
        first:rdlock("up")
        second:rdlock("up")
        local thread = ngx.thread.spawn(function () return first:upgrade() > 0 end)
        local _, err = second:upgrade()
        second:unlock()
        return err, select(2, ngx.thread.wait(thread))
    ]] },
    semaphore = { "true timeout true", [[
        local semaphore = require("resty.semaphore"):new("spec_nginx_load", { permits = 1, timeout = 0.01 })
        return semaphore:wait("s"), select(2, semaphore:wait("s")), semaphore:post("s")
    ]] },
}

local LOCATIONS = {
    ["/free"] = [[
        local lock = new()
        assert(lock:lock("free"))
        assert(lock:unlock())
        local found, count = loaded()
        ngx.print(count < 16, " ", found.scheduler, found.host, found["lock.lock_info"], found["dictionary.values"])
    ]],
    ["/held"] = [[
        local lock = new { timeout = 20 }
        local elapsed = lock:lock("held")
        ngx.say(elapsed > 0)
        lock:unlock()
        local found, count = loaded()
        ngx.print(count < 26, " ", found["host.nginx"], " ", found.scheduler, found["lock.lock_info"])
    ]],
}

for name, method in pairs(METHODS) do
    LOCATIONS["/method/" .. name] = [[
        local function say(...)
            local said = {}
            for i = 1, select("#", ...) do
                said[i] = tostring((select(i, ...)))
            end
            ngx.print(table.concat(said, " "))
        end
        require "resty.lock"
        require "resty.rwlock"
        require "resty.semaphore"
        package.path, package.cpath = "", ""
        say((function () ]] .. method[2] .. [[ end)())
    ]]
end

describe("loading in nginx", function ()
    local _, lock = fixture.site(NAME)

    local function start(http)
        return site.start {
            dictionaries = { [NAME] = "1m" }, http = http, locations = site.with_common(COMMON, LOCATIONS),
        }
    end

    it("a request that takes a free lock compiles few modules, and no host", function ()
        for _, http in ipairs { UNCACHED, "", 'init_by_lua_block { require "resty.lock" }' } do
            assert.equal("true nilnilnilnil", start(http):get("/free"), http)
        end
    end)

    it("a request that waits compiles its host, and no scheduler", function ()
        local here = start(UNCACHED)
        assert.equal(0, lock:lock("held"))
        local connection = here:connect()
        connection:send("/held")
        site.await("it waits", function () return lock:waiters("held") == 1 end)
        assert.equal(1, lock:unlock())
        assert.equal("true\ntrue true nilnil", (connection:receive()))
    end)

    it("each method finds what it needs without a file", function ()
        local here = start(UNCACHED)
        for name, method in pairs(METHODS) do
            assert.equal(method[1], (here:get("/method/" .. name)), name)
        end
        assert.matches('%[warn%][^\n]+holdfast: lock "timeout" of dictionary "spec_nginx_load": timeout after '
                       .. "0%.010 s; held by nginx", here:log())
    end)
end)
