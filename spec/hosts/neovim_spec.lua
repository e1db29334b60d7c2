-- Tests what the main loop, coroutines and fast events of a real Neovim can do while a different process holds a lock.
-- conformance_spec.lua tests the behaviour that Neovim shares with other event loops.

local new_holder, loops, neovim, process, snippets =
    require "spec.support" ("holder", "loops", "neovim", "process", "snippets")

local COMMON = loops.COMMON .. [[
    local uv = vim.loop
    local function after(ms, fn)
        local timer = uv.new_timer()
        timer:start(ms, 0, function () timer:close() fn() end)
    end
    local function spawn(fn) coroutine.wrap(fn)() end
    -- Runs fn(done) in a fast event, and lets the editor run until done() is called.
    local function in_fast_event(fn)
        local over
        after(1, function () fn(function () over = true end) end)
        vim.wait(20000, function () return over end)
    end
]]


describe("in Neovim", function ()
    local holder = new_holder(COMMON, neovim.start)

    before_each(function () holder:take("key") end)

    after_each(process.clean_up)

    local function start(source, options)
        return neovim.start(COMMON .. source, options)
    end

    -- Defines a test. The program reports the line `when`, waits until the key is released, and then reports the
    -- remaining lines.
    local function it_continues(title, source, when, ...)
        local rest = { ... }
        it(title, function ()
            local child = start(source)
            holder:release_when(child, when)
            child:expect_end(unpack(rest))
        end)
    end

    describe("the main loop", function ()
        it_continues("waits while timers, scheduled callbacks and coroutines run, until another instance releases", [[
            local timer, ticks, scheduled, steps, alive = uv.new_timer(), 0, 0, 0, false
            timer:start(5, 5, function ()
                ticks = ticks + 1
                vim.schedule(function ()
                    scheduled = scheduled + 1
                    vim.api.nvim_buf_set_lines(0, 0, -1, true, { "line " .. scheduled })
                    if not alive and scheduled >= 5 and steps >= 5 then
                        alive = true
                        say("alive")
                    end
                end)
            end)
            spawn(function ()
                local co = coroutine.running()
                while true do
                    vim.defer_fn(function () coroutine.resume(co) end, 1)
                    coroutine.yield()
                    steps = steps + 1
                end
            end)
            local lock = new({ timeout = 20 })
            local elapsed = lock:lock("key")
            say(hosts.current().name, elapsed > 0, ticks >= 5, scheduled >= 5, steps >= 5, lock:unlock())
        ]], "alive", "neovim\ttrue\ttrue\ttrue\ttrue\t1")

        it("gets a lock that its own callback releases", function ()
            local child = start [[
                local held, lock = new(), new()
                held:lock("own")
                vim.defer_fn(function () say("release", held:unlock()) end, 20)
                say(lock:lock("own") > 0)
            ]]
            child:expect_end("release\t1", "true")
        end)

        it_continues("waits in a callback that is called while it waits", [[
            local held, inner, outer = new(), new(), new()
            held:lock("a")
            vim.schedule(function ()
                say("inner", (inner:lock("key") or 0) > 0)
                held:unlock()
            end)
            vim.schedule(function () say("begin") end)
            say("outer", (outer:lock("a") or 0) > 0)
        ]], "begin", "inner\ttrue", "outer\ttrue")

        it_continues("waits in a callback from C, where a coroutine cannot yield", [[
            spawn(function ()
                table.sort({ 1, 2 }, function (a, b)
                    vim.schedule(function () say("begin") end)
                    local lock = new()
                    say((lock:lock("key") or 0) > 0, coroutine.isyieldable())
                    lock:unlock()
                    return a < b
                end)
            end)
        ]], "begin", "true\tfalse")

        for _, way in ipairs { "wake", "poll" } do
            it("gives up after the timeout, by " .. way, function ()
                local child = start(([[
                    local start = now()
                    local elapsed, err = new({ timeout = 0.1, wait = %q }):lock("key")
                    say(elapsed, err, now() - start >= 0.1)
                ]]):format(way))
                child:expect_end("nil\ttimeout\ttrue")
            end)

            it("gives up when the user types Ctrl-C, by " .. way, function ()
                local child = start(([[
                    after(20, function () vim.api.nvim_input("<C-c>") end)
                    say(new({ timeout = 20, wait = %q, max_step = 0.01 }):lock("key"))
                    say(new({ timeout = 0.05 }):lock("key"))
                ]]):format(way))
                child:expect_end("nil\tinterrupted", "nil\ttimeout")
            end)
        end

        it_continues("polls if it cannot start a thread", [[
            local parker = require "resty.holdfast.wait.parker"
            parker.fd = function () return nil, "no thread" end
            vim.schedule(function () say("begin") end)
            say((new():lock("key") or 0) > 0)
        ]], "begin", "true")
    end)

    describe("a coroutine", function ()
        it_continues("that began to wait in the main loop continues there", [[
            local over
            spawn(function ()
                local lock = new()
                local elapsed = lock:lock("key")
                say(elapsed > 0, vim.in_fast_event(), pcall(vim.api.nvim_buf_set_name, 0, "name"))
                over = true
            end)
            say("begin")
            vim.wait(20000, function () return over end)
        ]], "begin", "true\tfalse\ttrue")

        it_continues("may wait when it began in a fast event", [[
            in_fast_event(function (done)
                spawn(function ()
                    say("begin", vim.in_fast_event())
                    say(new():lock("key") ~= nil, vim.in_fast_event())
                    done()
                end)
            end)
        ]], "begin\ttrue", "true\ttrue")

        it("that another coroutine resumes just before its time is not resumed again", function ()
            assert.equal("true\n", start([[
                local over
                spawn(function ()
                    local co = coroutine.running()
                    after(10, function ()
                        vim.schedule(function () coroutine.resume(co) end)
                    end)
                    vim.schedule(function () -- is still busy when the timer is due
                        local busy = now() + 0.05
                        repeat until now() > busy
                    end)
                    hosts.current().sleep(0.02)
                    vim.defer_fn(function ()
                        over = true
                        coroutine.resume(co)
                    end, 30)
                    coroutine.yield()
                    say(over)
                end)
                vim.wait(20000, function () return over end)
            ]]):hear_all())
        end)

        it("that fails after its wait is reported like a failed callback, and the others continue", function ()
            local child = start([[
                local failing, other, over = new(), new()
                spawn(function ()
                    failing:lock("key")
                    error("the coroutine fails")
                end)
                spawn(function ()
                    say("other", other:lock("key") > 0)
                    over = true
                end)
                vim.schedule(function () say("begin") end)
                vim.wait(20000, function () return failing.cdata end)
                say("release", failing:unlock())
                vim.wait(20000, function () return over end)
            ]], { stderr = true })
            holder:release_when(child, "begin")
            local text = child:hear_all()
            assert.matches("the coroutine fails", text, 1, true)
            assert.matches("stack traceback", text, 1, true)
            assert.matches("other\ttrue\n", text, 1, true)
            assert.matches("release\t1\n", text, 1, true)
        end)
    end)

    describe("a fast event", function ()
        it("gets a free lock, and does not wait for a held lock", function ()
            local child = start [[
                in_fast_event(function (done)
                    say(vim.in_fast_event(), new():lock("free"))
                    say(new({ timeout = 0 }):lock("key"))
                    say(new():trylock("key"))
                    say(new():lock("key"))
                    say(new({ wait = "poll" }):lock("key"))
                    done()
                end)
                say("end")
            ]]
            local refusal = "nil\tcannot wait here (host neovim): in a fast event; use vim.schedule\n"
            assert.equal("true\t0\nnil\ttimeout\nnil\theld\n" .. refusal .. refusal .. "end\n", child:hear_all())
            assert.equal(0, child:wait())
        end)

        it_continues("may wait in vim.schedule, as the error message suggests", [[
            in_fast_event(function (done)
                vim.schedule(function ()
                    vim.schedule(function () say("begin") end)
                    say((new():lock("key") or 0) > 0)
                    done()
                end)
            end)
        ]], "begin", "true")

        it_continues("with block = true stops the editor until the lock is released", [[
            local over
            local ticks, timer = 0, uv.new_timer()
            timer:start(1, 1, function () ticks = ticks + 1 end)
            after(10, function ()
                say("begin")
                local before = ticks
                local elapsed, err = new({ block = true }):lock("key")
                say(elapsed ~= nil or err, ticks - before)
                over = true
            end)
            vim.wait(20000, function () return over end)
        ]], "begin", "true\t0")
    end)

    it("an instance that ends while it holds a lock and waits leaves nothing locked, and ends immediately", function ()
        local child = start [[
            local held = new()
            held:lock("held")
            spawn(function () new({ timeout = 100, exptime = 100 }):lock("key") end)
            vim.schedule(function () say("begin") vim.cmd("qa!") end)
            new({ timeout = 100, exptime = 100 }):lock("key")
        ]]
        child:expect_end("begin")
        holder:release()
        holder:take("held")
    end)

    it("waits leave nothing behind, because the loop watches for wake-ups only during waits", function ()
        local child = start [[
            local parker = require "resty.holdfast.wait.parker"
            local function is_watched()
                for name in uv.fs_scandir_next, uv.fs_scandir("/proc/self/fdinfo") do
                    local file = io.open("/proc/self/fdinfo/" .. name)
                    local text = file and file:read("*a") or ""
                    if file then file:close() end
                    for fd in text:gmatch("tfd:%s+(%d+)") do
                        if tonumber(fd) == parker.fd() then return true end
                    end
                end
                return false
            end
            local held = new()
            say(is_watched())
            for i = 1, 20 do
                held:lock("own")
                vim.defer_fn(function ()
                    if i == 1 then say(is_watched()) end
                    held:unlock()
                end, 5)
                local lock = new()
                assert(lock:lock("own"))
                lock:unlock()
                local over
                held:lock("own")
                spawn(function ()
                    local other = new()
                    assert(other:lock("own"))
                    other:unlock()
                    over = true
                end)
                held:unlock()
                vim.wait(20000, function () return over end)
            end
            say(is_watched())
        ]]
        child:expect_end("false", "true", "false")
    end)

    it("holdfast is found as a plugin, in the folder lua/ of a runtimepath entry", function ()
        local root = require("ffi").string(require("ffi").C.realpath(".", nil))
        local child = start([[
            say((vim.loop.fs_realpath(vim.api.nvim_get_runtime_file("lua/resty/lock.lua", false)[1])))
            say(hosts.current().name, new({ timeout = 0.05 }):lock("key"))
        ]], { env = { LUA_PATH = false }, command = "set runtimepath^=" .. root })
        assert.equal(root .. "/lua/resty/lock.lua", child:hear())
        child:expect("neovim\tnil\ttimeout")
    end)

    for way, place in pairs {
        ["in the folder that a plugin manager puts into runtimepath"] = "plugins/holdfast",
        ["in pack/*/start of a folder in packpath"] = "site/pack/some/start/holdfast",
    } do
        it("as a plugin, holdfast finds the library next to the Lua files of a checkout " .. way, function ()
            local root = os.getenv "HOLDFAST_DIR" .. "/nvim"
            local folder = root .. "/" .. place
            assert(os.execute(("mkdir -p %s/build && cp -r lua %s && cp %s %s/build/libholdfast.so"):format(
                folder, folder, require("resty.holdfast.core").path, folder)) == 0)
            local option = place:match "^site" and "packpath^=" .. root .. "/site" or "runtimepath^=" .. folder
            local child = start([[
                say(require("resty.holdfast.core").path)
                say(hosts.current().name, new({ timeout = 0.05 }):lock("key"))
            ]], { env = { LUA_PATH = false, LUA_CPATH = false, HOLDFAST_LIB = false }, command = "set " .. option })
            local path, answer = child:hear(), child:hear()
            os.execute("rm -rf " .. root)
            assert.equal(folder .. "/lua/../build/libholdfast.so", path)
            assert.equal("neovim\tnil\ttimeout", answer)
        end)
    end

    it("docs/install.md shows a plugin that lazy.nvim can read and build with make", function ()
        local plugin
        for _, block in ipairs(snippets.read "docs/install.md") do
            if block.heading == "A Neovim plugin" and block.language == "lua" then
                plugin = assert(loadstring(block.text))()
            end
        end
        assert.equal("make", plugin.dependencies[1].build)
    end)

    it("a task of the scheduler also works as a task inside Neovim", function ()
        local child = start [[
            local scheduler = require "resty.holdfast.scheduler"
            scheduler.spawn(function ()
                say(hosts.current().name)
                say((new():lock("key") or 0) > 0)
            end)
            scheduler.spawn(function () scheduler.sleep(0.01) say("begin") end)
            say(scheduler.run())
        ]]
        child:expect("scheduler")
        holder:release_when(child, "begin")
        child:expect_end("true", "true")
    end)

    it_continues("a thread of Neovim has no loop of its own, so the thread waits", [[
        local path = package.path
        local over
        local function work(lua_path)
            package.path = lua_path
            local name = require("resty.holdfast.host").current().name
            local lock = require("resty.lock"):new(require("resty.shdict").open("spec_hosts"), { timeout = 20 })
            local elapsed, err = lock:lock("key")
            lock:unlock()
            return name, tostring(elapsed ~= nil or err)
        end
        uv.new_work(work, function (name, waited) say(name, waited) over = true end):queue(path)
        vim.defer_fn(function () say("begin") end, 20)
        vim.wait(20000, function () return over end)
    ]], "begin", "none\ttrue")
end)
