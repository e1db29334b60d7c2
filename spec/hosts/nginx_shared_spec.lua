-- Tests holdfast dictionaries in ngx.shared, where exporters, status pages and other libraries find them.

local fixture, process, shell, site = require "spec.support" ("fixture", "process", "shell", "site")

local it = fixture.it_unless(site.missing())

-- Walks over ngx.shared as an exporter does.
local WALK = [[
    local lines = {}
    for name, dict in pairs(ngx.shared) do
        dict:set("walked", true)
        lines[#lines + 1] = table.concat({ name, dict:capacity(), tostring(dict:free_space() <= dict:capacity()),
                                           #dict:get_keys(), dict.cas and "ours" or "nginx's" }, " ")
    end
    table.sort(lines)
    ngx.print(table.concat(lines, "\n"))
]]

local METHODS = [[get get_stale set safe_set add safe_add replace delete incr lpush rpush lpop rpop llen ttl expire
                  flush_all flush_expired get_keys capacity free_space]]


describe("ngx.shared", function ()
    after_each(function ()
        site.clean_up()
        for _, name in ipairs { "zone", "opened", "my:zone" } do
            require("resty.shdict").remove(name)
        end
    end)

    -- Starts a site with the zones `other`, which remains nginx's own, and `zone`. `where` is init or init_worker.
    local function start(where, source, options)
        options = options or {}
        options.dictionaries = { other = "300k", zone = "100k", ["my:zone"] = "200k" }
        options.http = (options.http or "") .. "\n" .. where .. "_by_lua_block {\n" .. source .. "\n}"
        options.locations = options.locations or {}
        options.locations["/walk"] = WALK
        return site.start(options)
    end

    local INSTALL = [[assert(require("resty.holdfast.shared").install("zone", "my:zone"))]]

    it("has holdfast dictionaries instead of zones and beside them, for any code that walks over it", function ()
        local here = start("init_worker", [[
            assert(require("resty.shdict").open("opened", { size = "400k" }))
            assert(require("resty.holdfast.shared").install("zone", "my:zone", "opened"))
        ]], { workers = 2 })
        local expected = "my:zone 204800 true 1 ours\nopened 409600 true 1 ours\nother 307200 true 1 nginx's\n"
                         .. "zone 102400 true 1 ours"
        for _, connection in ipairs(here:connect_to_each(2)) do
            assert.equal(expected, connection:get("/walk"))
        end
        here:reload()
        assert.equal(expected, here:get("/walk"))
        assert.falsy(here:log():find("%[error%]"), here:log())
    end)

    it("has dictionaries for values as large as HOLDFAST_DICTS declares", function ()
        local here = start("init_worker", INSTALL, {
            main = "env HOLDFAST_DICTS=zone=100k,big=80m:largest=40m;",
            http = "lua_shared_dict big 80m;",
            locations = { ["/big"] = [[
                assert(require("resty.holdfast.shared").install("big"))
                local big = ngx.shared.big
                ngx.print(tostring((big:set("key", ("x"):rep(40 * 1048576)))), " ", #big:get("key"))
            ]] },
        })
        assert.equal("true 41943040", here:get("/big"))
        require("resty.shdict").remove("big")
    end)

    it("has all opened dictionaries if no name is given", function ()
        local here = start("init_worker", [[
            assert(require("resty.shdict").open("opened", { size = "400k" }))
            assert(require("resty.lock"):new("zone"))
            assert(require("resty.holdfast.shared").install())
        ]])
        assert.equal("my:zone 204800 true 1 nginx's\nopened 409600 true 1 ours\nother 307200 true 1 nginx's\n"
                     .. "zone 102400 true 1 ours", here:get("/walk"))
    end)

    it("can get the dictionaries in init_by_lua, and each worker opens the dictionaries that it uses", function ()
        local here = start("init", INSTALL .. INSTALL, { workers = 2 })
        local expected = "my:zone 204800 true 1 ours\nother 307200 true 1 nginx's\nzone 102400 true 1 ours"
        for _, connection in ipairs(here:connect_to_each(2)) do
            assert.equal(expected, connection:get("/walk"))
        end
        here:reload()
        assert.equal(expected, here:get("/walk"))
    end)

    it("can get the dictionaries from a root master, for workers that are not root", function ()
        local user = shell.output "id -u"
        if user ~= "0" then
            return pending "only root can start workers as another user"
        end
        local folder = "/dev/shm/" .. os.getenv("HOLDFAST_DIR"):match("[^/]*$") .. ".www"
        os.execute(("mkdir -m 700 %s && chown www-data %s"):format(folder, folder))
        finally(function () os.execute("rm -rf " .. folder) end)
        local here = start("init", INSTALL, { user = "www-data", env = { HOLDFAST_DIR = folder } })
        assert.equal("my:zone 204800 true 1 ours\nother 307200 true 1 nginx's\nzone 102400 true 1 ours",
                     here:get("/walk"))
        assert.falsy(here:log():find("%[error%]"), here:log())
    end)

    -- There is one table for each name, both before and after the dictionary is opened.
    it("has the same dictionary under a name as locks and shdict.shared", function ()
        local made = [[
            lock = assert(require("resty.lock"):new("zone", { timeout = 0 }))
            require("resty.holdfast.shared").install("zone")
        ]]
        for _, where in ipairs { "init", "init_worker" } do
            local here = start(where, made, { locations = { ["/same"] = [[
                local later = assert(require("resty.lock"):new("zone", { timeout = 0 }))
                ngx.print(lock:lock("key"), select(2, later:lock("key")), " ")
                local dict, shdict = ngx.shared.zone, require "resty.shdict"
                ngx.print(tostring(dict == shdict.shared.zone), tostring(dict == lock.dict),
                          tostring(dict == later.dict), tostring(dict == shdict.find("zone")), dict:capacity())
            ]] } })
            assert.equal("0timeout truetruetruetrue102400", here:get("/same"), where)
            here:stop()
        end
    end)

    it("gives the dictionaries every method of nginx's own, which may also be called as a function", function ()
        local here = start("init", INSTALL, { locations = { ["/methods"] = ([[
            local get, set, incr = ngx.shared.zone.get, ngx.shared.zone.set, getmetatable(ngx.shared.zone).__index.incr
            local dict = ngx.shared["my:zone"]
            ngx.print(tostring(set(dict, "key", 1)), get(dict, "key"), incr(dict, "key", 1))
            for name in ([=[%s]=]):gmatch("%%S+") do
                if type(dict[name]) ~= "function" or type(ngx.shared.other[name]) ~= "function" then
                    ngx.print(" no ", name)
                end
            end
        ]]):format(METHODS) } })
        assert.equal("true12", here:get("/methods"))
    end)

    -- A method belongs to its kind of dictionary, and never reads the memory of the other kind.
    it("refuses a method of one kind of dictionary for the other kind", function ()
        local here = start("init_worker", "before = ngx.shared.zone.get\n" .. INSTALL, { locations = { ["/mixed"] = [[
            ngx.say(select(2, pcall(before, ngx.shared.zone, "key")))
            ngx.say(select(2, pcall(ngx.shared.zone.get, ngx.shared.other, "key")))
        ]] } })
        local theirs, ours = here:get("/mixed"):match("^(.-)\n(.-)\n$")
        assert.matches('bad "zone" argument$', theirs)
        assert.matches('bad "zone" argument: expected a dictionary, got table', ours)
    end)

    it("lets libraries that use add and delete as a lock exclude each other in all processes", function ()
        local ADD = "ngx.print(tostring(ngx.shared.zone:add('lock:' .. ngx.var.arg_key, true, 30)))"
        local here = start("init", INSTALL, { workers = 2, locations = {
            ["/add"] = ADD, ["/delete"] = "ngx.print(tostring(ngx.shared.zone:delete('lock:' .. ngx.var.arg_key)))",
        } })
        local each = here:connect_to_each(2)
        assert.equal("true", each[1]:get("/add?key=a"))
        assert.equal("false", each[2]:get("/add?key=a"))
        assert.equal("false\texists\tfalse\n", (process.run [[
            print(require("resty.shdict").shared.zone:add("lock:a", true))
        ]]))
        assert.equal("true", each[1]:get("/delete?key=a"))
        assert.equal("true", each[2]:get("/add?key=a"))
    end)

    it("does not get a dictionary that cannot be opened, and install returns the reason", function ()
        local here = start("init_worker", [[
            local install = require("resty.holdfast.shared").install
            said = {}
            for _, name in ipairs { "nothing", "", ("n"):rep(251), "a\nb" } do
                local ok, err = install(name)
                said[#said + 1] = tostring(ok) .. " " .. err
            end
            said[#said + 1] = select(2, pcall(install, 1))
            said[#said + 1] = tostring(install("zone", "nothing", "my:zone"))
        ]], { locations = { ["/said"] = "ngx.print(table.concat(said, '\\n'))" } })
        local lines = {}
        for line in (here:get("/said") .. "\n"):gmatch("(.-)\n") do
            lines[#lines + 1] = line
        end
        assert.equal('nil dictionary "nothing": dictionary not found', lines[1])
        assert.matches('^nil dictionary "": dictionary not found: empty dictionary name', lines[2])
        assert.matches('^nil dictionary "n+": dictionary not found: dictionary name of 251 bytes', lines[3])
        assert.equal('nil dictionary "a\\x0Ab": dictionary not found', lines[4])
        assert.matches("bad name to install: expected a string, got number$", lines[5])
        assert.equal("nil", lines[6])
        -- The dictionaries before the one that failed exist.
        assert.equal("my:zone 204800 true 1 nginx's\nother 307200 true 1 nginx's\nzone 102400 true 1 ours",
                     here:get("/walk"))
    end)

    it("does not exist in a plain script, and install reports this", function ()
        assert.equal("nil\tthere is no ngx.shared here\n",
                     (process.run "print(require('resty.holdfast.shared').install())"))
    end)
end)
