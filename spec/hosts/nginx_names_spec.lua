-- Tests dictionary/registry.lua with nginx's zones: which dictionary a lock in nginx uses, and which processes may use
-- this dictionary.

local fixture, process, shell, site = require "spec.support" ("fixture", "process", "shell", "site")
local core = require "resty.holdfast.core"

local it = fixture.it_unless(site.missing())

-- The code of a location, which reports the capacity of the dictionary with the given name.
local CAPACITY = [[
    local name = ngx.unescape_uri(ngx.var.arg_name)
    local dict = require("resty.shdict").shared[name]
    ngx.print(dict and dict:capacity() or "none")
]]

-- The code of a location, which takes a lock in the dictionary with the given name, and keeps the lock while the worker
-- lives.
local LOCK = [[
    local lock, err = require("resty.lock"):new(ngx.unescape_uri(ngx.var.arg_name), { timeout = 0, exptime = 100 })
    if not lock then
        return ngx.print("new: ", err)
    end
    local elapsed, err = lock:lock("key")
    package.loaded.kept = package.loaded.kept or {}
    table.insert(package.loaded.kept, lock)
    ngx.print(elapsed or err)
]]


local LOCATIONS = { ["/lock"] = LOCK, ["/capacity"] = CAPACITY }


-- Expects that a request takes a lock in "my_locks", and that "my_locks" then has this many bytes.
local function assert_takes(here, capacity)
    assert.equal("0", here:get("/lock?name=my_locks"))
    assert.equal(capacity, here:get("/capacity?name=my_locks"))
end


-- Runs a plain script while nginx runs, and returns its output.
local function script(source)
    local text, status = process.run([[
        local resty_lock, shdict = require "resty.lock", require "resty.shdict"
    ]] .. source)
    assert.equal(0, status, text)
    return (text:gsub("\n$", ""))
end


-- Starts a second process, which keeps the dictionary open with a size of 200k.
local function keep_open(name)
    process.start(([[
        require("resty.shdict").open(%q, { size = "200k" })
        say "open"
        hear()
    ]]):format(name)):expect "open"
end


