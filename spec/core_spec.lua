-- Tests ffi/library.lua.

local files, process, shell = require "spec.support" ("files", "process", "shell")
local core = require "resty.holdfast.core"


describe("core", function ()
    after_each(process.clean_up)

    it("has the constants in the header and no others", function ()
        local found = {}
        for name, value in pairs(core) do
            if name:match("^[%u_]+$") and name ~= "C" then
                found[name] = value
            end
        end
        assert.same(require("resty.holdfast.ffi.header").constants, found)
    end)

    it("finds every function in the header in the library", function ()
        local ffi = require "ffi"
        for name in files.read("include/holdfast.h"):gmatch("(holdfast_[%w_]+)%([^)]*%)[^;]-;") do
            assert.has_no.errors(function () ffi.typeof(core.C[name]) end, name)
        end
    end)

    it("has the same code names as the library", function ()
        local ffi = require "ffi"
        for _, name in ipairs { "NOT_FOUND", "EXISTS", "NO_MEMORY", "TIMEOUT", "NOT_A_NUMBER", "NOT_OWNER" } do
            assert.equal(ffi.string(core.C.holdfast_code_text(core[name])), core.reason(core[name]))
        end
    end)

    it("reports the library's path and version", function ()
        assert.matches("libholdfast", core.path, 1, true)
        assert.matches("^%d+%.%d+%.%d+$", core.version)
    end)

    describe("key_string", function ()
        it("leaves strings unchanged, and converts numbers and booleans like tostring", function ()
            assert.equal("a\0b", core.key_string("a\0b"))
            assert.equal("1.5", core.key_string(1.5))
            assert.equal("true", core.key_string(true))
            assert.equal("false", core.key_string(false))
        end)

        it("accepts objects whose __tostring returns a name", function ()
            local named = setmetatable({}, { __tostring = function () return "my name" end })
            assert.equal("my name", core.key_string(named))
        end)

        it("refuses objects that have only an address", function ()
            local thread = coroutine.create(function () end)
            for _, key in ipairs { {}, print, thread, io.stdout and newproxy(), require("ffi").new("int[1]") } do
                local text, err = core.key_string(key)
                assert.is_nil(text)
                assert.equal("bad key type", err)
            end
        end)

        it("refuses objects when their __tostring returns no string", function ()
            for _, answer in ipairs { 5, true, {} } do
                local odd = setmetatable({}, { __tostring = function () return answer end })
                assert.same({ nil, "bad key type" }, { core.key_string(odd) })
            end
            local silent = setmetatable({}, { __tostring = function () end })
            assert.same({ nil, "bad key type" }, { core.key_string(silent) })
        end)

        it("refuses nil, no argument and too many arguments", function ()
            assert.same({ nil, "nil key" }, { core.key_string(nil) })
            assert.same({ nil, "empty key" }, { core.key_string("") })
            assert.same({ nil, "key too long" }, { core.key_string(("x"):rep(65536)) })
            assert.equal(65535, #core.key_string(("x"):rep(65535)))
        end)
    end)

    describe("finding the library", function ()
        local library = core.path
        local folder

        before_each(function ()
            folder = os.tmpname()
            os.remove(folder)
            assert(shell.succeeds("mkdir " .. folder))
        end)

        after_each(function ()
            os.execute("rm -rf -- '" .. folder .. "'")
        end)

        local TRY = "local ok, result = pcall(require, 'resty.holdfast.core') say(ok and result.path or result)"

        -- Copies the Lua files to a folder without a library, with the layout of an installation or of a checkout.
        local function copy_modules(place)
            assert(shell.succeeds(("mkdir -p %s/%s && cp -r lua/resty %s/%s"):format(folder, place, folder, place)))
            return folder .. "/" .. place .. "/?.lua"
        end

        it("loads the library that HOLDFAST_LIB names", function ()
            assert.equal(library .. "\n", (process.run(TRY, { env = { HOLDFAST_LIB = library } })))
        end)

        it("tries no other path if the library that HOLDFAST_LIB names cannot be loaded", function ()
            local text = process.run(TRY, { env = { HOLDFAST_LIB = folder .. "/nowhere.so" } })
            assert.matches("HOLDFAST_LIB", text, 1, true)
            assert.matches(folder .. "/nowhere.so", text, 1, true)
        end)

        it("does not load a file from the current folder if the name has no slash", function ()
            assert(shell.succeeds("cp " .. library .. " " .. folder .. "/mine.so"))
            local text = process.run(('require("ffi").cdef "int chdir(const char *);" require("ffi").C.chdir(%q) ')
                :format(folder) .. TRY, { env = { HOLDFAST_LIB = "mine.so", LUA_PATH = copy_modules("modules") } })
            assert.matches("cannot load the library that HOLDFAST_LIB names: ", text, 1, true)
        end)

        it("searches package.cpath", function ()
            assert(shell.succeeds("cp " .. library .. " " .. folder .. "/libholdfast.so"))
            local env = { HOLDFAST_LIB = false, LUA_CPATH = folder .. "/none/?.so;" .. folder .. "/?.so" }
            assert.equal(folder .. "/libholdfast.so\n", (process.run(TRY, { env = env })))
        end)

        it("skips templates of package.cpath without a question mark", function ()
            assert(shell.succeeds("cp " .. library .. " " .. folder .. "/loadall.so"))
            local env = { HOLDFAST_LIB = "", LUA_PATH = copy_modules("modules"),
                          LUA_CPATH = folder .. "/loadall.so;" .. folder .. "/?.so" }
            local text = process.run(TRY, { env = env })
            assert.matches("cannot find libholdfast", text, 1, true)
        end)

        for place, home in pairs { ["share/lua/5.1"] = "lib/lua/5.1", ["checkout/lua"] = "checkout/build" } do
            it("finds the library in " .. home .. " from Lua files in " .. place, function ()
                local env = { HOLDFAST_LIB = false, LUA_PATH = copy_modules(place), LUA_CPATH = folder .. "/none/?.so" }
                local target = folder .. "/" .. home
                assert(shell.succeeds(("mkdir -p %s && cp %s %s/libholdfast.so"):format(target, library, target)))
                local text = process.run(TRY, { env = env })
                assert.equal(target .. "/libholdfast.so\n", (text:gsub("/lua/%.%.", "")))
            end)
        end

        it("prefers package.cpath to the installation of the Lua files", function ()
            assert(shell.succeeds(("mkdir -p %s/lib/lua/5.1 %s/mine"):format(folder, folder)))
            assert(shell.succeeds(("echo text > %s/lib/lua/5.1/libholdfast.so"):format(folder)))
            assert(shell.succeeds(("cp %s %s/mine/libholdfast.so"):format(library, folder)))
            local env = { HOLDFAST_LIB = false, LUA_PATH = copy_modules("share/lua/5.1"),
                          LUA_CPATH = folder .. "/mine/?.so" }
            assert.equal(folder .. "/mine/libholdfast.so\n", (process.run(TRY, { env = env })))
        end)

        it("lists the paths that it has searched", function ()
            assert(shell.succeeds("echo text > " .. folder .. "/libholdfast.so"))
            local env = { HOLDFAST_LIB = false, LUA_PATH = copy_modules("share/lua/5.1"),
                          LUA_CPATH = folder .. "/none/?.so;" .. folder .. "/?.so" }
            local text = process.run(TRY, { env = env })
            assert.matches("cannot find libholdfast", text, 1, true)
            assert.matches(folder .. "/none/libholdfast.so: no such file", text, 1, true)
            assert.matches(folder .. "/libholdfast.so: ", text, 1, true)
            assert.matches(folder .. "/lib/lua/5.1/libholdfast.so: no such file", text, 1, true)
            assert.matches("libholdfast.so." .. core.ABI .. ": cannot open shared object file", text, 1, true)
        end)

        local function compile(source)
            files.write(folder .. "/fake.c", source)
            assert(shell.succeeds(("cc -shared -fPIC -o %s/libholdfast.so %s/fake.c"):format(folder, folder)))
            return folder .. "/libholdfast.so"
        end

        it("refuses an older and a newer library, and names both numbers", function ()
            for _, abi in ipairs { core.ABI - 1, core.ABI + 1 } do
                local fake = compile("unsigned holdfast_abi(void) { return " .. abi .. "; }")
                local text = process.run(TRY, { env = { HOLDFAST_LIB = fake } })
                local sentence = "holdfast: these Lua files need libholdfast with ABI %d, but %s has ABI %d\n"
                assert.equal(sentence:format(core.ABI, fake, abi), text)
            end
        end)

        it("refuses an older library that comes first in package.cpath, and searches no further", function ()
            local fake = compile("unsigned holdfast_abi(void) { return 1; }")
            local env = { HOLDFAST_LIB = false, LUA_CPATH = folder .. "/?.so;" .. library:gsub("libholdfast", "?") }
            local text = process.run(TRY, { env = env })
            assert.matches(fake .. " has ABI 1", text, 1, true)
        end)

        it("refuses a different library with the same name", function ()
            local fake = compile("int unrelated;")
            assert.matches("is not libholdfast", (process.run(TRY, { env = { HOLDFAST_LIB = fake } })), 1, true)
        end)

        it("can be loaded twice in one Lua state", function ()
            local text = process.run [[
                require "resty.lock"
                for name in pairs(package.loaded) do
                    if name:match("^resty") then package.loaded[name] = nil end
                end
                require("resty.shdict").open("twice", { size = "64k" })
                local lock = require("resty.lock"):new("twice")
                say(lock:lock("key"), lock:unlock())
            ]]
            assert.equal("0\t1\n", text)
        end)
    end)
end)
