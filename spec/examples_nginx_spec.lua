-- Tests the example site with a real Redis, nginx and wrk.

local command, fixture, row, shell, site = require "spec.support" ("command", "fixture", "rows", "shell", "site")

local root = os.getenv("PWD")
local RUN = root .. "/examples/nginx/run"

local environment = {
    PROGRAM = RUN,
    HOLDFAST_LIB = os.getenv("HOLDFAST_LIB") or root .. "/build/libholdfast.so",
}


-- Returns nil, or why the example cannot run here.
local function missing()
    for _, program in ipairs { "redis-server", "redis-cli", "wrk" } do
        if not shell.succeeds("command -v " .. program .. " >/dev/null") then
            return program .. " is not installed"
        end
    end
    return site.missing()
end

local it = fixture.it_unless(missing())


-- Starts the example with a folder for temporary files, which the test checks afterwards.
local function start(...)
    environment.TMPDIR = command.path("temporary")
    assert(shell.succeeds("mkdir -p '" .. environment.TMPDIR .. "'"))
    local arguments = { ... }
    arguments[#arguments + 1] = environment
    return command.start(unpack(arguments))
end


-- Returns the number of processes with this folder on their command line. The pattern does not match itself.
local function processes()
    return tonumber(shell.output("grep -ls '" .. command.path("temporar[y]") .. "/' /proc/[0-9]*/cmdline | wc -l"))
end


describe("examples/nginx", function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    local function assert_nothing_is_left()
        assert.is_truthy(command.await(function () return processes() == 0 end))
        assert.equal("", shell.output("ls '" .. command.path("temporary") .. "'"))
    end

    it("asks Redis once for each article with the lock, and more often without", function ()
        local process = start("1", "300", "32")
        assert.same({ code = 0 }, process:wait(60), process:err())
        assert.equal("", process:err())
        local requests, _, _, _, articles, calls = unpack(row(process:out(), "with the lock"))
        assert.is_true(requests > articles and articles > 0, process:out())
        assert.equal(articles, calls)
        _, _, _, _, articles, calls = unpack(row(process:out(), "without"))
        assert.is_true(calls > articles, process:out())
        assert_nothing_is_left()
    end)

    it("leaves nothing behind when it ends", function ()
        local process = start("60")
        assert.is_truthy(command.await(function ()
            return shell.succeeds("grep -qs . '" .. environment.TMPDIR .. "'/*/access.log")
        end), "it does not start")
        assert.is_true(processes() >= 2)
        process:signal(command.TERM)
        assert.same({ code = 143 }, process:wait())
        assert_nothing_is_left()
    end)

    it("refuses anything but a number, and numbers that are too large", function ()
        for said, arguments in pairs {
            ['run: expected a number from 1 to 999999, got "0"\n'] = { "0" },
            ['run: expected a number from 1 to 999999, got "x"\n'] = { "2", "x" },
            ["usage: run [SECONDS [ARTICLES [CONNECTIONS]]]\n"] = { "1", "2", "3", "4" },
        } do
            local process = start(unpack(arguments))
            assert.same({ code = 2 }, process:wait())
            assert.equal(said, process:err())
        end
    end)
end)
