-- Tests docs/tracing.md: each listed probe fires with the listed arguments. The test uses gdb instead of a tracer,
-- because gdb reads the same ELF notes and needs no privileges.

local command, files, shell = require "spec.support" ("command", "files", "shell")
local library = require("resty.holdfast.core").path

-- How gdb prints each argument.
local FORMATS = { dictionary = "%s", key = "%s", number = "%lu", token = "%lu", nanoseconds = "%lu", shard = "%lu" }

-- Makes each probe fire, in order.
local PROGRAM = [[
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"
local dict = assert(shdict.open("traced", { size = "12k" }))   -- repair
local function new(opts) return assert(resty_lock:new("traced", opts)) end
local lock = new()
assert(lock:lock("first"))                                      -- acquire
assert(lock:unlock())                                           -- release
assert(lock:lock("second"))
assert(not new({ timeout = 0.05, block = true }):lock("second"))  -- wait, timed out
assert(lock:unlock())
assert(os.execute("luajit dying.lua") ~= 0)
assert(lock:lock("third")) -- takeover
for i = 1, 200 do
    dict:set("value " .. i, ("v"):rep(50))                      -- evict
end
]]

local DYING = [[
local lock = require("resty.lock"):new("traced")
assert(lock:lock("third"))
require("ffi").cdef "int kill(int, int); int getpid(void);"
require("ffi").C.kill(require("ffi").C.getpid(), 9)
]]


-- Returns the names of each probe's arguments.
local function listed()
    local probes = {}
    for name, arguments in files.read("docs/tracing.md"):gmatch("\n| `(%l+)` | (`[^|]+`) |") do
        probes[name] = {}
        for argument in arguments:gmatch("`([%l_]+)`") do
            table.insert(probes[name], argument)
        end
    end
    return probes
end


-- Returns gdb's commands, which print each probe when it is hit.
local function orders(probes)
    local lines = { "set breakpoint pending on", "set pagination off", "set confirm off", "set debuginfod enabled off" }
    for name, arguments in pairs(probes) do
        local formats, values = {}, {}
        for i, argument in ipairs(arguments) do
            formats[i] = argument .. "=" .. (FORMATS[argument] or "%d")
            values[i] = "$_probe_arg" .. i - 1
        end
        lines[#lines + 1] = "break -probe-stap holdfast:" .. name
        lines[#lines + 1] = "commands\nsilent"
        lines[#lines + 1] = ('printf "probe %s %s\\n", %s'):format(name, table.concat(formats, " "),
                                                                  table.concat(values, ", "))
        lines[#lines + 1] = "continue\nend"
    end
    lines[#lines + 1] = "run"
    return table.concat(lines, "\n") .. "\n"
end


describe("docs/tracing.md", function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    it("lists the probes that fire, with their arguments", function ()
        if not shell.succeeds("command -v gdb >/dev/null") then
            pending("gdb is not installed")
        elseif not shell.output("readelf -n " .. library):find("Provider: holdfast", 1, true) then
            pending("the library was built without probes")
        end
        local probes = listed()
        files.write(command.path("program.lua"), PROGRAM)
        files.write(command.path("dying.lua"), DYING)
        files.write(command.path("orders"), orders(probes))
        local out = shell.output(("cd %s && HOLDFAST_DIR=%s timeout 120 gdb -batch -x orders --args luajit program.lua "
                                  .. "2>&1"):format(command.path("."), command.world()))
        local fired = {}
        for name, arguments in out:gmatch("probe (%l+) ([^\n]*)") do
            fired[name] = fired[name] or {}
            table.insert(fired[name], arguments)
        end
        for name in pairs(probes) do
            assert(fired[name], name .. " does not fire:\n" .. out)
            for _, arguments in ipairs(fired[name]) do
                assert.matches("^dictionary=traced ", arguments)
            end
        end
        assert.matches("key=first.* length=5 token=%d+ number=%d+$", fired.acquire[1])
        assert.equal(fired.acquire[1], fired.release[1])
        assert.matches("key=second.* length=6 kind=0 nanoseconds=%d%d%d%d%d%d%d+ in_vain=1$", fired.wait[1])
        assert.matches("key=third.* length=5 token=%d+ number=%d+$", fired.takeover[1])
        assert.matches("key=value %d+.* length=%d+ size=50$", fired.evict[1])
        assert.matches("shard=%d+ entries=%d+ cuts=0$", fired.repair[1])
    end)
end)
