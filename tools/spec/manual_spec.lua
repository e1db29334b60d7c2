-- Tests the manual of the holdfast command, tools/docs/holdfast.md, and that the man page, --help and completion agree
-- with it.

local command, files, offered, shell, world =
    require "spec.support" ("command", "files", "tools/completion", "shell", "tools/world")

local output = world.output

local MANUAL = "tools/docs/holdfast.md"

-- The commands whose options are described in their own sections.
local ELSEWHERE = { lock = true, run = true }


local function commands()
    local names = {}
    for name in output("--help"):match("\nCommands:\n(.*)"):gmatch "\n?  (%l+) [^\n]+" do
        names[#names + 1] = name
    end
    return names
end

-- Returns the long options in the --help of a command.
local function options(...)
    local names = {}
    local words = { ... }
    words[#words + 1] = "--help"
    for option in output(unpack(words)):gmatch "%-%-[%l-]+" do
        names[option] = true
    end
    return names
end

-- Returns the names of a command's subcommands.
local function subcommands(name)
    local names = {}
    local list = output(name, "--help"):match "\nSubcommands:\n(.-)\n\n"
    for subcommand in (list or ""):gmatch "  ([%l-]+) +%u" do
        names[#names + 1] = subcommand
    end
    return names
end


describe("The manual of the command", function ()
    command.fixture()

    it("names every command, and every option of commands that read or change a runtime directory", function ()
        local manual = files.read(MANUAL)
        assert.is_true(#commands() >= 17)
        for _, name in ipairs(commands()) do
            local named = manual:find("holdfast " .. name, 1, true) or manual:find("`" .. name .. " NAME", 1, true)
            assert.truthy(named, name)
            local all = { ELSEWHERE[name] and {} or options(name) }
            for _, subcommand in ipairs(subcommands(name)) do
                assert.truthy(manual:find(("holdfast %s %s"):format(name, subcommand), 1, true), subcommand)
                all[#all + 1] = options(name, subcommand)
            end
            for _, found in ipairs(all) do
                for option in pairs(found) do
                    assert.truthy(option == "--help" or manual:find("%f[-]" .. option:gsub("%-", "%%-") .. "%f[^%l-]"),
                                  name .. " " .. option)
                end
            end
        end
    end)

    it("is converted to a man page without faults", function ()
        local page = os.tmpname()
        finally(function () os.remove(page) end)
        assert.equal("", shell.output("scripts/man-page 2>&1 " .. page))
        local text = files.read(page)
        for heading in files.read(MANUAL):gmatch "\n## ([^\n]+)" do
            assert.truthy(text:find("\n.SH " .. heading:upper():gsub("%-", "\\-"), 1, true), heading)
        end
        if not shell.succeeds "command -v groff" then
            return pending "no groff"
        end
        assert.equal("", shell.output("groff -t -man -ww -z -Kutf8 -Tutf8 " .. page .. " 2>&1"))
    end)
end)


describe("Completion in bash", function ()
    command.fixture()

    it("offers every command", function ()
        local found = offered ""
        for _, name in ipairs(commands()) do
            assert.is_true(found[name], name)
        end
        assert.is_true(found["--version"])
        assert.same({ lock = true, locks = true }, offered "loc")
    end)

    it("offers the options of --help", function ()
        for _, name in ipairs(commands()) do
            if name ~= "agent" then
                local found = offered(name, "--")
                for option in pairs(options(name)) do
                    assert.is_true(found[option], name .. " " .. option)
                end
            end
        end
        assert.same({ ["--waiting"] = true }, offered("locks", "--wa"))
        assert.same({ auto = true, always = true }, offered("ls", "--color", "=", "a"))
        assert.same({ auto = true, always = true, never = true }, offered("ls", "--color", "="))
        assert.same({ always = true }, offered("ls", "--header", "--color", "=", "al"))
    end)

    it("offers the columns of top", function ()
        local columns = {}
        local _, _, why = command.run("top", "--sort", "")
        for name in why:match "expected one of ([^\n]+)":gmatch "%w+" do
            columns[name] = true
        end
        assert.is_true(columns.waiters and columns.p99)
        assert.same(columns, offered("top", "--sort", ""))
        assert.same({ wait = true, waiters = true, waits = true }, offered("top", "-s", "wait"))
    end)

    it("offers the dictionaries and keys of the runtime directory on the command line", function ()
        world.keep [[
            local shdict = require "resty.shdict"
            local dict = assert(shdict.open("my_locks", { size = "64k" }))
            assert(shdict.open("other one", { size = "64k" }))
            assert(keep(require("resty.lock"):new("my_locks", { exptime = 3000 })):lock("a key"))
            dict:set("value", 1)
            dict:set("values$", 1)
            ready()
        ]]
        for _, name in ipairs { "ls", "stat", "locks", "get", "set", "del", "incr", "ttl", "keys", "release", "rm",
                                "prune", "lock" } do
            assert.same({ my_locks = true, ["other\\ one"] = true }, offered(name, ""), name)
        end
        assert.same({ my_locks = true }, offered("ls", "m"))
        assert.same({ my_locks = true }, offered("ls", "--dir", command.world(), "m"))
        assert.same({}, offered("ls", "--dir", "/nowhere", "m"))
        assert.same({ value = true, ["values\\$"] = true }, offered("get", "my_locks", "v"))
        assert.same({ ["a\\ key"] = true }, offered("release", "--token", "1", "my_locks", ""))
        assert.same({}, offered("stat", "my_locks", ""))
    end)
end)