describe("names in nginx", function ()
    after_each(function ()
        site.clean_up()
        for _, name in ipairs { "my_locks", "other", "small", "odd" } do
            require("resty.shdict").remove(name)
        end
    end)

    it("a lock opens a holdfast dictionary with the name and size of the lua_shared_dict", function ()
        local here = site.start { dictionaries = { my_locks = "100k" }, locations = LOCATIONS }
        assert.equal("none", here:get("/capacity?name=my_locks"))
        assert_takes(here, "102400")
        assert.equal("timeout", here:get("/lock?name=my_locks"))
        assert.falsy(here:log():find("holdfast: ", 1, true))
    end)

    it("an object created in init_worker_by_lua opens the dictionary before the first request", function ()
        site.start {
            dictionaries = { my_locks = "100k" },
            http = [[init_worker_by_lua_block { assert(require("resty.lock"):new("my_locks")) }]],
        }
        assert.equal("102400", script [[print(shdict.shared.my_locks:capacity())]])
    end)

    it("rwlocks and semaphores also find such a dictionary", function ()
        local here = site.start {
            dictionaries = { my_locks = "1m", other = "2m" },
            locations = {
                ["/rwlock"] = [[
                    local lock = assert(require("resty.rwlock"):new("my_locks"))
                    ngx.print(lock:rdlock("key"), lock:unlock())
                ]],
                ["/semaphore"] = [[
                    local semaphore = assert(require("resty.semaphore"):new("other", { permits = 2 }))
                    ngx.print(semaphore:wait("key"), semaphore:post("key"))
                ]],
                ["/capacity"] = CAPACITY,
            },
        }
        assert.equal("01", here:get("/rwlock"))
        assert.equal("1048576", here:get("/capacity?name=my_locks"))
        assert.equal("truetrue", here:get("/semaphore"))
        assert.equal("2097152", here:get("/capacity?name=other"))
    end)

    it("a holdfast dictionary that a program has put into ngx.shared is used unchanged", function ()
        local here = site.start {
            dictionaries = { my_locks = "1m" },
            http = [[init_worker_by_lua_block {
                ngx.shared.my_locks = assert(require("resty.shdict").open("other", { size = "200k" }))
            }]],
            locations = LOCATIONS,
        }
        assert_takes(here, "none")
        assert.equal("true", script [[print(shdict.shared.other:get("key"))]])
    end)

    it("a dictionary that nobody has declared or opened is not found", function ()
        local here = site.start {
            dictionaries = { my_locks = "1m" },
            locations = {
                ["/lock"] = LOCK,
                ["/others"] = [[
                    local resty_lock = require "resty.lock"
                    for _, given in ipairs { 1, {}, true, ngx.shared.my_locks } do
                        local lock, err = resty_lock:new(given)
                        ngx.print(tostring(lock), " ", err, ";")
                    end
                ]],
            },
        }
        assert.equal("new: dictionary not found", here:get("/lock?name=other"))
        assert.equal(("nil dictionary not found;"):rep(4), here:get("/others"))
    end)

    it("a dictionary that a script has opened is found without a declaration", function ()
        local here = site.start { locations = { ["/lock"] = LOCK } }
        local keeper = process.start [[
            local dict = require("resty.shdict").open("other", { size = "100k" })
            say "open"
            hear()
            say(require("resty.lock"):new("other", { timeout = 0 }):lock("key"))
        ]]
        assert.equal("open", keeper:hear())
        assert.equal("0", here:get("/lock?name=other"))
        keeper:say "go on"
        assert.equal("nil\ttimeout", keeper:hear())
    end)

    it("the smallest size that nginx accepts is large enough, and need not be a multiple of the page size", function ()
        local here = site.start { dictionaries = { small = "12k", odd = "13001" }, locations = LOCATIONS }
        for name, capacity in pairs { small = 12288, odd = 13001 } do
            assert.equal("0", here:get("/lock?name=" .. name))
            assert.is_true(tonumber((here:get("/capacity?name=" .. name))) >= capacity)
            -- For the new worker, the dictionary already exists.
            here:reload()
            assert.equal("0", here:get("/lock?name=" .. name))
        end
        assert.falsy(here:log():find("holdfast: ", 1, true))
    end)

    it("an existing dictionary of a different size is used unchanged, and the log reports it once", function ()
        keep_open "my_locks"
        local here = site.start { dictionaries = { my_locks = "100k" }, locations = LOCATIONS }
        assert.equal("0", here:get("/lock?name=my_locks"))
        assert.equal("timeout", here:get("/lock?name=my_locks"))
        assert.equal("204800", here:get("/capacity?name=my_locks"))
        local _, count = here:log():gsub('dictionary "my_locks" exists with 204800 bytes, but lua_shared_dict '
                                        .. 'declares 102400', "")
        assert.equal(1, count)
    end)

    it("a removed dictionary is not found until a reload recreates it", function ()
        local here = site.start { dictionaries = { my_locks = "100k" }, locations = LOCATIONS }
        assert.equal("0", here:get("/lock?name=my_locks"))
        assert.equal("true", script [[print(shdict.remove("my_locks"))]])
        assert.equal("dictionary not found", here:get("/lock?name=my_locks"))
        here:reload()
        assert_takes(here, "102400")
    end)

    -- Names that nginx accepts for its own dictionaries. The last name is as long as a file name can be.
    local NAMES = { "my:cache", "a/b", "../a", ".hidden", "a b", 'a"b\\', "100%", "a%2Fb", "a,b=1", "caf\195\169",
                    "\255\1", ("n"):rep(250) }

    local function escaped(name)
        return (name:gsub("[^%w]", function (byte) return ("%%%02X"):format(byte:byte()) end))
    end

    it("any name that nginx accepts names a holdfast dictionary", function ()
        local declared, capacities = {}, {}
        for i, name in ipairs(NAMES) do
            declared[name] = 12 + 4 * i .. "k"
            capacities[i] = ("%d\n"):format((12 + 4 * i) * 1024)
        end
        local here = site.start { dictionaries = declared, locations = LOCATIONS }
        finally(function ()
            for _, name in ipairs(NAMES) do
                require("resty.shdict").remove(name)
            end
        end)
        for i, name in ipairs(NAMES) do
            assert.equal("0", here:get("/lock?name=" .. escaped(name)))
            assert.equal("timeout", here:get("/lock?name=" .. escaped(name)))
            assert.equal(capacities[i], here:get("/capacity?name=" .. escaped(name)) .. "\n")
        end
        -- A script finds the dictionaries under the same names.
        local quoted = {}
        for i, name in ipairs(NAMES) do
            quoted[i] = ("%q"):format(name)
        end
        local said = script(([[
            for _, name in ipairs { %s } do
                print(shdict.shared[name]:capacity())
            end
        ]]):format(table.concat(quoted, ", ")))
        assert.equal(table.concat(capacities), said .. "\n")
        assert.falsy(here:log():find("holdfast: ", 1, true))
    end)

    it("new reports a name that no file can have, and a dictionary that cannot be created", function ()
        local long = ("n"):rep(251)
        local here = site.start {
            dictionaries = { [long] = "100k", other = "1m" },
            env = { HOLDFAST_DIR = "/nowhere/x" },
            locations = { ["/lock"] = LOCK },
        }
        assert.matches('^new: dictionary name of 251 bytes, "n+%.%.%.": expected 1 to 250 bytes',
                       (here:get("/lock?name=" .. long)))
        assert.matches("^new: runtime directory /nowhere/x cannot be created", (here:get("/lock?name=other")))
    end)

    it("a name with control characters does not break the lines of the log", function ()
        keep_open "two\nlines\27[2J"
        local here = site.start { dictionaries = { ["two\nlines\27[2J"] = "100k" }, locations = { ["/lock"] = LOCK } }
        assert.equal("0", here:get("/lock?name=" .. escaped("two\nlines\27[2J")))
        assert.truthy(here:log():find([[dictionary "two\x0Alines\x1B[2J" exists with 204800 bytes]], 1, true))
    end)
end)


