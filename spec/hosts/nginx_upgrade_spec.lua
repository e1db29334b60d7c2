-- Tests an upgrade in which a version with a different file layout replaces holdfast under a running nginx.

local fixture, process, shell, site = require "spec.support" ("fixture", "process", "shell", "site")

local PATIENCE = 20

local OURS = os.getenv("HOLDFAST_LIB")
local OTHERS = shell.output("dirname -- '" .. OURS .. "'") .. "/tests/library/libholdfast_other_layout.so"

-- Reports which library the worker has loaded.
local LAYOUT = [[
    local C, ffi = require("resty.holdfast.core").C, require "ffi"
    ngx.print(ffi.string(C.holdfast_directory()):match("%d+$"))
]]

local COMMON = [[
    local dict = require("resty.shdict").open("spec_upgrade", { size = "1m" })
    local lock = require("resty.lock"):new("spec_upgrade", { timeout = 20, exptime = 60 })
]]

local LOCATIONS = {
    ["/layout"] = LAYOUT,
    -- Reports how many requests are in the critical section, according to this worker's dictionary.
    ["/count"] = COMMON .. [[
        assert(lock:lock("counter"))
        local inside = dict:incr("inside", 1, 0)
        ngx.sleep(0.001)
        dict:incr("inside", -1)
        assert(lock:unlock())
        ngx.print(inside)
    ]],
    ["/hold"] = COMMON .. site.HOLD,
    ["/try"] = COMMON .. "ngx.print(lock:trylock('key') and lock:unlock())",
}

local it = fixture.it_unless(site.missing())


describe("an upgrade to a new layout in nginx", function ()
    local WORLD = os.getenv("HOLDFAST_DIR") .. "/upgrade-@layout@"
    local folder, here

    -- Runs a program while nginx runs, with the library with which nginx was started.
    local function run(code)
        return process.run(code, { env = { HOLDFAST_DIR = WORLD, HOLDFAST_LIB = OURS } })
    end

    local function start(options)
        options.env = { HOLDFAST_DIR = WORLD, HOLDFAST_LIB = folder .. "/libholdfast.so" }
        options.locations = LOCATIONS
        here = site.start(options)
    end

    -- Replaces the library as a package manager does.
    local function replace_library()
        assert(shell.succeeds(("cp '%s' '%s/new' && mv '%s/new' '%s/libholdfast.so'"):format(
            OTHERS, folder, folder, folder)))
    end

    before_each(function ()
        -- Some systems do not load libraries from /dev/shm.
        folder = shell.output "mktemp -d /tmp/holdfast-spec.XXXXXX"
        assert(shell.succeeds(("cp '%s' '%s/libholdfast.so'"):format(OURS, folder)))
    end)

    after_each(function ()
        site.clean_up()
        os.execute(("rm -rf -- '%s' %s"):format(folder, (WORLD:gsub("@layout@", "*"))))
    end)

    it("by a reload under load makes no request fail, because old and new workers use separate files", function ()
        start { workers = 2 }
        local ours = here:get("/layout")
        local holder = here:connect()
        local old = tonumber((holder:get("/worker")))
        holder:send("/hold")
        site.await("the request holds the lock", function ()
            return run [[print(require("resty.shdict").open("spec_upgrade"):get("held"))]] == "true\n"
        end)

        site.storm(function () return here:connect() end, "/count", 600, function (answered)
            if answered == 150 then
                replace_library()
                here:signal("HUP")
            end
        end)

        site.await("new workers answer", function () return here:get("/layout") == "99" end)
        assert.not_equal(ours, "99")
        assert.equal("1", here:get("/try"))
        assert.is_true(site.alive(old))
        run [[require("resty.shdict").open("spec_upgrade"):set("go", true)]]
        assert.equal("1", holder:receive())
        site.await("the old worker exits", function () return not site.alive(old) end, PATIENCE)
        assert.equal("99", here:get("/layout"))
    end)

    it("needs a restart if the master has loaded the library, because a reload keeps the old library", function ()
        start { http = [[init_by_lua_block { require "resty.shdict" }]] }
        local old = here:workers()[1]
        local ours = here:get("/layout")
        replace_library()
        here:signal("HUP")
        site.await("the old worker exits", function () return not site.alive(old) end, PATIENCE)
        assert.equal(ours, here:get("/layout"))
    end)
end)
