-- Tests that the values of a dictionary in ngx.shared live as long as nginx's master, as values in nginx's own zones
-- do.

local files, fixture, shell, site = require "spec.support" ("files", "fixture", "shell", "site")

local it = fixture.it_unless(site.missing())

local INSTALL = [[assert(require("resty.holdfast.shared").install("zone"))]]
local HTTP = "init_worker_by_lua_block {" .. INSTALL .. "}"

local LOCATIONS = {
    ["/set"] = [[ngx.print(tostring(ngx.shared.zone:set("key", "value")))]],
    ["/get"] = [[ngx.print(tostring(ngx.shared.zone:get("key")))]],
    ["/capacity"] = [[ngx.print(ngx.shared.zone:capacity())]],
    ["/lock"] = [[ngx.print(assert(require("resty.lock"):new("zone")):lock("key"))]],
}


describe("a value in ngx.shared", function ()
    local folder

    before_each(function ()
        folder = shell.output "mktemp -d /dev/shm/holdfast-spec.XXXXXX"
    end)

    after_each(function ()
        site.clean_up()
        os.execute("rm -rf -- '" .. folder .. "'")
    end)

    -- Starts a site in a new runtime directory, which only nginx uses.
    local function start(options)
        options.env = { HOLDFAST_DIR = folder }
        options.dictionaries = { zone = options.size or "100k" }
        options.locations = LOCATIONS
        return site.start(options)
    end

    local function start_and_store(options)
        local here = start(options)
        assert.equal("true", here:get("/set"))
        return here
    end

    -- Returns the process ids of all keepers, which keep the values while workers come and go.
    local function keepers()
        local pids = {}
        for pid in shell.output("grep -lx holdfast-keeper /proc/[0-9]*/comm 2>/dev/null"):gmatch("/proc/(%d+)") do
            if (files.find("/proc/" .. pid .. "/maps") or ""):find(folder, 1, true) then
                pids[#pids + 1] = tonumber(pid)
            end
        end
        return pids
    end

    local function await_no_keeper()
        site.await("the keeper ends", function () return #keepers() == 0 end)
    end

    local function await_only_keeper()
        site.await("there is a keeper", function () return #keepers() == 1 end)
        return keepers()[1]
    end

    local function has_dictionary()
        return files.find(folder .. "/zone.dict") ~= nil
    end

    it("exists after a reload whose workers start slowly, and after the next reload", function ()
        local here = start_and_store { workers = 2, http = [[init_worker_by_lua_block {
            os.execute "sleep 0.3"
            ]] .. INSTALL .. "}" }
        for _ = 1, 2 do
            here:reload()
            assert.equal("value", here:get("/get"))
        end
    end)

    it("exists after the only worker was killed", function ()
        for _, where in ipairs { "init", "init_worker" } do
            local here = start_and_store { http = where .. "_by_lua_block {" .. INSTALL .. "}" }
            local worker = here:workers()[1]
            here:signal("KILL", worker)
            site.await("another worker answers", function ()
                return not site.alive(worker) and #here:workers() == 1 and pcall(here.get, here, "/worker")
            end)
            assert.equal("value", here:get("/get"), where)
            here:stop()
            await_no_keeper()
        end
    end)

    it("disappears with nginx, and so does its memory", function ()
        for _, signal in ipairs { "TERM", "QUIT" } do
            local here = start_and_store { workers = 2, http = HTTP }
            assert.is_true(has_dictionary())
            here:signal(signal)
            site.await("the dictionary is removed", function () return not has_dictionary() end)
            await_no_keeper()
            here:stop()
        end
    end)

    it("is kept by one process, which holds no resources of the worker", function ()
        local here = start_and_store { workers = 3, http = HTTP }
        local keeper = await_only_keeper()
        here:reload()
        assert.equal(keeper, await_only_keeper())
        local process = "/proc/" .. keeper
        local processes = shell.output("stat -c %i " .. folder .. "/processes")
        for inode, kind in shell.output("stat -L -c '%i %F' " .. process .. "/fd/*"):gmatch("(%d+) ([^\n]+)") do
            assert.truthy(inode == processes or not kind:find("regular file"), inode .. " " .. kind)
            assert.not_equal("socket", kind)
        end
        for flags, inode in files.find(process .. "/maps"):gmatch("%S+ (%S+) %S+ %S+ (%d+)[^\n]*") do
            assert.truthy(flags:sub(4) ~= "s" or inode == processes, inode)
        end
        for _, pid in ipairs(here:workers()) do
            assert.not_equal(keeper, pid)
        end
        here:stop()
        await_no_keeper()
    end)

    it("may be lost if the keeper was killed, and the next reload starts a new keeper and logs a warning", function ()
        local here = start_and_store { http = HTTP }
        local keeper = await_only_keeper()
        here:signal("KILL", keeper)
        site.await("the keeper is gone", function () return not site.alive(keeper) end)
        assert.is_nil(here:log():find("may be lost", 1, true))
        here:reload()
        assert.not_equal(keeper, await_only_keeper())
        local said = here:log():match "holdfast: dictionary values may be lost: (the holdfast%-keeper that kept [^,]*)"
        assert.matches(" was killed; a new one has replaced it$", said) -- the old worker may have exited first
    end)

    it("stays with the workers of a killed master, and its memory disappears with them", function ()
        local here = start_and_store { http = HTTP }
        local worker = here:workers()[1]
        here:signal("KILL")
        await_no_keeper()
        assert.equal("value", here:get("/get"))
        here:signal("QUIT", worker)
        site.await("the dictionary is removed", function () return not has_dictionary() end)
    end)

    it("exists after a reload with a new size, which takes effect after a restart", function ()
        local here = start_and_store { http = HTTP }
        local before = here:get("/capacity")
        here:configure { dictionaries = { zone = "200k" }, locations = LOCATIONS, http = HTTP }
        here:reload()
        assert.equal("value", here:get("/get"))
        assert.equal(before, here:get("/capacity"))
        assert.truthy(here:log():find('dictionary "zone" exists with 102400 bytes, but lua_shared_dict declares 204800'
                                      .. ": a reload keeps the old size", 1, true))
        here:stop()
        await_no_keeper()
        here = start { size = "200k", http = HTTP }
        assert.equal("204800", here:get("/capacity"))
        assert.equal("nil", here:get("/get"))
    end)

    it("needs no keeper if nginx is a single process", function ()
        local here = start_and_store { workers = 0, main = "master_process off;", http = HTTP }
        assert.equal("value", here:get("/get"))
        assert.same({}, keepers())
    end)

    it("has a keeper only if there can be values, because locks need none", function ()
        local here = start {}
        assert.equal("0", here:get("/lock"))
        assert.same({}, keepers())
    end)
end)
