-- Tests host/nginx.lua: in which phases of nginx a caller can wait for a lock, and which errors it gets in the other
-- phases.

local files, fixture, process, shell, site = require "spec.support" ("files", "fixture", "process", "shell", "site")
local resty_rwlock = require "resty.rwlock"
local resty_semaphore = require "resty.semaphore"

local NAME = "spec_phases"

-- Uses locks in the calling phase, and stores the results as text in the dictionary under the phase's name.
local PROBE = [[
    local function text(ok, ...)
        local words = { ok and "ok" or "raised" }
        for i = 1, select("#", ...) do
            words[i + 1] = tostring((select(i, ...)))
        end
        return table.concat(words, " ")
    end

    function probe(phase)
        local dict = require("resty.shdict").open("spec_phases")
        local resty_lock = require "resty.lock"
        local function new(timeout)
            return assert(resty_lock:new("spec_phases", { timeout = timeout }))
        end
        local free = new(5)
        dict:set(phase .. " free", text(true, free:lock("free " .. phase), free:unlock()))
        dict:set(phase .. " no time", text(pcall(free.lock, new(0), "held")))
        dict:set(phase .. " lock", text(pcall(free.lock, new(0.02), "held")))
        dict:set(phase .. " wait", text(pcall(free.wait, new(0.02), "held")))
        dict:set(phase .. " with", text(pcall(free.with, new(0.02), "held", print)))
        local rwlock = assert(require("resty.rwlock"):new("spec_phases", { timeout = 0.02 }))
        dict:set(phase .. " rdlock", text(pcall(rwlock.rdlock, rwlock, "held rw")))
        local semaphore = assert(require("resty.semaphore"):new("spec_phases", { permits = 1, timeout = 0.02 }))
        dict:set(phase .. " semaphore", text(pcall(semaphore.wait, semaphore, "permit")))
    end
]]

local CONTENDED = { "lock", "wait", "with", "rdlock", "semaphore" }

local it = fixture.it_unless(site.missing())


