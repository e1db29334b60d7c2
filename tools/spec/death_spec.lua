-- Tests a key after the death of a worker of `holdfast run` that held the key or waited for it.

local command, primitives = require "spec.support" ("command", "primitives")

-- make() returns an object whose lease does not expire during a test.
local MAKE = [[
    local function make() return new { exptime = 3600, timeout = 15 } end
]]


for _, name in ipairs(primitives.names) do
    local primitive = primitives.source(name, "spec_death") .. MAKE

    describe("death of a worker of holdfast run and " .. name .. ":", function ()
        command.fixture()

        -- Each worker that gets the key creates a file. The first worker keeps the key.
        local SCRIPT = [[
            local ffi = require "ffi"
            ffi.cdef "int getpid(void);"
            local scheduler = require "resty.holdfast.scheduler"
            local worker = require "resty.holdfast.worker"
            local function mark(what)
                assert(io.open("FOLDER/" .. what .. "." .. worker.id() .. "." .. ffi.C.getpid(), "w")):close()
            end
            mark("started")
            scheduler.spawn(function ()
                local mine = make()
                assert(take(mine))
                local keeps = require("resty.shdict").shared.spec_death:add("first", true)
                mark("got")
                if keeps then
                    scheduler.stopping(60)
                end
                give(mine)
                scheduler.stopping(60)
            end)
            scheduler.run()
        ]]

        local function holders()
            return command.files("^got%.")
        end

        for workers = 1, 3 do
            it("after kill -9, its replacement also gets the key, with " .. workers, function ()
                local file = command.write("script.lua", primitive
                                           .. SCRIPT:gsub("FOLDER", function () return command.path("") end))
                local master = command.start("run", "--respawn", "--workers", tostring(workers), "--dict",
                                             "spec_death=64k", file)
                assert(command.await(function () return #holders() == 1 end), master:err())
                assert(command.await(function () return #command.files("^started%.") == workers end), master:err())
                local first = holders()[1]
                local number, pid = first:match("^got%.(%d+)%.(%d+)$")
                command.sleep(0.05)
                assert.same({ first }, holders())
                command.kill(tonumber(pid), command.KILL)
                assert(command.await(function () return #holders() == workers + 1 end), master:err())
                assert.equal(2, #command.files("^got%." .. number .. "%.%d+$"), "the new worker " .. number)
                master:signal(command.TERM)
                assert.same({ signal = command.TERM }, master:wait())
            end)
        end
    end)
end
