-- Tests a master that is root with workers that are not root, which is how Debian installs nginx.

local fixture, process, shell, site = require "spec.support" ("fixture", "process", "shell", "site")

local NAME = "holdfast_spec_locks"

-- Returns nil, or the reason why this cannot be tested here.
local function missing()
    if site.missing() then
        return site.missing()
    end
    if shell.output("id -u") ~= "0" then
        return "only root can start workers as another user"
    end
end

local it = fixture.it_unless(missing())


local LOCK = [[
    local lock = assert(require("resty.lock"):new("]] .. NAME .. [[", { timeout = 0, exptime = 100 }))
    local elapsed, err = lock:lock("key")
    package.loaded.kept = lock
    ngx.print(elapsed or err)
]]

-- Shows the holder, as a command in a separate process would.
local LOOK = [[
    local lock, err = require("resty.lock"):new("]] .. NAME .. [[")
    print(lock and lock:holder("key").program or err)
]]


describe("workers that are www-data under a master that is root", function ()
    local default, made

    before_each(function ()
        default = "/dev/shm/holdfast-" .. shell.output("id -u www-data") -- if no runtime directory is named
        made = not shell.succeeds("test -e " .. default)
    end)

    after_each(function ()
        site.clean_up()
        if made then
            os.execute("rm -rf " .. default)
        end
    end)

    local function start(options)
        options.user = "www-data"
        options.dictionaries = { [NAME] = "100k" }
        options.env = options.env or { HOLDFAST_DIR = false }
        options.locations["/lock"] = options.locations["/lock"] or LOCK
        return site.start(options)
    end

    local function assert_locks(connections)
        assert.equal("0", connections[1]:get("/lock"))
        assert.equal("timeout", connections[2]:get("/lock"))
    end

    it("need no setup, because they get their own directory", function ()
        local here = start { workers = 2, locations = {} }
        assert_locks(here:connect_to_each(2))
        assert.equal("700 www-data", shell.output("stat -c '%a %U' " .. default))
    end)

    it("use objects that init_by_lua has created as root", function ()
        local here = start {
            workers = 2,
            http = [[init_by_lua_block {
                lock = assert(require("resty.lock"):new("]] .. NAME .. [[", { timeout = 0, exptime = 100 }))
            }]],
            locations = { ["/lock"] = "local elapsed, err = lock:lock('key') ngx.print(elapsed or err)" },
        }
        assert_locks(here:connect_to_each(2))
        assert.equal("700 www-data", shell.output("stat -c '%a %U' " .. default))
    end)

    it("get an error with advice if init_by_lua has opened a dictionary as root", function ()
        local world = os.getenv("HOLDFAST_DIR") .. "/private"
        local here = start {
            env = { HOLDFAST_DIR = world },
            http = [[init_by_lua_block {
                dict = assert(require("resty.shdict").open("explicit", { size = "100k" }))
                dict:set("a", 1)
            }]],
            locations = {
                ["/set"] = "ngx.print(select(2, dict:set('b', 2)))",
                ["/open"] = "ngx.print(select(2, require('resty.shdict').open('more', { size = '100k' })))",
                ["/new"] = "ngx.print(select(2, require('resty.lock'):new('" .. NAME .. "')))",
            },
        }
        for _, path in ipairs { "/set", "/open", "/new" } do
            local text = here:get(path)
            assert.matches("was opened by this process as uid 0, but uid %d+", text)
            assert.matches("in init_worker_by_lua, not in init_by_lua", text)
            assert.matches("HOLDFAST_DIR and HOLDFAST_SHARE=group", text)
        end
        os.execute("rm -rf '" .. world .. "'")
    end)

    it("share a dictionary that init_by_lua has opened as root in a directory of their group", function ()
        local world = shell.output("mktemp -d /dev/shm/holdfast-spec.XXXXXX")
        assert(shell.succeeds("chgrp www-data " .. world .. " && chmod 0770 " .. world))
        local here = start {
            workers = 2,
            env = { HOLDFAST_DIR = world, HOLDFAST_SHARE = "group" },
            main = "env HOLDFAST_SHARE;",
            http = [[init_by_lua_block {
                dict = assert(require("resty.shdict").open("explicit", { size = "100k" }))
                dict:set("a", 1)
            }]],
            locations = { ["/incr"] = "ngx.print(dict:incr('a', 1))" },
        }
        local each = here:connect_to_each(2)
        assert.equal("2", each[1]:get("/incr"))
        assert.equal("3", each[2]:get("/incr"))
        assert_locks(each)
        here:reload()
        assert.equal("2", here:get("/incr")) -- init_by_lua has set it to 1
        os.execute("rm -rf " .. world)
    end)

    it("let their own user and root observe them", function ()
        local here = start { locations = {} }
        assert.equal("0", here:get("/lock"))

        local as_www_data = ("env -u HOLDFAST_DIR LUA_PATH='%s/lua/?.lua' HOLDFAST_LIB='%s/libholdfast.so' "
            .. "runuser -u www-data -- luajit -e '%s'"):format(here.copy, here.copy, LOOK)
        assert.equal("nginx", shell.output("cd / && " .. as_www_data .. " 2>&1"))

        local env = { HOLDFAST_DIR = default }
        assert.matches("is owned by uid %d+, expected 0; to use it, run as that user %(holdfast lock %-%-user %d+;",
                       (process.run(LOOK, { env = env })))
        env.HOLDFAST_SHARE = "group"
        assert.matches("its owner must be root, uid 0 .* HOLDFAST_OWNER names",
                       (process.run(LOOK, { env = env })))
        env.HOLDFAST_OWNER = shell.output("id -u www-data")
        assert.equal("nginx\n", (process.run(LOOK, { env = env })))

        -- Root's access changed nothing.
        assert.equal("timeout", here:get("/lock"))
        here:reload()
        assert.equal("0", here:get("/lock"))
    end)
end)
