-- Tests how program.lua detects nginx. Unit tests and command-line tools may have stand-ins for nginx, such as a global
-- `ngx` or an `ngx.shared` of Lua tables. They must not count as nginx, and must do no harm: resty.lock and
-- resty.shdict work as in a plain script.

local files, process, shell = require "spec.support" ("files", "process", "shell")

-- The part that all the programs share. It takes a free lock that soon expires, and then waits for this lock.
local USE = [[
    local resty_lock = require "resty.lock"
    local first = assert(resty_lock:new("stand_in", { exptime = 0.05 }))
    assert(first:lock("key") == 0)
    local elapsed = assert(resty_lock:new("stand_in", { timeout = 10 }):lock("key"))
    assert(elapsed > 0.04)
    say(require("resty.holdfast.host").current().name)
]]

local ZONES = [[
    local Zone = {}
    Zone.__index = Zone
    function Zone:capacity() return 0 end
    function Zone:get(key) return self.values[key] end
    local shared = { stand_in = setmetatable({ values = {} }, Zone) }
]]

local STAND_INS = {
    ["with zones of unknown size"] = ZONES .. "ngx = { shared = shared }",
    ["with zones that are empty tables"] = "ngx = { shared = { stand_in = {} } }",
    ["with zones whose methods fail"] = "ngx = { shared = { stand_in = { capacity = function () error 'no' end } } }",
    ["with a sleep and a clock"] = ZONES .. [[
        ngx = { shared = shared, sleep = function () end, now = os.time, log = function () end, get_phase = function ()
            return "timer"
        end, config = {} }
    ]],
    ["of strings and numbers"] = "ngx = { shared = { stand_in = 1 }, log = 1, get_phase = 'x', sleep = 2, config = 3 }",
    ["with everything but semaphores"] = ZONES .. [[
        local function nothing() end
        ngx = { shared = shared, sleep = nothing, log = nothing, get_phase = function () return "content" end,
                socket = { tcp = nothing }, thread = { spawn = nothing }, timer = { at = nothing },
                worker = { exiting = nothing }, config = { debug = false } }
    ]],
    ["that raises an error for every missing field"] = ZONES .. [[
        local function refuse(_, name) error("no " .. name) end
        ngx = setmetatable({ shared = setmetatable(shared, { __index = refuse }) }, { __index = refuse })
        require("resty.shdict").open("beside_it", { size = "100k" })
    ]],
    ["that is not a table"] = "ngx = 'nginx'",
}


-- A user's test of a module, which runs in busted.
local MOCKED = [[
describe("a module that locks", function ()
    local before = _G.ngx

    setup(function ()
        local zone = { capacity = function () return 0 end, get = function () end, add = function () return true end }
        _G.ngx = mock({ shared = { mocked_locks = zone }, log = function () end, sleep = function () end,
                        now = os.time, var = {}, ctx = {}, say = function () end, ERR = 4, WARN = 5 })
    end)

    teardown(function () _G.ngx = before end)

    it("locks and unlocks", function ()
        local lock = assert(require("resty.lock"):new("mocked_locks", { timeout = "0" }))
        assert.equal(0, lock:lock("key"))
        assert.same({ nil, "timeout" }, { require("resty.lock"):new("mocked_locks", { timeout = 0 }):lock("key") })
        assert.equal(1, lock:unlock())
        assert.stub(ngx.sleep).was_not_called()
    end)

    it("has dictionaries", function ()
        local dict = assert(require("resty.shdict").open("mocked_values", { size = "100k" }))
        assert.is_true((dict:set("key", 1, 10)))
        assert.equal(1, dict:get("key"))
    end)
end)
]]


describe("a stand-in for ngx", function ()
    after_each(process.clean_up)

    it("created by busted's mock does no harm in busted", function ()
        local name = os.tmpname()
        local path = name .. "_spec.lua" -- busted chooses a loader by the suffix .lua
        files.write(path, MOCKED)
        local command = "cd /tmp && timeout 60 busted --lua='%s' --output=TAP '%s' 2>&1"
        local said = shell.output(command:format(os.getenv("HOLDFAST_LUAJIT") or "luajit", path))
        os.remove(path)
        os.remove(name)
        assert.matches("^ok 1 .*\nok 2 .*\n1%.%.2%s*$", said)
        assert.is_nil(said:find("not ok", 1, true), said)
    end)

    for what, stand_in in pairs(STAND_INS) do
        it(what .. " does no harm", function ()
            assert.equal("none\n0\n", table.concat({ process.run([[
                require("resty.shdict").open("stand_in", { size = "100k" })
            ]] .. stand_in .. USE, {}) }, "") .. "\n")
        end)

        it(what .. " declares a dictionary that is opened by its name", function ()
            if stand_in:find("shared", 1, true) then
                assert.equal("none\n0\n", table.concat({ process.run(stand_in .. USE, {}) }, "") .. "\n")
            end
        end)
    end

    it("that lacks semaphores causes a warning", function ()
        local stand_in = STAND_INS["with everything but semaphores"]:gsub("log = nothing", [[
            WARN = 5, log = function (_, ...) say("log: " .. table.concat({ ... })) end
        ]])
        local said = process.run(stand_in .. 'require "resty.lock"', {})
        assert.matches("^log: holdfast: this ngx has no semaphores", said)
    end)
end)
