-- Tests open, shared, find and remove of resty.shdict.

local fixture, pack, process, shell = require "spec.support" ("fixture", "pack", "process", "shell")
local core = require "resty.holdfast.core"
local shdict = require "resty.shdict"


describe("shdict", function ()
    local dict = fixture.dictionary("spec_dict")

    describe("open", function ()
        it("returns the dictionary that is already open", function ()
            assert.equal(dict, shdict.open("spec_dict", { size = "1m" }))
            assert.equal(dict, shdict.open("spec_dict", { size = 1048576 }))
            assert.equal(dict, shdict.open("spec_dict"))
            assert.equal("spec_dict", dict.name)
        end)

        it("creates a dictionary of 8m by default, which later callers without a size accept", function ()
            local made = shdict.open("spec_default")
            assert.equal(8 * 1048576, made:capacity())
            assert.equal(made, shdict.open("spec_default", { size = "1m" }))
            assert.equal(made, shdict.open("spec_default"))
            assert.matches("exists with size 8388608 and mutex futex, but the caller requested size 9437184",
                           select(2, shdict.open("spec_default", { size = "9m" })), 1, true)
            shdict.remove("spec_default")
        end)

        it("accepts each mutex, and mode and persist", function ()
            for _, mutex in ipairs { "futex", "spin", "file" } do
                local made = assert(shdict.open("spec_" .. mutex, { size = "64k", mutex = mutex }))
                assert.is_true((made:set("key", mutex)))
                assert.equal(mutex, made:get("key"))
                assert.is_true(shdict.remove("spec_" .. mutex))
            end
            for _, mode in ipairs { "600", "0600", "0666", 384, 438 } do
                assert(shdict.open("spec_mode", { size = "64k", mode = mode }))
                shdict.remove("spec_mode")
            end
            assert(shdict.open("spec_mode", { size = "64k", mode = "0640", persist = true }))
            assert.equal("640", shell.output("stat -c %a " .. os.getenv("HOLDFAST_DIR") .. "/spec_mode.dict"))
            shdict.remove("spec_mode")
        end)

        it("accepts values of half the dictionary's size on request", function ()
            local size, half = 20 * 1048576, 10 * 1048576
            local usual = assert(shdict.open("spec_large", { size = size }))
            assert.is_true(usual:largest_value() < 2 * 1048576)
            assert.is_false((usual:set("key", ("x"):rep(half))))
            local made, err = shdict.open("spec_large", { size = size, largest = half })
            assert.is_nil(made)
            assert.matches('^dictionary "spec_large" exists and takes values of at most %d+ bytes, but the caller '
                           .. "requested 10485760; open it with the same options", err)
            assert.is_true(shdict.remove("spec_large"))
            made = assert(shdict.open("spec_large", { size = size, largest = "10m" }))
            assert.is_true(made:largest_value() >= half)
            for i = 1, 4 do
                assert.is_true((made:set("key " .. i, ("x"):rep(half))))
                assert.equal(half, #made:get("key " .. i))
            end
            assert.equal(made, shdict.open("spec_large", { size = size }))
            shdict.remove("spec_large")
            assert.equal(0, made:largest_value())
        end)

        it("refuses a largest value that does not fit, and names the dictionary size that it needs", function ()
            local made, err = shdict.open("spec_large", { size = "1m", largest = "1m" })
            assert.is_nil(made)
            made = assert(shdict.open("spec_large", { size = err:match("a size of (%d+) is enough$"), largest = "1m" }))
            assert.is_true((made:set("key", ("x"):rep(1048576))))
            shdict.remove("spec_large")
            assert.matches("no dictionary takes more than 4294967295$",
                           (select(2, shdict.open("spec_large", { size = "20g", largest = "4g" }))))
        end)

        -- Runs the source in a new process, which is the only process that uses the dictionary.
        local function in_world(world, source)
            local text = "local shdict = require 'resty.shdict'; " .. source
            return (process.run(text, { env = { HOLDFAST_DIR = world } }))
        end

        it("keeps a dictionary after its processes by default", function ()
            local world = os.getenv("HOLDFAST_DIR") .. "/life"
            local COUNT = "print((assert(shdict.open('runs', { size = %s, persist = %s })):incr('runs', 1, 0)))"
            local function count(size, persist) return in_world(world, COUNT:format(size, persist)) end
            assert.equal("1\n", count("'64k'", "false"))
            assert.equal("1\n", count("'64k'", "nil"))
            assert.equal("2\n", count("'64k'", "false")) -- the longest lifetime that any program has requested counts
            assert.equal("3\n", count("nil", "nil"))
            assert.equal("1\n", count("'128k'", "true")) -- the unused dictionary was replaced
            assert.equal("2\n", count("nil", "nil"))
            assert.matches("exists with size 131072 and mutex futex, but the caller requested size 65536",
                           in_world(world, "print(shdict.open('runs', { size = '64k' }))"))
            os.execute("rm -rf '" .. world .. "'")
        end)

        it("replaces an unused kept dictionary of a different size with the declared dictionary", function ()
            local world = os.getenv("HOLDFAST_DIR") .. "/declared"
            local function capacity(text, size)
                local env = { HOLDFAST_DIR = world, HOLDFAST_DICTS = size and "runs=" .. size }
                return (process.run("local shdict = require 'resty.shdict' " .. text, { env = env }))
            end
            local OPEN, SHARED = "print(shdict.open('runs'):capacity())", "print(shdict.shared.runs:capacity())"
            capacity "shdict.open('runs', { size = '64k' })"
            assert.equal("65536\n", capacity(OPEN))
            assert.equal("131072\n", capacity(SHARED, "128k"))
            capacity "shdict.open('runs', { size = '64k' })"
            assert.equal("131072\n", capacity(OPEN, "128k"))
            local user = process.start([[
                print(require("resty.shdict").open("runs", { size = "64k" }):capacity())
                io.stdout:flush()
                io.read()
            ]], { env = { HOLDFAST_DIR = world } })
            assert.equal("65536", user:hear())
            assert.equal("65536\n", capacity(OPEN, "128k"))
            assert.equal("65536\n", capacity(SHARED, "128k"))
            user:say "end"
            os.execute("rm -rf '" .. world .. "'")
        end)

        it("checks the largest value against the existing or declared size", function ()
            local world = os.getenv("HOLDFAST_DIR") .. "/largest"
            local declared = { HOLDFAST_DIR = world, HOLDFAST_DICTS = "declared=64m" }
            local OPEN = "local shdict = require 'resty.shdict'; print(shdict.open(%s))"
            assert.matches("^table", in_world(world, "print(shdict.open('big', { size = '64m', largest = '20m' }))"))
            assert.matches("^table", in_world(world, "print(shdict.open('big', { largest = '10m' }))"))
            assert.matches("^table", (process.run(OPEN:format("'declared', { largest = '5m' }"), { env = declared })))
            assert.matches("^table", (process.run(OPEN:format("'declared', { mutex = 'spin' }"), { env = declared })))
            os.execute("rm -rf '" .. world .. "'")
        end)

        it("accepts values as large as HOLDFAST_DICTS declares", function ()
            local world = os.getenv("HOLDFAST_DIR") .. "/largest"
            local function largest(declared, source)
                local text = "local shdict = require 'resty.shdict'; print(" .. source .. ")"
                return (process.run(text, { env = { HOLDFAST_DIR = world, HOLDFAST_DICTS = declared }, stderr = true }))
            end
            for _, source in ipairs { "shdict.shared.pages:largest_value()",
                                      "shdict.open('pages', { persist = false }):largest_value()",
                                      "shdict.open('pages', { size = '80m', persist = false }):largest_value()" } do
                local most = tonumber(largest("pages=80m:largest=40m", source))
                assert.is_true(most and most >= 40 * 1048576, source)
                assert.is_true(tonumber(largest("pages=80m", source)) < 2 * 1048576)
            end
            local left = "shdict.open('pages', { size = '80m' }):largest_value()"
            assert.is_true(tonumber(largest("", left)) < 2 * 1048576)
            assert.is_true(tonumber(largest("pages=80m:largest=40m", "shdict.shared.pages:largest_value()"))
                           >= 40 * 1048576, "of a dictionary that was left behind")
            local other = "shdict.open('pages', { size = '16m', persist = false }):largest_value()"
            assert.is_true(tonumber(largest("pages=80m:largest=40m", other)) < 2 * 1048576, "of another size")
            for _, source in ipairs { "shdict.shared.pages", "shdict.open('pages')" } do
                assert.matches('bad largest value 83886080 for dictionary "pages": .* a size of %d+ is enough',
                               largest("pages=80m:largest=80m", source))
                assert.matches('bad largest value "0": expected a number of bytes above 0',
                               largest("pages=80m:largest=0", source))
                assert.matches('bad dictionary option "large=1m": expected largest=BYTES',
                               largest("pages=80m:large=1m", source))
            end
            os.execute("rm -rf '" .. world .. "'")
        end)

        it("replaces a dictionary of the default size once nobody uses it", function ()
            local world = os.getenv("HOLDFAST_DIR") .. "/any"
            -- This process keeps the runtime directory in use.
            assert.equal("8388608\n", in_world(world, [[
                assert(shdict.open("other", { size = "64k" }))
                local command = "LUA_PATH='" .. package.path
                                .. "' luajit -e \"local shdict = require 'resty.shdict'; %s\""
                os.execute(command:format("print(assert(shdict.open('any', { persist = false })):capacity())"))
                assert(os.execute(command:format("assert(shdict.open('any', { size = '16m' }))")) == 0)
            ]]))
            os.execute("rm -rf '" .. world .. "'")
        end)

        it("removes declared dictionaries when the last process of the runtime directory ends", function ()
            local world = os.getenv("HOLDFAST_DIR") .. "/life"
            for _ = 1, 2 do
                assert.equal("1\n", (process.run('print((require("resty.shdict").shared.declared:incr("runs", 1, 0)))',
                                                 { env = { HOLDFAST_DIR = world, HOLDFAST_DICTS = "declared=64k" } })))
            end
            os.execute("rm -rf '" .. world .. "'")
        end)

        it("refuses bad names with a message", function ()
            for name, message in pairs {
                [""] = "empty dictionary name: expected 1 to 250 bytes, none of them zero; bytes other than A-Z a-z "
                       .. '0-9 . _ - count three times, as does a leading "."',
                [("n"):rep(251)] = "dictionary name of 251 bytes, \"nnn",
                [(":"):rep(84)] = "dictionary name of 84 bytes, which count as 252, \":::",
                ["a\0b"] = 'bad dictionary name "a\\x00b", with a zero byte: expected',
            } do
                local made, err = shdict.open(name, { size = "64k" })
                assert.is_nil(made)
                assert.matches(message, err, 1, true)
            end
        end)

        it("escapes control characters of a name in messages", function ()
            local _, err = shdict.open("\27[2J\194\155", { size = 1 })
            assert.matches('for dictionary "\\x1B[2J\\xC2\\x9B": expected', err, 1, true)
        end)

        it("refuses bad sizes, and quotes them", function ()
            local bad = { "0", "-1", "1x", "", "k", "1.5m", " 1m", "9999999999999g", 0, -1, 1.5, 0 / 0, 1e300 }
            for _, size in ipairs(bad) do
                local made, err = shdict.open("spec_size", { size = size })
                assert.is_nil(made, tostring(size))
                assert.is_string(err)
                assert.matches("size", err, 1, true)
            end
            local _, err = shdict.open("spec_size", { size = "1x" })
            assert.matches("1x", err, 1, true)
        end)

        it("names the minimum if a size is below it", function ()
            for _, size in ipairs { 1, 12287, "11k" } do
                local made, err = shdict.open("spec_size", { size = size })
                assert.is_nil(made)
                assert.matches(tostring(core.SIZE_MIN), err, 1, true)
            end
        end)

        it("reports the free space when /dev/shm is too small", function ()
            local made, err = shdict.open("spec_size", { size = "1000g" })
            assert.is_nil(made)
            assert.matches("free", err, 1, true)
            assert.is_nil(shdict.shared.spec_size)
        end)

        it("refuses a size or mutex that differs from the existing dictionary's, and names both", function ()
            local made, err = shdict.open("spec_dict", { size = "2m" })
            assert.is_nil(made)
            assert.matches("1048576", err, 1, true)
            assert.matches("2097152", err, 1, true)
            made, err = shdict.open("spec_dict", { size = "1m", mutex = "spin" })
            assert.is_nil(made)
            assert.matches("futex", err, 1, true)
            assert.matches("spin", err, 1, true)
        end)

        it("refuses invalid mutexes and modes", function ()
            local made, err = shdict.open("spec_bad", { size = "64k", mutex = "mutex" })
            assert.is_nil(made)
            assert.equal('bad mutex "mutex": expected "futex", "spin" or "file"', err)
            local modes = { "", "0000", "000", "0400", "0601", "0610", "0700", "0777", "0800", "600x", "7777", 0, 384.5,
                            439, 511, 512, 600, -1, 0.5, 0 / 0 }
            for _, mode in ipairs(modes) do
                made, err = shdict.open("spec_bad", { size = "64k", mode = mode })
                assert.is_nil(made)
                assert.equal("bad mode " .. core.describe(mode) .. ': expected an octal string from "0600" to ' ..
                             '"0666" (4 = read, 2 = write; the owner has 6), or its number', err)
            end
        end)

        it("refuses an invalid largest value, and names it", function ()
            for _, largest in ipairs { "0", "", "1x", "-1", 0, -1, 0.5 } do
                local made, err = shdict.open("spec_bad", { size = "64k", largest = largest })
                assert.is_nil(made)
                assert.equal(('bad largest value "%s": expected a number of bytes above 0, with an optional k, m or g')
                             :format(largest), err)
            end
            assert.equal('bad largest value "2000g": expected at most 1024g',
                         (select(2, shdict.open("spec_bad", { largest = "2000g" }))))
        end)

        it("raises an error for wrong types, and reports the caller's line", function ()
            local function message(...)
                local name, opts = ...
                local ok, err = pcall(function ()
                    local made = shdict.open(name, opts)
                    return made
                end)
                assert.is_false(ok)
                return (err:gsub("^[^:]*shdict_%w+_spec.lua:%d+: ", ">"))
            end
            assert.equal(">bad name to open: expected a string, got nil", message())
            assert.equal(">bad name to open: expected a string, got table", message({}))
            assert.equal(">bad options to open: expected a table, got string", message("spec_bad", "1m"))
            assert.equal('>unknown option "sise" to open: expected cluster, largest, mode, mutex, persist, '
                         .. "size, tables or versions",
                         message("spec_bad", { sise = "1m" }))
            assert.matches('^>bad option "size" to open: expected .*, got table$', message("spec_bad", { size = {} }))
            assert.matches('^>bad option "largest" to open: expected .*, got boolean$',
                           message("spec_bad", { largest = true }))
            assert.matches('^>bad option "mutex" to open: expected .*, got number$', message("spec_bad", { mutex = 1 }))
            assert.matches('^>bad option "persist" to open: expected a boolean, got number$',
                           message("spec_bad", { persist = 1 }))
            assert.matches('^>bad option "mode" to open: expected .*, got boolean$',
                           message("spec_bad", { mode = true }))
        end)
    end)

    it("refuses an unacceptable runtime directory, and reports why", function ()
        local folder = shell.output("mktemp -d /dev/shm/holdfast-spec.XXXXXX")
        shell.output("chmod 770 " .. folder)
        local said = process.run("print(require('resty.shdict').open('spec_dict', { size = '64k' }))",
                                 { env = { HOLDFAST_DIR = folder } })
        os.execute("rm -rf -- '" .. folder .. "'")
        assert.matches("^nil\t.*" .. folder:gsub("%p", "%%%0") .. ".*770", said)
    end)

    describe("shared", function ()
        it("has the existing dictionaries, and nil for other names", function ()
            assert.equal(dict, shdict.shared.spec_dict)
            assert.is_nil(shdict.shared.spec_nothing)
            assert.is_nil(shdict.shared[1])
        end)

        it("raises an error where nil would hide a mistake", function ()
            assert.error_matches(function () return shdict.shared["a\0b"] end, "name")
        end)

        it("has the dictionaries that another process created", function ()
            local child = process.start [[
                local dict = assert(require("resty.shdict").open("spec_other", { size = "64k" }))
                dict:set("greeting", "hello")
                say "ready"
                hear()
            ]]
            assert.equal("ready", child:hear())
            assert.equal("hello", shdict.shared.spec_other:get("greeting"))
            shdict.remove("spec_other")
        end)

        it("creates the dictionaries of HOLDFAST_DICTS, and reports invalid declarations", function ()
            local source = [[
                local shared = require("resty.shdict").shared
                say(shared.spec_declared:capacity(), shared.spec_undeclared)
            ]]
            local env = { HOLDFAST_DICTS = "spec_first=64k,spec_declared=128k" }
            assert.equal("131072\tnil\n", (process.run(source, { env = env })))
            env.HOLDFAST_DICTS = "spec_first"
            assert.matches("spec_first", (process.run(source, { env = env, stderr = true })), 1, true)
            local open = [[say(require("resty.shdict").open("spec_first"))]]
            assert.matches("^nil\t.*spec_first", (process.run(open, { env = env })))
        end)
    end)

    describe("remove", function ()
        it("removes the dictionary from the runtime directory", function ()
            shdict.open("spec_removed", { size = "64k" }):set("key", 1)
            assert.is_true(shdict.remove("spec_removed"))
            assert.is_nil(shdict.shared.spec_removed)
            assert.same({ nil, "not found" }, { shdict.remove("spec_removed") })
        end)

        it("makes each method of an open dictionary report that the dictionary is not found", function ()
            local removed = assert(shdict.open("spec_removed", { size = "64k" }))
            removed:set("key", 1)
            assert.is_true(shdict.remove("spec_removed"))
            for method, arguments in pairs {
                set = { 1 }, safe_set = { 1 }, add = { 1 }, safe_add = { 1 }, replace = { 1 }, delete = {},
                cas = { 1, 2 },
            } do
                assert.same(pack(false, "dictionary not found", false),
                            pack(removed[method](removed, "key", unpack(arguments))), method)
            end
            for method, arguments in pairs {
                get = {}, get_stale = {}, incr = { 1, 0 }, ttl = {}, expire = { 1 }, lpush = { 1 }, rpush = { 1 },
                lpop = {}, rpop = {}, llen = {},
            } do
                assert.same(pack(nil, "dictionary not found"),
                            pack(removed[method](removed, "key", unpack(arguments))), method)
            end
            for _, method in ipairs { "flush_expired", "stats" } do
                assert.same(pack(nil, "dictionary not found"), pack(removed[method](removed)), method)
            end
            assert.same(pack(nil, "dictionary not found"), pack(removed:scan(0)))
            assert.same(pack(nil, "dictionary not found"), pack(removed:flush_all()))
            assert.same(pack(nil, "dictionary not found"), pack(removed:get_keys()))
            assert.equal(0, removed:capacity())
        end)

        it("makes room for a dictionary of a different size", function ()
            shdict.open("spec_removed", { size = "64k" }):set("key", 1)
            shdict.remove("spec_removed")
            local made = assert(shdict.open("spec_removed", { size = "128k" }))
            assert.equal(131072, made:capacity())
            assert.is_nil(made:get("key"))
            shdict.remove("spec_removed")
        end)

        it("refuses invalid names", function ()
            assert.error_matches(function () shdict.remove(nil) end, "bad name to remove: expected a string, got nil")
            local ok, err = shdict.remove(("n"):rep(251))
            assert.is_nil(ok)
            assert.matches("name", err, 1, true)
        end)
    end)
end)
