local core = require "resty.holdfast.core"
local process = require "spec.support.process"
local shdict = require "resty.shdict"


-- Lua 5.1 has no table.pack; nils count.
local function pack(...)
    return { n = select("#", ...), ... }
end


local function sleep(seconds)
    require("resty.holdfast.host.none").sleep(seconds)
end


describe("shdict", function ()
    local dict

    before_each(function ()
        dict = assert(shdict.open("spec_dict", { size = "1m" }))
        dict:flush_all()
    end)

    after_each(process.clean_up)


    describe("set and get", function ()
        it("give back what was stored, of the same type", function ()
            for _, value in ipairs { true, false, 0, 10, -1.5, 1e300, "", "text", "a\0b\255", ("x"):rep(50000) } do
                assert.same(pack(true, nil, false), pack(dict:set("key", value)))
                assert.same(pack(value), pack(dict:get("key")))
            end
        end)

        it("keep not-a-number and the infinities", function ()
            dict:set("nan", 0 / 0)
            local nan = dict:get("nan")
            assert.is_true(nan ~= nan)
            dict:set("huge", -math.huge)
            assert.equal(-math.huge, dict:get("huge"))
        end)

        it("answer nil for what is not there", function ()
            assert.same(pack(nil), pack(dict:get("nothing")))
        end)

        it("delete with nil", function ()
            dict:set("key", 1)
            assert.same(pack(true, nil, false), pack(dict:set("key", nil)))
            assert.is_nil(dict:get("key"))
        end)

        it("keep user flags and leave them out when they are 0", function ()
            dict:set("key", "value", 0, 4294967295)
            assert.same(pack("value", 4294967295), pack(dict:get("key")))
            dict:set("key", "value", 0, 0)
            assert.same(pack("value"), pack(dict:get("key")))
        end)

        it("take any bytes as a key, and numbers and booleans as tostring has them", function ()
            dict:set("a\0b", 1)
            dict:set("a\0c", 2)
            assert.equal(1, dict:get("a\0b"))
            dict:set(12, "number")
            assert.equal("number", dict:get("12"))
            dict:set(true, "boolean")
            assert.equal("boolean", dict:get("true"))
            dict:set(("k"):rep(65535), "long")
            assert.equal("long", dict:get(("k"):rep(65535)))
        end)

        it("forget after exptime, and not before", function ()
            dict:set("key", 1, 0.05)
            assert.equal(1, dict:get("key"))
            sleep(0.06)
            assert.is_nil(dict:get("key"))
        end)

        it("read strings that are longer than any before", function ()
            for power = 0, 17 do
                local value = ("v"):rep(2 ^ power)
                assert.is_true(dict:set("key", value))
                assert.equal(value, dict:get("key"))
            end
        end)
    end)


    describe("add and replace", function ()
        it("add only where there is no value", function ()
            assert.same(pack(true, nil, false), pack(dict:add("key", 1)))
            assert.same(pack(false, "exists", false), pack(dict:add("key", 2)))
            assert.equal(1, dict:get("key"))
        end)

        it("add where the value has expired", function ()
            dict:set("key", 1, 0.01)
            sleep(0.02)
            assert.is_true((dict:add("key", 2)))
            assert.equal(2, dict:get("key"))
        end)

        it("replace only where there is one", function ()
            assert.same(pack(false, "not found", false), pack(dict:replace("key", 1)))
            dict:set("key", 1)
            assert.same(pack(true, nil, false), pack(dict:replace("key", 2)))
            assert.equal(2, dict:get("key"))
        end)

        it("refuse nil", function ()
            assert.same(pack(false, "attempt to add or replace nil values", false), pack(dict:add("key", nil)))
            assert.same(pack(false, "attempt to add or replace nil values", false), pack(dict:replace("key", nil)))
        end)
    end)


    it("delete answers true whether there was a value or not", function ()
        dict:set("key", 1)
        assert.is_true((dict:delete("key")))
        assert.is_true((dict:delete("key")))
        assert.is_nil(dict:get("key"))
    end)


    describe("incr", function ()
        it("adds to a number, also a negative or fractional one", function ()
            dict:set("key", 32)
            assert.same(pack(42), pack(dict:incr("key", 10)))
            assert.same(pack(41.5), pack(dict:incr("key", -0.5)))
        end)

        it("takes a number in a string, as the original does", function ()
            dict:set("key", 1)
            assert.equal(3, (dict:incr("key", "2")))
        end)

        it("starts from init where there is no value", function ()
            assert.same(pack(nil, "not found"), pack(dict:incr("key", 1)))
            assert.same(pack(20, nil, false), pack(dict:incr("key", 10, 10)))
            assert.same(pack(30, nil, false), pack(dict:incr("key", 10, 10)))
        end)

        it("gives the new value init_ttl, and an existing one none", function ()
            dict:incr("new", 1, 0, 0.01)
            dict:set("old", 1)
            dict:incr("old", 1, 0, 0.01)
            sleep(0.02)
            assert.is_nil(dict:get("new"))
            assert.equal(2, dict:get("old"))
        end)

        it("refuses values that are no numbers", function ()
            dict:set("key", "1")
            assert.same(pack(nil, "not a number"), pack(dict:incr("key", 1)))
        end)

        it("keeps the flags and the time to live", function ()
            dict:set("key", 1, 100, 7)
            dict:incr("key", 1)
            assert.same(pack(2, 7), pack(dict:get("key")))
            assert.is_true(dict:ttl("key") > 90)
        end)
    end)


    describe("ttl and expire", function ()
        it("say and change how long a value lives", function ()
            dict:set("key", 1)
            assert.equal(0, dict:ttl("key"))
            assert.is_true(dict:expire("key", 100))
            local left = dict:ttl("key")
            assert.is_true(left > 90 and left <= 100.005, left)
            assert.is_true(dict:expire("key", 0))
            assert.equal(0, dict:ttl("key"))
        end)

        it("know nothing of what is not there or has expired", function ()
            assert.same(pack(nil, "not found"), pack(dict:ttl("key")))
            assert.same(pack(nil, "not found"), pack(dict:expire("key", 1)))
            dict:set("key", 1, 0.01)
            sleep(0.02)
            assert.same(pack(nil, "not found"), pack(dict:ttl("key")))
            assert.same(pack(nil, "not found"), pack(dict:expire("key", 1)))
        end)
    end)


    it("flush_all leaves nothing", function ()
        for i = 1, 100 do
            dict:set(i, i)
        end
        dict:flush_all()
        assert.same({}, dict:get_keys(0))
        assert.is_nil(dict:get(1))
        assert.is_true((dict:set(1, 2)))
        assert.equal(2, dict:get(1))
    end)


    describe("get_keys", function ()
        before_each(function ()
            for i = 1, 1500 do
                dict:set("key" .. i, i)
            end
        end)

        it("gives 1024 keys, or as many as asked for, or all for 0", function ()
            assert.equal(1024, #dict:get_keys())
            assert.equal(7, #dict:get_keys(7))
            assert.equal(1500, #dict:get_keys(0))
            assert.equal(1500, #dict:get_keys(5000))
        end)

        it("gives each key once, whatever bytes it has", function ()
            dict:set("odd\0\1\255", 1)
            dict:set(("l"):rep(3001), 1)
            local seen = {}
            for _, key in ipairs(dict:get_keys(0)) do
                assert.is_nil(seen[key])
                seen[key] = true
            end
            for i = 1, 1500 do
                assert.is_true(seen["key" .. i])
            end
            assert.is_true(seen["odd\0\1\255"])
            assert.is_true(seen[("l"):rep(3001)])
        end)

        it("leaves out what has expired", function ()
            dict:flush_all()
            dict:set("stays", 1)
            dict:set("goes", 1, 0.01)
            sleep(0.02)
            assert.same({ "stays" }, dict:get_keys())
        end)
    end)


    it("capacity is the size, and free_space shrinks and grows", function ()
        assert.equal(1048576, dict:capacity())
        local before = dict:free_space()
        dict:set("key", ("x"):rep(100000))
        assert.is_true(dict:free_space() <= before - 100000)
        dict:delete("key")
        assert.is_true(dict:free_space() > before - 100000)
    end)


    it("a value that can never fit is refused and loses nothing", function ()
        dict:set("other", 1)
        dict:set("key", 2)
        local ok, err, forcible = dict:set("key", ("x"):rep(2 * 1048576))
        assert.same(pack(false, "no memory", false), pack(ok, err, forcible))
        assert.equal(1, dict:get("other"))
        assert.equal(2, dict:get("key"))
    end)


    describe("bad input", function ()
        local METHODS = { "get", "set", "add", "replace", "delete", "incr", "ttl", "expire" }

        it("is refused as a key by every method", function ()
            for _, method in ipairs(METHODS) do
                assert.same({ nil, "nil key" }, { dict[method](dict, nil, 1) }, method)
                assert.same({ nil, "empty key" }, { dict[method](dict, "", 1) }, method)
                assert.same({ nil, "key too long" }, { dict[method](dict, ("x"):rep(65536), 1) }, method)
                assert.same({ nil, "bad key type" }, { dict[method](dict, {}, 1) }, method)
                assert.same({ nil, "bad key type" }, { dict[method](dict, print, 1) }, method)
            end
        end)

        it("is refused as a value and changes nothing", function ()
            dict:set("key", 1)
            for _, value in ipairs { {}, print, coroutine.create(print), 5LL } do
                for _, method in ipairs { "set", "add", "replace" } do
                    assert.same({ nil, "bad value type" }, { dict[method](dict, "key", value) })
                end
            end
            assert.equal(1, dict:get("key"))
        end)

        it("is refused as exptime, at the line that called", function ()
            for _, exptime in ipairs { -1, 0 / 0, math.huge, "1", {}, -0.001 } do
                for _, method in ipairs { "set", "add", "replace", "expire" } do
                    local ok, err = pcall(function ()
                        local result = dict[method](dict, "key", method == "expire" and exptime or 1, exptime)
                        return result
                    end)
                    assert.is_false(ok)
                    assert.matches('^[^:]*shdict_spec.lua:%d+: bad "exptime" argument: a number of seconds, ' ..
                                   "0 or more, expected, got ", err)
                    assert.matches(core.describe(exptime), err, 1, true)
                end
            end
        end)

        it("is refused as flags", function ()
            for _, flags in ipairs { -1, 1.5, 0 / 0, 4294967296, "1" } do
                assert.has_error(function () dict:set("key", 1, 0, flags) end,
                                 'bad "flags" argument: a whole number, 0 to 4294967295, expected, got ' ..
                                 core.describe(flags))
            end
        end)

        it("is refused as numbers of incr with the words of the original", function ()
            local function message(...)
                local ok, err = pcall(dict.incr, dict, "key", ...)
                assert.is_false(ok)
                return err
            end
            assert.equal("bad value arg: number expected, got string", message("bar"))
            assert.equal("bad value arg: number expected, got nil", message())
            assert.equal("bad init arg: number expected, got string", message(1, "bar"))
            assert.equal("bad init_ttl arg: number expected, got string", message(1, 0, "bar"))
            local start = 'bad "init_ttl" argument: a number of seconds, 0 or more, expected, got '
            assert.equal(start .. "-1", message(1, 0, -1))
            assert.equal(start .. core.describe(0 / 0), message(1, 0, 0 / 0))
            assert.equal('must provide "init" when providing "init_ttl"', message(1, nil, 0.01))
        end)

        it("is refused as max_count", function ()
            for _, count in ipairs { -1, 0.5, 0 / 0, "1" } do
                assert.has_error(function () dict:get_keys(count) end,
                                 'bad "max_count" argument: a whole number, 0 to 4294967295, expected, got ' ..
                                 core.describe(count))
            end
        end)

        it("is refused as receiver by every method", function ()
            local null = require("ffi").new("void *")
            for name, method in pairs(getmetatable(dict).__index) do
                if type(method) == "function" then
                    for _, zone in ipairs { "dict", 1, {}, { 1 }, { io.stdout }, { null } } do
                        local ok, err = pcall(method, zone, "key", 1)
                        assert.is_false(ok, name)
                        assert.equal('bad "zone" argument: a dictionary expected, got ' .. core.describe(zone) ..
                                     "; call it as dict:" .. name .. "(...)", err)
                    end
                    assert.is_false((pcall(method)))
                end
            end
        end)

        it("names the line of the caller", function ()
            local ok, err = pcall(function ()
                local result = dict.set("key", 1)
                return result
            end)
            assert.is_false(ok)
            assert.matches('^[^:]*shdict_spec.lua:%d+: bad "zone" argument: ', err)
        end)
    end)


    describe("open", function ()
        it("gives the one that is open already", function ()
            assert.equal(dict, shdict.open("spec_dict", { size = "1m" }))
            assert.equal(dict, shdict.open("spec_dict", { size = 1048576 }))
            assert.equal(dict, shdict.open("spec_dict"))
            assert.equal("spec_dict", dict.name)
        end)

        it("makes one of 1m when nothing is said", function ()
            assert.equal(1048576, shdict.open("spec_default"):capacity())
            shdict.remove("spec_default")
        end)

        it("takes each mutex, and mode and persist", function ()
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
            local listing = io.popen("stat -c %a " .. os.getenv("HOLDFAST_DIR") .. "/spec_mode.dict")
            assert.equal("640", listing:read("*l"))
            listing:close()
            shdict.remove("spec_mode")
        end)

        it("refuses bad names with a sentence", function ()
            for _, name in ipairs { "", "a/b", ("n"):rep(65), ".hidden", "a b", "..", "a\0b" } do
                local made, err = shdict.open(name, { size = "64k" })
                assert.is_nil(made)
                assert.matches("name", err, 1, true)
            end
            assert(shdict.open(("n"):rep(64), { size = "64k" }))
            shdict.remove(("n"):rep(64))
        end)

        it("refuses bad sizes, and says what it was given", function ()
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

        it("names the minimum when a size is below it", function ()
            for _, size in ipairs { 1, 12287, "11k" } do
                local made, err = shdict.open("spec_size", { size = size })
                assert.is_nil(made)
                assert.matches(tostring(core.SIZE_MIN), err, 1, true)
            end
        end)

        it("says how much is free when /dev/shm is too small", function ()
            local made, err = shdict.open("spec_size", { size = "16000g" })
            assert.is_nil(made)
            assert.matches("free", err, 1, true)
            assert.is_nil(shdict.shared.spec_size)
        end)

        it("refuses another size or mutex than the existing one has, and names both", function ()
            local made, err = shdict.open("spec_dict", { size = "2m" })
            assert.is_nil(made)
            assert.matches("1048576", err, 1, true)
            assert.matches("2097152", err, 1, true)
            made, err = shdict.open("spec_dict", { size = "1m", mutex = "spin" })
            assert.is_nil(made)
            assert.matches("futex", err, 1, true)
            assert.matches("spin", err, 1, true)
        end)

        it("refuses values that no mutex or mode has", function ()
            local made, err = shdict.open("spec_bad", { size = "64k", mutex = "mutex" })
            assert.is_nil(made)
            assert.equal('bad mutex "mutex": accepted are "futex", "spin" and "file"', err)
            local modes = { "", "0000", "000", "0400", "0601", "0610", "0700", "0777", "0800", "600x", "7777", 0, 384.5,
                            439, 511, 512, 600, -1, 0.5, 0 / 0 }
            for _, mode in ipairs(modes) do
                made, err = shdict.open("spec_bad", { size = "64k", mode = mode })
                assert.is_nil(made)
                assert.equal("bad mode " .. core.describe(mode) .. ': expected an octal string, "0600" to "0666" ' ..
                             "(4 reads, 2 writes, the owner has 6), or its number", err)
            end
        end)

        it("raises for wrong types, at the line that called", function ()
            local function message(...)
                local name, opts = ...
                local ok, err = pcall(function ()
                    local made = shdict.open(name, opts)
                    return made
                end)
                assert.is_false(ok)
                return (err:gsub("^[^:]*shdict_spec.lua:%d+: ", ">"))
            end
            assert.equal(">bad name to open: string expected, got nil", message())
            assert.equal(">bad name to open: string expected, got table", message({}))
            assert.equal(">bad options to open: table expected, got string", message("spec_bad", "1m"))
            assert.equal('>unknown option "sise" to open: accepted are mode, mutex, persist and size',
                         message("spec_bad", { sise = "1m" }))
            assert.matches('^>bad option "size" to open: .* expected, got table$', message("spec_bad", { size = {} }))
            assert.matches('^>bad option "mutex" to open: .* expected, got number$', message("spec_bad", { mutex = 1 }))
            assert.matches('^>bad option "persist" to open: a boolean expected, got number$',
                           message("spec_bad", { persist = 1 }))
            assert.matches('^>bad option "mode" to open: .* expected, got boolean$',
                           message("spec_bad", { mode = true }))
        end)
    end)


    describe("a world that is not acceptable", function ()
        local folder

        before_each(function ()
            local listing = assert(io.popen("mktemp -d /dev/shm/holdfast-spec.XXXXXX"))
            folder = listing:read("*l")
            listing:close()
        end)

        after_each(function ()
            os.execute("rm -rf -- '" .. folder .. "'")
        end)

        local function sh(command)
            assert(os.execute("cd '" .. folder .. "' && " .. command) == 0, command)
        end

        -- What open says in a process of the world `name` of the folder.
        local function open_in(name)
            local text, status = process.run([[
                local made, err = require("resty.shdict").open("spec_dict", { size = "64k" })
                say(tostring(made and made.name) .. ": " .. tostring(err))
            ]], { env = { HOLDFAST_DIR = folder .. "/" .. name }, stderr = true })
            assert.equal(0, status)
            return text
        end

        it("is a directory that others may write to", function ()
            sh "mkdir -m 770 world"
            assert.matches("^nil: .*world.*770", open_in("world"))
        end)

        it("is a symbolic link", function ()
            sh "mkdir -m 700 real && ln -s real world"
            assert.matches("^nil: .*world.*link", open_in("world"))
        end)

        it("is not on a tmpfs", function ()
            local listing = assert(io.popen("mktemp -d /var/tmp/holdfast-spec.XXXXXX"))
            local elsewhere = listing:read("*l")
            listing:close()
            local text = open_in("../../.." .. elsewhere)
            os.execute("rm -rf -- '" .. elsewhere .. "'")
            assert.matches("^nil: .*/var/tmp/.*tmpfs", text)
        end)

        it("is somebody else's", function ()
            sh "mkdir -m 700 world"
            if os.execute("chown 65534 " .. folder .. "/world 2>/dev/null") ~= 0 then
                pending("only root can give a directory away")
            end
            assert.matches("^nil: .*world.*65534", open_in("world"))
        end)

        it("has files under the name that are no dictionaries; they are left as they are", function ()
            for _, content in ipairs { "head -c 65536 /dev/urandom", "head -c 10 /dev/zero", "printf ''" } do
                sh("rm -rf world && mkdir -m 700 world && umask 077 && " .. content .. " > world/spec_dict.dict && " ..
                   "cp world/spec_dict.dict before")
                -- Somebody has to live there, or the first to enter clears the world.
                local resident = process.start([[
                    assert(require("resty.shdict").open("other", { size = "64k" }))
                    say "here"
                    hear()
                ]], { env = { HOLDFAST_DIR = folder .. "/world" } })
                resident:hear()
                sh "test -f world/spec_dict.dict || cp before world/spec_dict.dict"
                assert.matches("^nil: .*spec_dict", open_in("world"))
                sh "cmp world/spec_dict.dict before"
                process.clean_up()
            end
        end)

        it("has a dictionary that was cut short", function ()
            sh "mkdir -m 700 world"
            local resident = process.start([[
                assert(require("resty.shdict").open("spec_dict", { size = "64k" }))
                say "here"
                hear()
            ]], { env = { HOLDFAST_DIR = folder .. "/world" } })
            resident:hear()
            sh "truncate -s 20000 world/spec_dict.dict"
            assert.matches("^nil: .*spec_dict", open_in("world"))
        end)
    end)


    describe("shared", function ()
        it("has what exists, and nil for what does not", function ()
            assert.equal(dict, shdict.shared.spec_dict)
            assert.is_nil(shdict.shared.spec_nothing)
            assert.is_nil(shdict.shared[1])
        end)

        it("raises where a nil would hide a mistake", function ()
            assert.error_matches(function () return shdict.shared["a/b"] end, "name")
        end)

        it("has what another process made", function ()
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

        it("makes what HOLDFAST_DICTS declares, and complains about a declaration that is none", function ()
            local source = [[
                local shared = require("resty.shdict").shared
                say(shared.spec_declared:capacity(), shared.spec_undeclared)
            ]]
            local env = { HOLDFAST_DICTS = "spec_first=64k,spec_declared=128k" }
            assert.equal("131072\tnil\n", (process.run(source, { env = env })))
            env.HOLDFAST_DICTS = "spec_first"
            assert.matches("spec_first", (process.run(source, { env = env, stderr = true })), 1, true)
        end)
    end)


    describe("remove", function ()
        it("takes the dictionary out of the world", function ()
            shdict.open("spec_removed", { size = "64k" }):set("key", 1)
            assert.is_true(shdict.remove("spec_removed"))
            assert.is_nil(shdict.shared.spec_removed)
            assert.same({ nil, "not found" }, { shdict.remove("spec_removed") })
        end)

        it("leaves to those that have it open a dictionary of which each method says that it is not found", function ()
            local removed = assert(shdict.open("spec_removed", { size = "64k" }))
            removed:set("key", 1)
            assert.is_true(shdict.remove("spec_removed"))
            for method, arguments in pairs {
                set = { 1 }, add = { 1 }, replace = { 1 }, delete = {},
            } do
                assert.same(pack(false, "dictionary not found", false),
                            pack(removed[method](removed, "key", unpack(arguments))), method)
            end
            for method, arguments in pairs { get = {}, incr = { 1, 0 }, ttl = {}, expire = { 1 } } do
                assert.same(pack(nil, "dictionary not found"),
                            pack(removed[method](removed, "key", unpack(arguments))), method)
            end
            assert.same(pack(nil, "dictionary not found"), pack(removed:flush_all()))
            assert.same(pack(nil, "dictionary not found"), pack(removed:get_keys()))
            assert.equal(0, removed:capacity())
        end)

        it("makes room for one of another size", function ()
            shdict.open("spec_removed", { size = "64k" }):set("key", 1)
            shdict.remove("spec_removed")
            local made = assert(shdict.open("spec_removed", { size = "128k" }))
            assert.equal(131072, made:capacity())
            assert.is_nil(made:get("key"))
            shdict.remove("spec_removed")
        end)

        it("refuses what is no name", function ()
            assert.error_matches(function () shdict.remove(nil) end, "bad name to remove: string expected, got nil")
            local ok, err = shdict.remove("a/b")
            assert.is_nil(ok)
            assert.matches("name", err, 1, true)
        end)
    end)


    it("all dictionaries share one metatable of methods, which clients patch", function ()
        local other = shdict.open("spec_patched", { size = "64k" })
        local mt = getmetatable(dict)
        assert.equal(mt, getmetatable(other))
        assert.equal(mt, mt.__index)
        local get = mt.get
        mt.get = function (zone, key) return "patched " .. tostring(get(zone, key)) end
        other:set("key", 1)
        assert.equal("patched 1", other:get("key"))
        mt.get = get
        assert.equal(1, other:get("key"))
        shdict.remove("spec_patched")
    end)


    it("what one process stores another one reads", function ()
        local child = process.start [[
            local dict = require("resty.shdict").shared.spec_dict
            for key in hear do
                say(tostring(dict:get(key)))
            end
        ]]
        dict:set("a", "text")
        dict:set("b", 1.25)
        for _, case in ipairs { { "a", "text" }, { "b", "1.25" }, { "c", "nil" } } do
            child:say(case[1])
            assert.equal(case[2], child:hear())
        end
    end)
end)