describe("init_by_lua", function ()
    after_each(function ()
        site.clean_up()
        require("resty.shdict").remove("my_locks")
    end)

    local OBJECTS = [[
        local name, options = "my_locks", { timeout = 0, exptime = 100 }
        lock = assert(require("resty.lock"):new(name, options))
        other = assert(require("resty.lock"):new(name, options))
        rwlock = assert(require("resty.rwlock"):new(name, options))
        semaphore = assert(require("resty.semaphore"):new(name, { permits = 1, timeout = 0 }))
    ]]

    local USE = [[
        local function try(object, method)
            local result, err = object[method](object, method)
            ngx.print(result or err, " ")
        end
        try(lock, "lock")
        other:lock("other")
        try(rwlock, "rdlock")
        try(semaphore, "wait")
        ngx.print(tostring(lock.dict.name), " ", lock.dict:capacity())
    ]]

    -- Starts a site in which init_by_lua creates the objects and then runs `source`.
    local function start_with_objects(source, options)
        options.dictionaries = { my_locks = "100k" }
        options.http = "init_by_lua_block {\n" .. OBJECTS .. source .. "}"
        return site.start(options)
    end

    it("may create the objects that the workers use", function ()
        local here = start_with_objects("", { workers = 2, locations = { ["/use"] = USE } })
        local each = here:connect_to_each(2)
        assert.equal("0 0 true my_locks 102400", each[1]:get("/use"))
        assert.equal("timeout 0 timeout my_locks 102400", each[2]:get("/use"))
    end)

    it("may also take a lock if the master runs as the same user as its workers", function ()
        local here = start_with_objects([[assert(other:lock("lock"))]], {
            locations = { ["/use"] = USE, ["/unlock"] = "ngx.print(tostring(other:unlock()))" },
        })
        -- The master, which is alive, holds the lock.
        assert.equal("timeout 0 true my_locks 102400", here:get("/use"))
        assert.equal("nil", here:get("/unlock"))
    end)

    it("gets an error with the reason if it uses an object whose dictionary cannot be opened", function ()
        local here = start_with_objects([[reason = select(2, pcall(lock.lock, lock, "key"))]], {
            env = { HOLDFAST_DIR = "/nowhere/x" },
            locations = { ["/why"] = "ngx.print(reason)" },
        })
        assert.matches('^holdfast: cannot open dictionary "my_locks": runtime directory /nowhere/x cannot be',
                       (here:get("/why")))
    end)
end)


describe("the log of nginx", function ()
    local folder

    before_each(function ()
        folder = shell.output "mktemp -d /dev/shm/holdfast-spec.XXXXXX"
    end)

    after_each(function ()
        site.clean_up()
        os.execute("rm -rf -- '" .. folder .. "'")
    end)

    local function start(http)
        return site.start {
            workers = 3,
            env = { HOLDFAST_DIR = folder },
            dictionaries = { my_locks = "100k" },
            http = http,
            locations = { ["/use"] = [[ngx.print(tostring(require("resty.shdict").find("my_locks"):set("key", 1)))]] },
        }
    end

    -- Returns the log lines about the library, without nginx's additions.
    local function notices(here)
        local lines = {}
        for line in here:log():gmatch "[^\n]+" do
            lines[#lines + 1] = line:match "%[notice%].-(holdfast %d[^,]*)"
        end
        return lines
    end

    local function assert_notices(count, here)
        local expected = {}
        for i = 1, count do
            expected[i] = ('holdfast %s: opened dictionary "my_locks" in %s'):format(core.version, folder)
        end
        assert.same(expected, notices(here))
    end

    local OPEN = [[{
        assert(require("resty.lock"):new("my_locks"))
        assert(require("resty.shdict").open("another", { size = "100k" }))
    }]]

    it("has one notice for each start and reload, with the version, the dictionary and the directory", function ()
        local here = start("init_worker_by_lua_block " .. OPEN)
        site.await("worker 0 has started", function () return #notices(here) > 0 end)
        here:connect_to_each(3)
        assert_notices(1, here)
        here:reload()
        site.await("worker 0 has started again", function () return #notices(here) > 1 end)
        here:connect_to_each(3)
        assert_notices(2, here)
    end)

    it("has the notice from the master if init_by_lua opens the dictionary", function ()
        local here = start [[init_by_lua_block { assert(require("resty.shdict").open("my_locks", { size = "100k" })) }]]
        for _, connection in ipairs(here:connect_to_each(3)) do
            assert.equal("true", connection:get("/use"))
        end
        assert_notices(1, here)
    end)

    it("has the notice when a worker opens a dictionary that init_by_lua has only named", function ()
        local here = start [[init_by_lua_block { lock = assert(require("resty.lock"):new("my_locks")) }]]
        assert_notices(0, here)
        for _, connection in ipairs(here:connect_to_each(3)) do
            assert.equal("true", connection:get("/use"))
        end
        assert_notices(1, here)
    end)

    it("has no notice from a Lua state that lasts for one request", function ()
        local here = start "lua_code_cache off;"
        for _ = 1, 3 do
            assert.equal("true", here:get("/use"))
        end
        assert_notices(0, here)
    end)
end)
