-- Tests the examples that are started by a script, examples/*/run, with a real Redis, nginx and wrk.

local command, fixture, row, shell, site = require "spec.support" ("command", "fixture", "rows", "shell", "site")

local root = os.getenv("PWD")
local library = os.getenv("HOLDFAST_LIB") or root .. "/build/libholdfast.so"


-- Returns nil, or the reason why the examples with nginx cannot run here.
local function missing()
    for _, program in ipairs { "redis-server", "redis-cli", "wrk" } do
        if not shell.succeeds("command -v " .. program .. " >/dev/null") then
            return program .. " is not installed"
        end
    end
    return site.missing()
end

local it_with_nginx = fixture.it_unless(missing())


-- Starts an example with a folder for temporary files. The test later checks that the folder is empty.
local function start(example, arguments, environment)
    local env = { PROGRAM = root .. "/examples/" .. example .. "/run", HOLDFAST_LIB = library,
                  TMPDIR = command.path("temporary") }
    for name, value in pairs(environment or {}) do
        env[name] = value
    end
    assert(shell.succeeds("mkdir -p '" .. env.TMPDIR .. "'"))
    local all = { unpack(arguments) }
    all[#all + 1] = env
    return command.start(unpack(all))
end


-- Runs an example, which must end without an error. Returns its output.
local function output(example, ...)
    local process = start(example, { ... })
    assert.same({ code = 0 }, process:wait(120), process:err())
    assert.equal("", process:err())
    return process:out()
end


-- Returns the number of processes with this folder on their command line. The pattern does not match itself.
local function processes()
    return tonumber(shell.output("grep -ls '" .. command.path("temporar[y]") .. "/' /proc/[0-9]*/cmdline | wc -l"))
end


local function assert_nothing_is_left()
    assert.is_truthy(command.await(function () return processes() == 0 end))
    assert.equal("", shell.output("ls '" .. command.path("temporary") .. "'; ls -d " .. command.world()
                                  .. "/holdfast-example.* 2>/dev/null"))
end


describe("examples/run", function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    it_with_nginx("nginx asks Redis once for each article with the lock, and more often without the lock", function ()
        local out = output("nginx", "1", "300", "32")
        local requests, _, _, _, articles, calls = unpack(row(out, "with the lock"))
        assert.is_true(requests > articles and articles > 0, out)
        assert.equal(articles, calls)
        _, _, _, _, articles, calls = unpack(row(out, "without"))
        assert.is_true(calls > articles, out)
        assert_nothing_is_left()
    end)

    it_with_nginx("cache asks Redis once for each article, and shows a text that has changed", function ()
        local out = output("cache", "1", "300", "32")
        local requests, _, _, _, articles, calls = unpack(row(out, "with the cache"))
        assert.is_true(requests > articles and articles > 0, out)
        assert.equal(articles, calls)
        _, _, _, _, articles, calls = unpack(row(out, "with ngx.shared"))
        assert.is_true(calls > articles, out)
        assert.truthy(out:find("\narticle 0, after a change: This is a new text.\n", 1, true), out)
        assert_nothing_is_left()
    end)

    it_with_nginx("events gives every worker every configuration, even a worker that starts later", function ()
        local out = output("events", "3"):gsub("%d+%.%d+ ms", "N ms")
        assert.equal([[
limit 100: 4 workers have it, the last after N ms
limit 200: 4 workers have it, the last after N ms
limit 300: 4 workers have it, the last after N ms
the site says: the limit is 300
a worker is killed, and nginx starts another one
limit 42: 4 workers have it, the last after N ms
]], out)
        assert_nothing_is_left()
    end)

    it("queue sends all emails even if workers are killed", function ()
        local out = output("queue", "3")
        local kills, pushed = row("\n" .. out, "kills")[1], row(out, "mails pushed")[1]
        assert.is_true(kills > 0 and pushed > 0, out)
        assert.same({ pushed }, row(out, "mails sent"))
        assert.same({ 0 }, row(out, "lost"))
        assert.is_true(row(out, "attempt 1")[1] < pushed, out)
        assert.is_true(row(out, "attempt 2")[1] > 0, out)
        assert_nothing_is_left()
    end)

    for example, sign in pairs { nginx = "access", cache = "access", events = "nginx.pid", queue = "sent" } do
        local claim = example == "queue" and it or it_with_nginx
        for name, signal in pairs { TERM = command.TERM, ["Ctrl-C"] = command.INT } do
            claim(example .. " leaves nothing behind after " .. name, function ()
                local process = start(example, { "99999" })
                assert.is_truthy(command.await(function ()
                    return shell.succeeds("grep -qs . '" .. command.path("temporary") .. "'/*/" .. sign)
                end), "it does not start")
                assert.is_true(processes() >= 1)
                if signal == command.INT then
                    process:signal_group(signal)
                else
                    process:signal(signal)
                end
                assert.same({ code = 128 + signal }, process:wait())
                assert.equal("", process:err())
                assert_nothing_is_left()
            end)
        end
    end

    it("refuses arguments that are not numbers, and numbers that are too large", function ()
        for said, case in pairs {
            ['run: expected a number from 1 to 999999, got "0"\n'] = { "nginx", { "0" } },
            ['run: expected a number from 1 to 999999, got "x"\n'] = { "cache", { "2", "x" } },
            ['run: expected a number from 1 to 999999, got "1000000"\n'] = { "queue", { "1000000" } },
            ["usage: run [SECONDS [ARTICLES [CONNECTIONS]]]\n"] = { "cache", { "1", "2", "3", "4" } },
            ["usage: run [PUSHES]\n"] = { "events", { "1", "2" } },
            ["usage: run [SECONDS]\n"] = { "queue", { "1", "2" } },
        } do
            local process = start(unpack(case))
            assert.same({ code = 2 }, process:wait())
            assert.equal(said, process:err())
        end
    end)

    it("names a program that is missing", function ()
        local path = command.path("few programs")
        assert(shell.succeeds(("mkdir '%s' && ln -s $(command -v dirname) $(command -v realpath) '%s'")
                              :format(path, path)))
        for example, program in pairs { cache = "redis-server", events = "pgrep", nginx = "redis-server",
                                        queue = "luajit" } do
            local process = start(example, {}, { PATH = path })
            assert.same({ code = 1 }, process:wait())
            assert.equal("run: " .. program .. " is not installed; scripts/setup test installs it\n", process:err())
        end
    end)

    it("reports that holdfast is not built", function ()
        local process = start("queue", {}, { HOLDFAST_LIB = "/nonexistent/libholdfast.so" })
        assert.same({ code = 1 }, process:wait())
        assert.equal("run: luajit cannot load holdfast; build it with make\n", process:err())
    end)
end)