describe("in nginx", function ()
    local dict, lock = fixture.site(NAME)
    local rwlock, semaphore

    before_each(function ()
        rwlock = assert(resty_rwlock:new(NAME, { exptime = 600 }))
        semaphore = assert(resty_semaphore:new(NAME, { permits = 1 }))
        assert(lock:lock("held"))
        assert(rwlock:wrlock("held rw"))
        assert(semaphore:wait("permit"))
    end)

    after_each(function ()
        rwlock:unlock()
        semaphore:post("permit")
    end)

    -- Returns a folder that is removed after the test.
    local function folder()
        local path = shell.output("mktemp -d /dev/shm/holdfast-spec.XXXXXX")
        finally(function () os.execute("rm -rf -- '" .. path .. "'") end)
        return path
    end

    -- Starts a site with the function probe(). `options` are the options for site.start.
    local function start(options)
        options.http = "init_by_lua_block {" .. PROBE .. "}" .. (options.http or "")
        return site.start(options)
    end

    local function found(phase, what)
        return site.await(phase .. ": " .. what, function () return dict:get(phase .. " " .. what) end)
    end

    local function assert_works(phase)
        assert.equal("ok 0 1", found(phase, "free"), phase)
        assert.equal("ok nil timeout", found(phase, "no time"), phase)
    end

    local function assert_waits(phase)
        assert_works(phase)
        for _, what in ipairs(CONTENDED) do
            assert.equal("ok nil timeout", found(phase, what), phase)
        end
    end

    local function assert_raises(phase, message)
        assert_works(phase)
        for _, what in ipairs(CONTENDED) do
            assert.equal("raised " .. message, found(phase, what), phase)
        end
    end

    it("a caller can wait in rewrite, access, content, in timers and in a request's light threads", function ()
        local here = start { locations = { ["/probe"] = {
            rewrite = "probe 'rewrite'",
            access = "probe 'access'",
            content = [[
                probe "content"
                assert(ngx.thread.wait(ngx.thread.spawn(probe, "light thread")))
                coroutine.wrap(probe)("coroutine")
                assert(ngx.timer.at(0, function () probe "timer" end))
                ngx.print("done")
            ]],
        } } }
        assert.equal("done", (here:get("/probe")))
        for _, phase in ipairs { "rewrite", "access", "content", "light thread", "coroutine", "timer" } do
            assert_waits(phase)
        end
    end)

    it("a caller can wait in server_rewrite", function ()
        local here = start {
            server = "server_rewrite_by_lua_block { if ngx.var.uri == '/probe' then probe 'server_rewrite' end }",
            locations = { ["/probe"] = "ngx.print 'done'" },
        }
        assert.equal("done", (here:get("/probe")))
        assert_waits "server_rewrite"
    end)

    -- The library knows phases by their names, but new versions of nginx may have new phases.
    it("in an unknown phase, the library asks nginx, which does not log a complaint", function ()
        local here = site.start {
            http = "init_by_lua_block {" .. PROBE .. "; local get_phase = ngx.get_phase;"
                   .. "function ngx.get_phase() return get_phase() == 'init' and 'init' or 'new' end }",
            locations = { ["/probe"] = { content = "probe 'new' ngx.print 'done'", log = "probe 'new_log'" } },
        }
        assert.equal("done", (here:get("/probe")))
        assert_waits "new"
        assert_works "new_log"
        assert.equal("raised API disabled in the context of log_by_lua*", found("new_log", "semaphore"))
        assert.falsy(here:log():find("patch", 1, true))
    end)

    local function make_certificate(path)
        assert(shell.succeeds("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
                        .. "-subj /CN=spec -keyout " .. path .. "/key -out " .. path .. "/certificate 2>/dev/null"))
        return "ssl_certificate " .. path .. "/certificate; ssl_certificate_key " .. path .. "/key;"
    end

    -- Returns the answer that a TLS client gets from /secret, or "" if it gets none.
    local function ask_for_secret(path)
        return (process.run("io.write(io.popen('curl -sk --max-time 20 --unix-socket " .. path
                            .. "/tls.sock https://spec/secret'):read('*a'))"))
    end

    it("a caller can wait while a TLS connection gets its certificate", function ()
        local path = folder()
        local here = start {
            listen = { "unix:" .. path .. "/tls.sock ssl" },
            server = make_certificate(path) .. "ssl_certificate_by_lua_block { probe 'certificate' }",
            locations = { ["/secret"] = "ngx.print 'secret'" },
        }
        assert.equal("secret", ask_for_secret(path))
        assert_waits "certificate"
        assert.is_true(site.alive(here.master.pid))
    end)

    -- A wait in this phase needs OpenResty's patch. Without the patch, nginx ends the connection when any code yields
    -- here.
    it("a caller can wait in ssl_client_hello if ngx.sleep can, and always gets a free lock", function ()
        local path = folder()
        local here = start {
            listen = { "unix:" .. path .. "/tls.sock ssl" },
            server = make_certificate(path) .. [[ssl_client_hello_by_lua_block {
                local dict = require("resty.shdict").open "spec_phases"
                local free = assert(require("resty.lock"):new("spec_phases", { timeout = 0 }))
                dict:set("hello free", free:lock "free hello" .. " " .. free:unlock())
                dict:set("hello no time", select(2, free:lock "held"))
                if dict:get "may sleep" then
                    ngx.sleep(0.001)
                end
                if dict:get "may wait" then
                    probe "hello"
                end
            }]],
            locations = { ["/secret"] = "ngx.print 'secret'" },
        }
        assert.equal("secret", ask_for_secret(path))
        assert.equal("0 1", found("hello", "free"))
        assert.equal("timeout", found("hello", "no time"))
        dict:set("may sleep", true)
        local patched = ask_for_secret(path) == "secret"
        dict:set("may wait", true)
        assert.equal(patched and "secret" or "", ask_for_secret(path))
        if patched then
            assert_waits "hello"
        end
        assert.is_true(site.alive(here.master.pid))
    end)

    it("a caller cannot wait in phases without ngx.sleep: the call raises the error of lua-resty-lock", function ()
        local here = start {
            http = [[
                init_worker_by_lua_block { probe "init_worker" }
                exit_worker_by_lua_block { probe "exit_worker" }
                upstream other {
                    server 0.0.0.1;
                    balancer_by_lua_block {
                        probe "balancer"
                        assert(require("ngx.balancer").set_current_peer("unix:" .. ngx.config.prefix() .. "http.sock"))
                    }
                }]],
            locations = {
                ["/probe"] = {
                    directives = "set_by_lua_block $probed { probe 'set' return '' }",
                    content = "ngx.print 'done'",
                    header_filter = "probe 'header_filter'",
                    body_filter = "probe 'body_filter'",
                    log = "probe 'log'",
                },
                ["/balanced"] = { directives = "proxy_pass http://other/worker;" },
            },
        }
        assert.equal("done", (here:get("/probe")))
        here:get("/balanced")
        for _, phase in ipairs { "set", "header_filter", "body_filter", "log", "init_worker", "balancer" } do
            assert_raises(phase, "API disabled in the context of " .. phase .. "_by_lua*")
        end
        here:signal("QUIT")
        assert_raises("exit_worker", "API disabled in the context of exit_worker_by_lua*")
    end)

    it("the error in init_by_lua explains what to do instead", function ()
        site.start { http = "init_by_lua_block {" .. PROBE .. " probe 'init' }" }
        assert_raises("init", "cannot wait in init_by_lua*, where nothing else runs yet; use ngx.timer.at(0, "
                              .. "...) in init_worker_by_lua*")
    end)

    -- Sleeps as Kong does. Before Kong's workers serve requests, they load their configuration one after the other,
    -- under a lock.
    local BLOCKING_SLEEP = [[
        local ffi = require "ffi"
        ffi.cdef "int usleep(unsigned int microseconds);"
        local native, where = ngx.sleep, { init = true, init_worker = true }
        function ngx.sleep(seconds)
            if not where[ngx.get_phase()] then
                return native(seconds)
            end
            ffi.C.usleep(seconds * 1e6)
        end
    ]]

    it("a caller can wait if the program has replaced ngx.sleep with a function that works in the phase", function ()
        local here = site.start {
            http = "init_by_lua_block {" .. BLOCKING_SLEEP .. PROBE .. [[
                    probe "init"
                }
                init_worker_by_lua_block { probe "init_worker" }]],
            locations = { ["/probe"] = {
                directives = "set_by_lua_block $probed { probe 'set' return '' }",
                content = "probe 'content' ngx.print 'done'",
            } },
        }
        assert.equal("done", (here:get("/probe")))
        for _, phase in ipairs { "init", "init_worker", "content" } do
            assert_waits(phase)
        end
        assert_raises("set", "API disabled in the context of set_by_lua*")
    end)

    it("starting workers wait for each other if ngx.sleep is replaced", function ()
        site.start {
            workers = 3,
            http = "init_by_lua_block {" .. BLOCKING_SLEEP .. [[}
                init_worker_by_lua_block {
                    local dict = require("resty.shdict").open("spec_phases")
                    local lock = assert(require("resty.lock"):new("spec_phases", { timeout = 20 }))
                    if lock:lock("start") then
                        dict:set("together", dict:get("together") or dict:incr("inside", 1, 0) > 1)
                        ngx.sleep(0.05)
                        dict:incr("inside", -1)
                        dict:incr("started", lock:unlock(), 0)
                    end
                }]],
        }
        site.await("all workers have started", function () return dict:get("started") == 3 end)
        assert.is_false(dict:get("together"))
    end)

    it("a function that is called from C cannot wait, and gets an error", function ()
        local here = site.start { locations = { ["/sort"] = [[
            local lock = require("resty.lock"):new("spec_phases", { timeout = 5 })
            table.sort({ 1, 2 }, function (a, b) ngx.print(select(2, lock:lock("held")), "\n") return a < b end)
            ngx.sleep(0.01)
            ngx.print("end")
        ]] } }
        assert.equal("cannot wait here (host nginx): Lua was called from C\nend", (here:get("/sort")))
    end)

    it("a thread of nginx's thread pool waits like any other thread", function ()
        local path = folder()
        files.write(path .. "/spec_thread.lua", [[
            return { wait = function ()
                local lock = require("resty.lock"):new("spec_phases", { timeout = 0.05 })
                local elapsed, err = lock:lock("held")
                return tostring(elapsed) .. " " .. err .. " " .. require("resty.holdfast.host").current().name
            end }
        ]])
        local here = site.start {
            main = "thread_pool spec threads=1;",
            http = "init_by_lua_block { package.path = '" .. path .. "/?.lua;' .. package.path }",
            locations = { ["/thread"] = "ngx.print(select(2, ngx.run_worker_thread('spec', 'spec_thread', 'wait')))" },
        }
        assert.equal("nil timeout none", (here:get("/thread")))
    end)

    it("HOLDFAST_WAIT=poll and wait = 'poll' make waits sleep with ngx.sleep, in lua-resty-lock's steps", function ()
        local here = site.start {
            main = "env HOLDFAST_WAIT;",
            env = { HOLDFAST_WAIT = "poll" },
            locations = { ["/poll"] = [[
                local ticks = 0
                ngx.thread.spawn(function ()
                    while ticks < 5 do ngx.sleep(0.005) ticks = ticks + 1 end
                end)
                local lock = require("resty.lock"):new("spec_phases", { timeout = 0.2, wait = ngx.var.arg_wait })
                local elapsed, err = lock:lock("held")
                ngx.print(elapsed, " ", err, " ", ticks)
            ]] },
        }
        assert.equal("nil timeout 5", (here:get("/poll")))
        assert.equal("nil timeout 5", (here:get("/poll?wait=poll")))
    end)
end)
