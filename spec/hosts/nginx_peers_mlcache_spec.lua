-- Tests tests/peers/run and the adapters in tests/peers/lua with tests in the format of the peers' own tests.

local command, fixture, shell, site = require "spec.support" ("command", "fixture", "shell", "site")

local HEAD = [==[
use Test::Nginx::Socket::Lua;
run_tests();

__DATA__
]==]

local HANDLERS = [==[

=== TEST 1: handlers get the events of their source, once if the event is unique
--- http_config eval
"$::HttpConfig"
. q{
lua_shared_dict worker_events 1m;
init_worker_by_lua_block {
    local events = require "resty.worker.events"
    assert(events.configure { shm = "worker_events" })
}
}
--- config
    location = /t {
        content_by_lua_block {
            local events = require "resty.worker.events"
            local function say(data, event, source) ngx.say(source, " ", event, " ", data) end
            events.register(say, "a")
            events.register(say, "a", "two")
            events.register_weak(function () ngx.say("collected") end)
            collectgarbage()
            events.post("a", "one", 1)
            events.post("b", "one", 1)
            events.post("a", "two", 2, "unique")
            events.post("a", "two", 3, "unique")
            events.post_local("a", "local", 4)
            ngx.say(events.poll())
            ngx.say(events.unregister(say, "a"), events.unregister(say, "a"))
            events.post("a", "one", 5)
            events.poll()
        }
    }
--- request
GET /t
--- response_body
a local 4
a one 1
a two 2
a two 2
done
truefalse
--- no_error_log
[error]
]==]

local LEVELS = [==[

=== TEST 1: a value is in each level, which the test can see
--- config
    location = /t {
        content_by_lua_block {
            local cache = assert(require("resty.mlcache").new("name", "cache_shm", { ttl = 50, resurrect_ttl = 50 }))
            local function load(value, err) return value, err end
            ngx.say(cache:get("key", nil, load, "a"))
            ngx.say(cache.lru:get("key"), " ", ngx.shared.cache_shm:get(cache.name .. "key"), " ", cache.ttl)
            cache.lru:delete("key")
            ngx.say((select(3, cache:get("key", { ttl = 5 }))))
            ngx.say(pcall(cache.get, cache, 5))
            ngx.say(pcall(cache.set, cache, "key", { ttl = -1 }, 1))
            local bulk = { "a", nil, load, 1, 5, nil, load, 2, n = 2 }
            ngx.say(pcall(cache.get_bulk, cache, bulk))
            bulk[5] = "key"
            for _, value in cache.each_bulk_res(cache:get_bulk(bulk)) do ngx.say(value) end
        }
    }
--- response_body
anil3
a a 50
2
falsekey must be a string
falseopts.ttl must be >= 0
falsekey at index 5 must be a string for operation 2 (got 5)
1
a
]==]

local HOLDS = [==[

=== TEST 4: holds
--- config
    location = /t { return 200 "yes"; }
--- request
GET /t
--- response_body: %s
]==]


describe("tests/peers/run", function ()
    command.fixture()
    local it = fixture.it_unless(site.missing())

    -- Runs a file that contains `tests`, or no file. Returns the status and the output.
    local function run_file(file, tests, ...)
        local path = command.path "peer"
        assert(shell.succeeds("mkdir -p '" .. path .. "/t'"))
        if tests ~= "" then
            command.write("peer/t/" .. file, HEAD .. tests)
        end
        local arguments = { ... }
        arguments[#arguments + 1] = { PROGRAM = command.repository .. "/tests/peers/run", TMPDIR = command.path "" }
        local process = command.start(file == "sanity.t" and "worker-events" or "mlcache", path, unpack(arguments))
        return assert(process:wait(60)).code, process:out()
    end

    local function run(...)
        return run_file("sanity.t", table.concat { ... })
    end

    it("runs the peer's tests with the adapter, and requires a listed test to fail", function ()
        local status, text = run(HANDLERS, HOLDS:format "no")
        assert.equal("worker-events: 1 tests hold, 0 with a change that the list explains, 1 fail as listed, "
                     .. "0 are skipped by the peer, 0 are wrong\n", text)
        assert.equal(0, status)
    end)

    it("runs tests of mlcache, which inspect the levels of the cache", function ()
        local status, text = run_file("03-peek.t", LEVELS, "TEST 1")
        assert.matches("^mlcache: 1 tests hold, ", text)
        assert.equal(0, status)
    end)

    it("fails if a listed test passes, or does not exist", function ()
        local status, text = run(HOLDS:format "yes")
        assert.matches("^sanity.t TEST 4: holds: it holds, although the list says that it fails\n", text)
        assert.equal(1, status)
        status, text = run(HANDLERS)
        assert.matches("^sanity.t TEST 4: is in the list, but there is no such test\n", text)
        assert.equal(1, status)
    end)

    it("fails if a test fails that is not in the list", function ()
        local status, text = run((HANDLERS:gsub("a two 2", "a two 5", 1)), HOLDS:format "no")
        assert.matches("^sanity.t TEST 1: .-: answered:\na local 4\n", text)
        assert.equal(1, status)
    end)

    it("skips the suite if the folder has no tests", function ()
        local status, text = run()
        assert.matches("^skipped: .* has no tests: it must be a copy of the peer's repository\n$", text)
        assert.equal(0, status)
    end)
end)
