-- Tests host/copas1.lua with real copas servers whose handlers wait for locks. Also tests features of newer versions of
-- copas, and unsupported versions. conformance_spec.lua tests the behaviour that copas shares with other event loops.

local loops, process = require "spec.support" ("loops", "process")
local socket = require "socket"

local COPASES = loops.LOOPS["new copas"] and { "copas", "new copas" } or { "copas" }
local PATIENCE = 20 -- seconds; only limits how long a test can hang

-- Each line that the server receives is a command.
local SERVER = loops.COMMON .. [[
    local copas = require "copas"
    local socket = require "socket"
    local held = new({ exptime = 60 })
    assert(held:lock("key"))
    local commands = {
        lock = function ()
            local lock = new({ timeout = 20 })
            local elapsed, err = lock:lock("key")
            return tostring(elapsed and lock:unlock() or err)
        end,
        release = function () return tostring(held:unlock()) end,
        echo = function () return "echo" end,
    }
    local server = assert(socket.bind("127.0.0.1", 0))
    copas.addserver(server, function (connection)
        connection = copas.wrap(connection)
        while true do
            local line = connection:receive("*l")
            if not line then break end
            connection:send(commands[line]() .. "\n")
        end
    end)
    say((select(2, server:getsockname())))
    copas.loop()
]]


for _, name in ipairs(COPASES) do
    describe("in a server of " .. name, function ()
        local connections, port

        before_each(function ()
            connections = {}
            port = tonumber(process.start(loops.path(name) .. SERVER):hear())
        end)

        after_each(function ()
            for _, connection in ipairs(connections) do
                connection:close()
            end
            process.clean_up()
        end)

        local function connect()
            local connection = assert(socket.connect("127.0.0.1", port))
            connection:settimeout(PATIENCE)
            connections[#connections + 1] = connection
            return connection
        end

        local function send(connection, command)
            assert(connection:send(command .. "\n"))
        end

        local function ask(connection, command)
            send(connection, command)
            return assert(connection:receive("*l"))
        end

        it("other connections are served while handlers wait for a lock, and each handler gets it", function ()
            local waiting = {}
            for i = 1, 20 do
                waiting[i] = connect()
                send(waiting[i], "lock")
            end
            local other = connect()
            for _ = 1, 100 do
                assert.equal("echo", ask(other, "echo"))
            end
            assert.equal("1", ask(other, "release"))
            for i = 1, 20 do
                assert.equal("1", (waiting[i]:receive("*l")))
            end
        end)

        it("a handler keeps waiting when its client disconnects, and others get the lock afterwards", function ()
            local gone, waiting, other = connect(), connect(), connect()
            send(gone, "lock")
            gone:close()
            send(waiting, "lock")
            assert.equal("1", ask(other, "release"))
            assert.equal("1", (waiting:receive("*l")))
        end)
    end)
end


describe("a version of copas that is not supported", function ()
    after_each(process.clean_up)

    local function answer(source)
        return (process.run("package.loaded.copas = { _VERSION = 'Copas 3.0.0' }\n" .. loops.COMMON .. source))
    end

    it("is refused by name when a caller would have to wait", function ()
        assert.equal("0\nnil\tcannot wait here (host copas): Copas 3.0.0 is not supported; upgrade to copas "
                     .. "4.0 or newer, or pass a host for it to set_host\n", answer [[
            coroutine.wrap(function ()
                local held = new()
                say(held:lock("key"))
                say(new():lock("key"))
            end)()
        ]])
    end)

    it("does not affect callers outside of coroutines or without a running loop", function ()
        assert.equal("none\nnone\n", answer [[
            say(hosts.current().name)
            package.loaded.copas.running = false
            coroutine.wrap(function () say(hosts.current().name) end)()
        ]])
    end)

    it("gets a host that sleeps in the way that this version supports", function ()
        assert.equal("true\t1\n", answer [[
            local held = new()
            held:lock("key")
            coroutine.wrap(function ()
                hosts.set_host { name = "copas 3", sleep = function () held:unlock() end }
                local lock = new()
                say(lock:lock("key") >= 0, lock:unlock())
            end)()
        ]])
    end)
end)
