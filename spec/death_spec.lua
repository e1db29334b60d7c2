-- Tests what happens to a key when the process, Lua state or coroutine of its holder or of a waiter is gone.
-- tests/death has the same tests for processes without Lua.

local command, fixture, primitives, process = require "spec.support" ("command", "fixture", "primitives", "process")
local hosts = require "resty.holdfast.host"
local none = require "resty.holdfast.host.none"
local shdict = require "resty.shdict"

-- make(timeout) returns an object whose lease does not end during a test.
local MAKE = [[
    local function make(timeout) return new { exptime = 3600, timeout = timeout or 15 } end
]]

-- A host with which the test controls the waits: each wait yields, and continues when the test resumes it.
local MANUAL_HOST = [[
    require("resty.holdfast.host").set_host { name = "manual", sleep = coroutine.yield, wait = coroutine.yield }
]]

local HOLDER = [[
    local mine = make()
    say(take(mine) and "holds" or "does not hold")
    hear()
    say(give(mine) and "released" or "lost it")
    hear()
]]

local WAITER = [[
    local mine = make()
    hear()
    say(take(mine) and "holds" or "does not hold")
    say(give(mine) and "released" or "lost it")
]]


for _, name in ipairs(primitives.names) do
    local primitive = primitives.source(name, "spec_death") .. MAKE

    describe("death and " .. name .. ":", function ()
        local dict
        local make, take, give = assert(loadstring(primitive .. "return make, take, give"))()

        before_each(function ()
            dict = assert(shdict.open("spec_death", { size = "256k" }))
        end)

        after_each(function ()
            hosts.set_host(nil)
            process.clean_up()
            fixture.collect()
            shdict.remove("spec_death")
        end)

        local function start(source)
            return process.start(primitive .. source, { stderr = true })
        end

        local function start_holder()
            local child = start(HOLDER)
            assert.equal("holds", child:hear())
            return child
        end

        -- Starts a process that waits for the key. Returns when the process is in the queue.
        local function start_waiter()
            local child = start(WAITER)
            local before = dict:free_space()
            child:say("wait")
            assert(command.await(function () return dict:free_space() < before end), "it does not queue")
            return child
        end

        local function release(holder)
            holder:say("release")
            holder:expect "released"
        end

        local function expect_served(child)
            assert.equal("holds", child:hear())
            assert.equal("released", child:hear())
        end

        -- Creates this many coroutines that wait for the key and continue only if they are resumed.
        local function waiting_coroutines(count)
            hosts.set_host { name = "manual", sleep = coroutine.yield, wait = coroutine.yield }
            local all = {}
            for i = 1, count do
                all[i] = coroutine.create(function ()
                    local mine = make()
                    local ok, err = take(mine)
                    return ok, err, ok and give(mine)
                end)
                assert(coroutine.resume(all[i]))
                assert.equal("suspended", coroutine.status(all[i]))
            end
            hosts.set_host(nil)
            return all
        end

        it("a waiting coroutine that is never resumed does not delay other waiters", function ()
            local holder = start_holder()
            local abandoned = waiting_coroutines(3)
            local waiter = start_waiter()
            release(holder)
            expect_served(waiter)
            assert.equal("suspended", coroutine.status(abandoned[1]))
        end)

        it("a coroutine that is collected while it waits leaves the queue", function ()
            local holder = start_holder()
            local before = dict:free_space()
            do
                local abandoned = waiting_coroutines(50)
                assert.equal("suspended", coroutine.status(abandoned[50]))
                assert.is_true(dict:free_space() < before)
            end
            collectgarbage()
            collectgarbage()
            assert.equal(before, dict:free_space())
            release(holder)
            assert.is_truthy(take(make(0)))
        end)

        it("a coroutine that is collected after it was granted the lock passes the lock on", function ()
            local holder = start_holder()
            local abandoned = waiting_coroutines(1)
            local waiter = start_waiter()
            release(holder)
            assert.equal("suspended", coroutine.status(table.remove(abandoned)))
            collectgarbage()
            collectgarbage()
            expect_served(waiter)
            assert.is_truthy(take(make(0)))
        end)

        it("a Lua state closed while its tasks wait leaves nothing behind", function ()
            local holder = start_holder()
            local before = dict:free_space()
            local INNER = primitive .. [[
                local scheduler = require "resty.holdfast.scheduler"
                for _ = 1, 20 do
                    scheduler.spawn(function () take(make()) end)
                end
                scheduler.spawn(function () scheduler.sleep(0.02) end):join()
            ]] .. MANUAL_HOST .. [[
                waiting = {}
                for i = 1, 20 do
                    waiting[i] = coroutine.create(function () take(make()) end)
                    assert(coroutine.resume(waiting[i]))
                end
            ]]
            local child = process.start(("local SOURCE = %q\n"):format(INNER) .. [[
                local ffi = require "ffi"
                ffi.cdef "typedef struct lua_State lua_State;"
                ffi.cdef "lua_State *luaL_newstate(void); void luaL_openlibs(lua_State *); void lua_close(lua_State *);"
                ffi.cdef "int luaL_loadstring(lua_State *, const char *); int lua_pcall(lua_State *, int, int, int);"
                ffi.cdef "const char *lua_tolstring(lua_State *, int, size_t *);"
                local C = ffi.C
                local inner = C.luaL_newstate()
                C.luaL_openlibs(inner)
                local code = C.luaL_loadstring(inner, SOURCE)
                if code == 0 then
                    code = C.lua_pcall(inner, 0, 0, 0)
                end
                say(code == 0 and "waits" or ffi.string(C.lua_tolstring(inner, -1, nil)))
                hear()
                C.lua_close(inner)
                say "closed"
                hear()
            ]], { stderr = true })
            assert.equal("waits", child:hear())
            assert.is_true(dict:free_space() < before)
            child:say("close")
            assert.equal("closed", child:hear())
            assert.equal(before, dict:free_space())
            local waiter = start_waiter()
            release(holder)
            expect_served(waiter)
        end)

        it("the collector of a forked child does not remove its parent's waiters", function ()
            local holder = start_holder()
            local before = dict:free_space()
            local parent = start(process.FORK .. MANUAL_HOST .. [[
                local waiting = {}
                for i = 1, 10 do
                    waiting[i] = coroutine.create(function () take(make()) end)
                    assert(coroutine.resume(waiting[i]))
                end
                in_child(function ()
                    waiting = nil
                    collectgarbage()
                    collectgarbage()
                    os.exit(0, true)
                end)
                say "forked"
                hear()
                waiting = nil
                collectgarbage()
                collectgarbage()
                say "collected"
                hear()
            ]])
            assert.equal("forked", parent:hear())
            assert.is_true(before - dict:free_space() >= 10 * 16, "the child has emptied the queue")
            parent:say("collect")
            assert.equal("collected", parent:hear())
            assert.equal(before, dict:free_space())
            release(holder)
        end)

        it("a forked child gets its parent's lock when the parent is killed", function ()
            local parent = start(process.FORK .. [[
                ffi.cdef "unsigned int alarm(unsigned int);"
                local mine = make()
                assert(take(mine))
                if ffi.C.fork() == 0 then
                    ffi.C.alarm(60)
                    local own = make()
                    say(give(mine) and "the child releases" or "the child does not release")
                    say(take(own) and "the child holds" or "the child gets nothing")
                    say(give(own) and "released" or "lost it")
                    os.exit(0, true)
                end
                hear()
            ]])
            assert.equal("the child does not release", parent:hear())
            none.sleep(0.05)
            assert.same({ nil, "timeout" }, { take(make(0.01)) })
            parent:kill(process.KILL)
            assert.equal("the child holds", parent:hear())
            assert.equal("released", parent:hear())
            assert.is_truthy(take(make()))
        end)

        it("a killed process's locks go to the tasks of other processes, one at a time", function ()
            local holder = start_holder()
            local CROWD = [[
                local scheduler = require "resty.holdfast.scheduler"
                local dict = require("resty.shdict").shared.spec_death
                local served = 0
                hear()
                for _ = 1, 10 do
                    scheduler.spawn(function ()
                        local mine = make()
                        assert(take(mine))
                        assert(dict:add("inside", true), "two tasks hold the key")
                        scheduler.sleep(0.001)
                        dict:delete("inside")
                        assert(give(mine))
                        served = served + 1
                    end)
                end
                scheduler.run()
                say(served)
            ]]
            local crowds = {}
            for i = 1, 3 do
                crowds[i] = start(CROWD)
                crowds[i]:say("wait")
            end
            none.sleep(0.05)
            holder:kill(process.KILL)
            for i = 1, 3 do
                assert.equal("10", crowds[i]:hear())
            end
        end)
    end)
end
