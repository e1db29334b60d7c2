-- Tests examples/http_cache.lua, which is a server that runs in the scheduler, with real clients.

local command, http, world = require "spec.support" ("command", "http", "tools/world")

local await = command.await

local SCRIPT = command.repository .. "/examples/http_cache.lua"


describe("examples/http_cache.lua", function ()
    local backend, server, backend_port, port

    local function serves(at)
        return await(function ()
            local ok, connection = pcall(http.connect, at)
            if ok then
                connection:close()
            end
            return ok
        end)
    end

    local function start(seconds)
        backend_port, port = http.free_port(), http.free_port()
        backend = command.start("luajit", SCRIPT, "--slow", tostring(seconds), "--listen", tostring(backend_port),
            { PROGRAM = "/usr/bin/env" })
        server = command.start("run", "--workers", "2", "--dict", "http_pages=1m", "--dict", "http_locks=100k", SCRIPT,
            "--upstream", "127.0.0.1:" .. backend_port, "--listen", tostring(port))
        assert.truthy(serves(backend_port), backend:err())
        assert.truthy(serves(port), server:err())
    end

    before_each(command.set_up)

    after_each(function ()
        http.clean_up()
        command.tear_down()
    end)

    it("fetches each page once for all clients and workers, and serves other pages while it waits", function ()
        start(0.5)
        local connections = {}
        for i = 1, 40 do
            connections[i] = http.connect(port)
            connections[i]:send("/page" .. i % 2)
        end
        local request = {}
        for i = 1, 40 do
            local body, status = connections[i]:receive()
            assert.equal(200, status, body)
            local page, number = body:match("^page (/page%d), request (%d) here\n$")
            assert.equal("/page" .. i % 2, page)
            request[page] = request[page] or number
            assert.equal(request[page], number)
        end
        local numbers = { request["/page0"], request["/page1"] }
        table.sort(numbers)
        assert.same({ "1", "2" }, numbers)
        local body = http.connect(port):get("/other")
        assert.equal("page /other, request 3 here\n", body)
        assert.equal("", server:err())
    end)

    it("passes on errors of the backend, and accepts only GET", function ()
        start(0)
        backend:signal(command.KILL)
        assert.truthy(backend:wait())
        local body, status = http.connect(port):get("/page")
        assert.equal(502, status)
        assert.matches("^the upstream server: ", body)
        body, status = http.connect(port):get("no path")
        assert.same({ "GET only\n", 400 }, { body, status })
        assert.equal("", server:err())
    end)

    it("finishes pending requests after TERM or QUIT, and then exits", function ()
        for _, signal in ipairs { command.TERM, command.QUIT } do
            start(1)
            local connection = http.connect(port)
            connection:send("/page" .. signal)
            assert.truthy(await(function () return not pcall(connection.receive, connection, 0.2) end))
            server:signal(signal)
            local body, status = connection:receive()
            assert.same({ "page /page" .. signal .. ", request 1 here\n", 200 }, { body, status })
            assert.same(signal == command.TERM and { signal = signal } or { code = 0 }, server:wait())
            assert.equal("", server:err())
            assert.is_false(pcall(http.connect, port))
            backend:signal(command.TERM)
            assert.same({ code = 0 }, backend:wait())
            assert.equal("", backend:err())
        end
    end)

    it("refuses bad options", function ()
        for _, arguments in ipairs { {}, { "--listen" }, { "--listen", "x", "--slow", "1" }, { "--fast", "1" },
                                     { "--listen", "80" }, { "--listen", "80", "--upstream", "name:80" },
                                     { "--listen", "80", "--upstream", "127.0.0.1:80", "--slow", "1" } } do
            local err = world.refused(1, "", "run", "--workers", "1", SCRIPT, unpack(arguments))
            assert.matches("^http_cache: .-\nUsage: http_cache.lua %-%-listen PORT", err)
        end
    end)
end)
