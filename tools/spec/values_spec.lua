-- Tests `holdfast get`, `set`, `incr`, `del`, `ttl` and `keys`.

local command, json, world = require "spec.support" ("command", "tools/json", "tools/world")

local output, run = world.output, command.run

-- Returns the exit status and the message.
local function refused(...)
    local ended, out, err = run(...)
    assert.equal("", out)
    return ended.code, (err:gsub("^holdfast: ", ""):gsub("\n$", ""))
end


describe("holdfast", function ()
    before_each(function ()
        command.set_up()
        world.keep [[
            local dict = assert(require("resty.shdict").open("values", { size = "64k", tables = true }))
            dict:set("table", { 1, 2 })
            dict:rpush("list", "element")
            assert(keep(require("resty.lock"):new("values", { exptime = 600 })):lock("held"))
            ready()
        ]]
    end)
    after_each(command.tear_down)

    it("stores values of each type and prints them", function ()
        assert.equal("", output("set", "values", "s", " a text "))
        assert.equal(" a text \n", output("get", "values", "s"))
        output("set", "values", "n", "1e3", "-t", "number")
        assert.equal("1000\n", output("get", "values", "n"))
        output("set", "values", "n", "-t", "number", "-0.1")
        assert.equal("-0.1\n", output("get", "values", "n"))
        output("set", "values", "b", "--type=boolean", "true")
        assert.equal("true\n", output("get", "values", "b"))
        assert.equal("true", output("get", "-n", "values", "b"))
        output("set", "values", "--", "-dash", "--flags")
        assert.equal("--flags\n", output("get", "values", "--", "-dash"))
        output("set", "values", "[1,2]", "[3,4]")
        assert.equal("[3,4]\n", output("get", "values", "[1,2]"))
        output("set", "values", "empty", "")
        assert.equal("\n", output("get", "values", "empty"))
    end)

    it("accepts and prints any bytes", function ()
        output("set", "-e", "values", "k\\x00\\\\", "\\x00\\xFF\\x0A")
        assert.equal("\0\255\n\n", output("get", "-e", "values", "k\\x00\\\\"))
        local all = "\0\1\2\10\13\127\128\255\\"
        command.write("bytes", all)
        output("-c", command.program .. " set values bytes --stdin <" .. command.path("bytes"), { PROGRAM = "/bin/sh" })
        assert.equal(all, output("get", "-n", "values", "bytes"))
        local object = json.decode(output("get", "--json", "values", "bytes"))
        assert.same({ "bytes", "string", 0, json.null }, { object.key, object.type, object.flags, object.ttl })
        assert.equal("0001020A0D7F80FF5C", object.value_hex)
    end)

    it("sends no control characters to a terminal", function ()
        output("set", "-e", "values", "k", "\\x1B[2Ja\\x09b\\x0A\\x07")
        assert.equal("\\x1B[2Ja\tb\n\\x07\n", (world.in_terminal(80, "get", "values", "k")))
        assert.equal("\27[2Ja\tb\n\7\n", (world.in_terminal(80, "get", "--raw", "values", "k")))
    end)

    it("obeys --add, --replace and --safe", function ()
        assert.same({ 1, 'there is no key "k"' }, { refused("set", "-r", "values", "k", "v") })
        output("set", "--add", "values", "k", "v", "--flags", "7", "--exptime", "1000")
        assert.same({ 1, 'key "k" already exists' }, { refused("set", "-a", "values", "k", "w") })
        output("set", "--replace", "values", "k", "x")
        output("set", "--safe", "values", "k", "y", "--flags", "9")
        local object = json.decode(output("get", "values", "k", "--json"))
        assert.same({ "y", 9 }, { object.value, object.flags })
    end)

    it("increments numbers", function ()
        assert.same({ 1, 'there is no key "n"' }, { refused("incr", "values", "n") })
        assert.equal("6\n", output("incr", "values", "n", "--init", "5", "--init-ttl", "1000"))
        assert.equal("4\n", output("incr", "values", "n", "-2"))
        assert.equal("4.5\n", output("incr", "values", "n", "0.5"))
        assert.same({ dictionary = "values", key = "n", value = 5 },
                    json.decode(output("incr", "values", "n", "0.5", "--json")))
        assert.equal("4.5\n", output("incr", "values", "n", "-0.5"))
        assert.is_true(tonumber((output("ttl", "values", "n"))) > 900)
        output("set", "values", "s", "text")
        assert.same({ 2, 'the value of "s" is not a number' }, { refused("incr", "values", "s") })
    end)

    it("prints and sets the time to live of a key", function ()
        output("set", "values", "k", "v")
        assert.equal("never\n", output("ttl", "values", "k"))
        output("ttl", "values", "k", "1000")
        local left = tonumber((output("ttl", "values", "k")))
        assert.is_true(left > 900 and left <= 1000)
        output("ttl", "values", "k", "0")
        assert.equal(json.null, json.decode(output("ttl", "--json", "values", "k")).ttl)
        assert.same({ 1, 'there is no key "none"' }, { refused("ttl", "values", "none") })
        assert.same({ 1, 'there is no key "none"' }, { refused("ttl", "values", "none", "5") })
    end)

    it("deletes keys, and names missing keys", function ()
        for _, key in ipairs { "a", "b", "c" } do
            output("set", "values", key, "v")
        end
        output("del", "values", "a", "b")
        assert.same({ 1, 'there is no key "a"' }, { refused("del", "values", "a", "c") })
        assert.same({ 1, 'there is no key "c"' }, { refused("get", "values", "c") })
        output("del", "-f", "values", "a")
    end)

    it("refuses to end held locks, except with --force", function ()
        for _, words in ipairs { { "set", "values", "held", "v" }, { "del", "values", "held" },
                                 { "ttl", "values", "held", "0.001" }, { "ttl", "values", "held", "0" } } do
            local code, said = refused(unpack(words))
            assert.equal(1, code)
            assert.matches('^"held" has been held by pid %d+ %(ready1.lua%) for [%d.]+ s; '
                           .. 'use %-%-force to override$', said)
        end
        assert.equal("true\n", output("get", "values", "held"))
        output("set", "-f", "values", "held", "v")
        assert.equal("v\n", output("get", "values", "held"))
    end)

    it("refuses to end a held rwlock, except with --force", function ()
        world.keep [[
            assert(require("resty.shdict").open("values"))
            assert(keep(require("resty.rwlock"):new("values", { exptime = 600 })):rdlock("readers"))
            ready()
        ]]
        local code, said = refused("ttl", "values", "readers", "0.001")
        assert.equal(1, code)
        assert.matches('^"readers" has been held by pid %d+ %(ready2.lua%) for [%d.]+ s; '
                           .. 'use %-%-force to override$', said)
        assert.is_true(tonumber((output("ttl", "values", "readers"))) > 500)
        output("ttl", "--force", "values", "readers", "0.001")
        assert(command.await(function () return #world.rows(output("locks", "--prefix", "readers")) == 0 end))
    end)

    it("refuses to end a lock that it cannot read, and reports why", function ()
        world.damage_lock("values", "held")
        for _, words in ipairs { { "set", "values", "held", "v" }, { "del", "values", "held" },
                                 { "ttl", "values", "held", "1" } } do
            local code, said = refused(unpack(words))
            assert.equal(1, code)
            assert.matches('^cannot tell whether "held" is held %(.+%); use %-%-force to override$', said)
        end
        output("del", "-f", "values", "held")
        assert.same({ 1, 'there is no key "held"' }, { refused("get", "values", "held") })
    end)

    it("prints the keys, escaped or unchanged", function ()
        output("set", "-e", "values", "new\\x0Aline", "v")
        local lines = {}
        for line in output("keys", "values"):gmatch "[^\n]+" do
            lines[#lines + 1] = line
        end
        table.sort(lines)
        assert.same({ "held", "list", "new\\x0Aline", "table" }, lines)
        assert.equal("new\nline\0", output("keys", "-0", "--prefix", "new", "values"))
        assert.equal("new\\x0Aline\n", output("keys", "-e", "--prefix", "new\\x0A", "values"))
        assert.equal("", output("keys", "--max", "0", "values"))
        assert.equal(1, #world.rows(output("keys", "--max", "1", "values")))
        assert.same({ { key = "new\nline" } }, json.decode(output("keys", "--json", "--prefix", "n", "values")))
    end)

    it("prints many keys, each once", function ()
        world.keep [[
            local dict = assert(require("resty.shdict").open("many", { size = "8m" }))
            for i = 1, 30000 do
                dict:set("key" .. i, i)
            end
            ready()
        ]]
        local seen, count = {}, 0
        for line in output("keys", "many"):gmatch "[^\n]+" do
            assert.is_nil(seen[line])
            seen[line], count = true, count + 1
        end
        assert.equal(30000, count)
    end)

    it("reports why it cannot print a value", function ()
        assert.same({ 1, 'there is no key "none"' }, { refused("get", "values", "none") })
        assert.same({ 2, 'cannot print "list": it is a list of 1 element; use lpop or rpop in Lua' },
                    { refused("get", "values", "list") })
        assert.same({ 2, 'cannot print "table": it is a Lua table; use --raw to print its bytes' },
                    { refused("get", "values", "table") })
        assert.is_true(#output("get", "--raw", "values", "table") > 1)
        assert.equal("table", json.decode(output("get", "--json", "values", "table")).type)
    end)

    it("creates a dictionary only with --create", function ()
        assert.equal("", output("set", "--create", "new", "k", "v"))
        assert.equal("v\n", output("get", "new", "k"))
        assert.equal("1\n", output("incr", "counts", "n", "--init", "0", "--create", "--size", "64k", "--persist"))
        assert.equal("3\n", output("incr", "--create", "--size", "64k", "counts", "n", "2"))
        local function of(name)
            local found = json.decode(output("stat", "--json", name))
            return { found.size, found.life }
        end
        assert.same({ 8388608, "kept" }, of "new")
        assert.same({ 65536, "persistent" }, of "counts")
        output("set", "--create", "values", "k", "v")
        assert.same({ 65536, "kept" }, of "values")  -- the dictionary already existed
        assert.same({ 1, 'key "k" already exists' }, { refused("set", "--create", "--add", "new", "k", "w") })
        assert.matches("^empty dictionary name: ", (select(2, refused("set", "--create", "", "k", "v"))))
    end)

    it("does not create a dictionary with --create if it would store nothing", function ()
        local before = output("ls")
        for _, case in ipairs {
            { 'there is no key "k"', "incr", "second", "k" },
            { 'there is no key "k"', "set", "second", "k", "v", "--replace" },
            { "takes values of at most ", "set", "second", "k", ("v"):rep(11000), "--size", "12k" },
            { "takes values of at most ", "set", "second", ("k"):rep(11000), "v", "--size", "12k" },
            { "takes values of at most ", "incr", "second", ("k"):rep(11000), "--init", "1", "--size", "12k" },
            { 'bad boolean "v"', "set", "second", "k", "v", "-t", "boolean" },
            { "cannot be combined", "set", "second", "k", "v", "-r", "-a" },
        } do
            local wanted = table.remove(case, 1)
            case[#case + 1] = "--create"
            local code, said = refused(unpack(case))
            assert.is_true(code ~= 0 and said:find(wanted, 1, true) ~= nil, said)
        end
        assert.equal(before, output("ls"))
        -- A value that fits must be stored, however little room is left.
        for size = 9000, 12000, 500 do
            local ended = run("set", "--create", "tight", ("k"):rep(1000), ("v"):rep(size), "--size", "24k")
            assert.equal(ended.code == 0, (run("stat", "tight")).code == 0, size)
            run("rm", "-f", "tight")
        end
        output("set", "--create", "large", "k", ("v"):rep(100000), "--size", "256k")
    end)

    it("reports that a dictionary has another size, and extends its lifetime, as shdict.open does", function ()
        local ended, out, err = run("set", "--create", "--size", "1m", "values", "k", "v")
        assert.same({ { code = 0 }, "" }, { ended, out })
        assert.equal('holdfast: dictionary "values" exists with size 65536 and mutex futex, but the caller requested '
                     .. 'size 1048576 and mutex futex; open it with the same options, or end all programs that use '
                     .. 'it\n', err)
        assert.equal("v\n", output("get", "values", "k"))
        ended, out, err = run("incr", "--create", "--size", "64k", "--init", "0", "values", "n")
        assert.same({ { code = 0 }, "1\n", "" }, { ended, out, err })
        assert.equal("kept", json.decode(output("stat", "--json", "values")).life)
        output("set", "--create", "--persist", "values", "k", "v")
        assert.equal("persistent", json.decode(output("stat", "--json", "values")).life)
    end)

    it("creates the runtime directory with --create, which then keeps its values", function ()
        local directory = command.world() .. "/new"
        local environment = { HOLDFAST_DIR = directory }
        assert.same({ code = 2 }, (run("set", "flags", "k", "v", environment)))
        output("set", "--create", "flags", "k", "v", environment)
        output("incr", "--create", "flags", "n", "--init", "0", environment)
        assert.equal("v\n", output("get", "flags", "k", environment))
        assert.equal("1\n", output("get", "flags", "n", environment))
    end)

    it("runs the example of the manual", function ()
        local manual = command.read(command.repository .. "/tools/docs/holdfast.md")
        local example = manual:match "\n## Values for scripts\n\n(.-)\n\n"
        local path = command.write("example.sh", 'PATH="$BIN:$PATH"\nset -e\n' .. example .. "\n")
        assert.equal("closed for maintenance\ndeployment 1\n",
                     output(path, { PROGRAM = "/bin/sh", BIN = command.program:gsub("/holdfast$", "") }))
    end)

    it("creates no dictionary without --create", function ()
        for _, words in ipairs { { "get", "none", "k" }, { "set", "none", "k", "v" }, { "incr", "none", "k" },
                                 { "del", "none", "k" }, { "ttl", "none", "k" }, { "keys", "none" } } do
            local code, said = refused(unpack(words))
            assert.equal(2, code)
            assert.truthy(said:find('there is no dictionary "none" in ', 1, true), said)
            assert.truthy(said:find(': it contains "values"', 1, true), said)
        end
        local code, said = refused("get", "none", "k", { HOLDFAST_DICTS = "none=64k" })
        assert.same({ 2, true }, { code, said:find('there is no dictionary "none"', 1, true) ~= nil })
    end)

    local long = ("k"):rep(65536)
    for _, case in ipairs {
        { { "get" }, "no NAME was given" },
        { { "get", "values" }, "no KEY was given" },
        { { "get", "values", "a", "b" }, 'unexpected "b"' },
        { { "get", "values", "" }, "bad key: expected 1 to 65535 bytes, got 0" },
        { { "get", "values", long }, "bad key: expected 1 to 65535 bytes, got 65536" },
        { { "get", "-e", "values", "a\\x0" }, 'bad escape in "a\\x0": expected \\xHH or \\\\' },
        { { "get", "--fast", "values", "a" },
          'unknown option "--fast": expected one of --help, --dir, --user, --json' },
        { { "get", "values", "a", "--color=blue" }, '--color: bad value "blue": expected always, never or auto' },
        { { "set", "values", "a", "b", "--size", "1m" }, "--size needs --create" },
        { { "incr", "values", "a", "--persist" }, "--persist needs --create" },
        { { "set", "new", "a", "b", "--create", "--size", "1x" }, '--size: bad size "1x": expected a number of bytes' },
        { { "incr", "new", "a", "--create", "--size", "1k" },
          '--size: bad size "1k": expected at least 12288 bytes (12k)' },
        { { "set", "values", "a" }, "expected either VALUE or --stdin" },
        { { "set", "values", "a", "b", "--stdin" }, "expected either VALUE or --stdin" },
        { { "set", "values", "a", "b", "--add", "--replace" }, "--replace cannot be combined with --add or --safe" },
        { { "set", "values", "a", "b", "-t", "list" }, '--type: bad type "list": expected string, number or boolean' },
        { { "set", "values", "a", "b", "-t", "number" },
          'bad number "b": expected a finite decimal number, as in 7, -2.5 or 1e6' },
        { { "set", "values", "a", "inf", "-t", "number" }, 'bad number "inf": expected a finite decimal number' },
        { { "set", "values", "a", "-foo" }, 'unknown option "-foo": expected one of --help' },
        { { "locks", "-wz" }, 'unknown option "-wz": expected one of --help' },
        { { "set", "values", "a", "yes", "-t", "boolean" }, 'bad boolean "yes": expected true or false' },
        { { "set", "values", "a", "b", "--exptime", "-1" },
          '--exptime: bad time "-1": expected seconds from 0 to 1e10' },
        { { "set", "values", "a", "b", "--flags", "-1" }, '--flags: bad flags "-1": expected 0 to 4294967295' },
        { { "incr", "values", "a", "x" }, 'bad number "x"' },
        { { "incr", "values", "a", "0x10" }, 'bad number "0x10": expected a finite decimal number' },
        { { "incr", "values", "a", "nan", "--init", "0" }, 'bad number "nan": expected a finite decimal number' },
        { { "incr", "values", "a", "-inf" }, 'bad number "-inf": expected a finite decimal number' },
        { { "incr", "values", "a", "1", "--init", "inf" }, '--init: bad number "inf": expected a finite' },
        { { "incr", "values", "a", "--init", "" }, '--init: bad number ""' },
        { { "ttl", "values", "a", "nan" }, 'bad time "nan": expected seconds' },
        -- An empty argument, which an unset shell variable may cause, differs from a missing argument.
        { { "ttl", "values", "a", "" }, 'bad time "": expected seconds' },
        { { "incr", "values", "a", "" }, 'bad number ""' },
        { { "get", "--dir", "", "values", "a" }, '--dir: bad directory "": expected a path' },
        { { "keys", "values", "--max", "x" }, '--max: bad number "x": expected 0 or more' },
        { { "del", "values" }, "no KEY was given" },
    } do
        local words, wanted = case[1], case[2]
        it("refuses: " .. table.concat(words, " "):sub(1, 60), function ()
            local code, said = refused(unpack(words))
            assert.equal(2, code)
            assert.truthy(said:find(wanted, 1, true), said)
            assert.truthy(said:find(('Try "holdfast %s --help".'):format(words[1]), 1, true), said)
        end)
    end
end)
