-- Tests examples/embed: a C++ program whose own loop is the host, and a plain C program. conformance_spec.lua tests the
-- behaviour that the loop shares with other loops.

local command, new_holder, process, site = require "spec.support" ("command", "holder", "process", "site")

local FOLDER = command.program:match("^(.*)/") .. "/examples/embed/"
local SIZE = "1m"

-- The beginning of the program's scripts and of scripts for plain LuaJIT.
local OPEN = ([[
    local resty_lock = require "resty.lock"
    local shdict = require "resty.shdict"
    shdict.open("spec_embed", { size = %q })
    local function new(options) return assert(resty_lock:new("spec_embed", options)) end
]]):format(SIZE)


-- Starts a program from the folder as a child that exchanges lines with the test, as other children do.
local function run_program(name, ...)
    return process.start({ FOLDER .. name, ... }, { stderr = true })
end


describe("examples/embed:", function ()
    -- This process keeps the dictionary open. At the beginning of each test, the dictionary is empty.
    local holder = new_holder(OPEN .. [[shdict.open("spec_embed"):flush_all()]])

    after_each(site.clean_up)

    -- Runs the scripts concurrently.
    local function embed(...)
        local paths = {}
        for i, source in ipairs { ... } do
            paths[i] = process.script(OPEN .. source)
        end
        return run_program("embed", "--dict", "spec_embed=" .. SIZE, unpack(paths))
    end

    describe("the loop of the C++ program", function ()
        it("wakes a coroutine when the lock is released, not by polling", function ()
            local child = embed [[
                local now = require("resty.holdfast.core").C.holdfast_now
                local lock = new { timeout = 60 }
                while io.read("*l") do
                    say("begin")
                    assert(lock:lock("key"))
                    say(("%.6f"):format(now()))
                    assert(lock:unlock())
                end
            ]]
            local late
            for _ = 1, 5 do
                holder:take("key")
                child:say("go")
                child:expect("begin")
                command.sleep(0.2)
                local released_at = command.now()
                holder:release()
                late = tonumber(child:hear()) - released_at
                if late < 0.4 then
                    return
                end
            end
            error("it polls once a second: " .. late .. " s late")
        end)

        it("resumes coroutines that yield without a wait, and protects all coroutines from the collector", function ()
            local child = embed [[
                local ended = 0
                for _ = 1, 100 do
                    spawn(function ()
                        coroutine.yield()
                        ended = ended + 1
                        if ended == 100 then say("all") end
                    end)
                end
                collectgarbage() -- only the C++ program has references to the coroutines
            ]]
            child:expect_end("all")
        end)

        it("reports why a wait is not possible", function ()
            holder:take("key")
            local prefix = "nil\tcannot wait here (host embed): "
            local child = embed [[
                coroutine.wrap(function () say(new():lock("key")) end)()
                table.sort({ 1, 2 }, function (a, b) say(new():lock("key")) return a < b end)
                coroutine.wrap(function () say(new({ timeout = 0 }):lock("key")) end)()
                say(pcall(coroutine.wrap(function () sleep(0) end)))
            ]]
            assert.equal(prefix .. "a coroutine that this program does not resume", child:hear())
            assert.equal(prefix .. "Lua was called from C", child:hear())
            child:expect("nil\ttimeout")
            assert.matches("^false\t.*cannot wait here$", child:hear())
            assert.equal(0, child:wait())
        end)

        it("continues when a script ends with an error, and reports it at the end", function ()
            holder:take("key")
            local child = embed([[
                local lock = new()
                assert(lock:lock("other"))
                sleep(0.02)
                error "oh"
            ]], [[
                local elapsed, err = new({ timeout = 0.1 }):lock("key")
                say(elapsed, err)
            ]])
            local text = child:hear_all()
            assert.matches("embed: [^\n]*:%d+: oh\n", text)
            assert.matches("nil\ttimeout\n", text)
            assert.equal(1, child:wait())
        end)

        it("shares locks with a worker of nginx: each waits for the other", function ()
            assert.is_nil(site.missing())
            local nginx = site.start {
                dictionaries = { spec_embed = SIZE },
                locations = {
                    ["/lock"] = [[
                        lock = require("resty.lock"):new("spec_embed", { timeout = 30, exptime = 60 })
                        ngx.print(lock:lock("key") and "nginx has it")
                    ]],
                    ["/unlock"] = [[ngx.print(tostring(lock:unlock()))]],
                },
            }
            assert.equal("nginx has it", (nginx:get("/lock")))
            local child = embed [[
                say("begin")
                local lock = new { timeout = 30, exptime = 60 }
                say(lock:lock("key") and "embed has it")
                io.read("*l")
                assert(lock:unlock())
            ]]
            child:expect("begin")
            assert.equal("1", (nginx:get("/unlock")))
            child:expect("embed has it")

            local request = nginx:connect()
            request:send("/lock")
            command.sleep(0.1)
            assert.is_false(request:answered())
            child:say("release")
            assert.equal("nginx has it", (request:receive()))
            assert.equal(0, child:wait())
        end)

        it("refuses scripts that it cannot run", function ()
            for _, case in ipairs {
                { 2, "Usage: embed", },
                { 1, "NAME=SIZE expected", "--dict", "jobs", "x.lua" },
                { 1, 'bad size "4x"', "--dict", "jobs=4x", "x.lua" },
                { 1, "cannot open /does/not/exist.lua", "/does/not/exist.lua" },
            } do
                local child = run_program("embed", unpack(case, 3))
                local text = child:hear_all()
                assert.truthy(text:find(case[2], 1, true), text)
                assert.equal(case[1], child:wait())
            end
        end)
    end)

    describe("the C program", function ()
        local function await_waiter(key)
            local dict = assert(require("resty.shdict").open("spec_embed", { size = SIZE }))
            assert(command.await(function () return dict:waiters(key) == 1 end))
        end

        it("waits for a lock that Lua holds, and counts", function ()
            holder:take("counter lock")
            local child = run_program("counter", "spec_embed")
            await_waiter("counter lock")
            holder:release()
            child:expect_end("count 1")
        end)

        it("loses no count among many processes", function ()
            local children = {}
            for i = 1, 10 do
                children[i] = run_program("counter", "spec_embed", "20")
            end
            local counts = {}
            for _, child in ipairs(children) do
                counts[#counts + 1] = tonumber(child:hear():match("^count (%d+)$"))
                assert.equal(0, child:wait())
            end
            table.sort(counts)
            assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, counts)
        end)

        it("gives up after its timeout, and takes over from a dead holder", function ()
            holder:take("counter lock")
            local child = run_program("counter", "spec_embed", "0.1")
            child:expect("counter: no lock: locked")
            assert.equal(1, child:wait())
            child = run_program("counter", "spec_embed", "20")
            await_waiter("counter lock")
            holder:kill()
            child:expect_end("count 1")
        end)
    end)
end)
