-- Tests tables as values of resty.shdict.

local fixture, pack, process = require "spec.support" ("fixture", "pack", "process")
local core = require "resty.holdfast.core"
local shdict = require "resty.shdict"
local sleep = require("resty.holdfast.host.none").sleep


describe("shdict, tables as values:", function ()
    local dict = fixture.dictionary("spec_tables", { size = "1m", tables = true })

    it("get returns a copy of the stored table", function ()
        for _, value in ipairs {
            {}, { 1, 2, 3 }, { name = "Jim", dogs = { "Rex", "Tom" } }, { [1.5] = true, [true] = 1.5 },
            { 5LL, 2 ^ 60 }, { ("x"):rep(100000) },
        } do
            assert.same(pack(true, nil, false), pack(dict:set("key", value)))
            local copy = dict:get("key")
            assert.same(value, copy)
            assert.are_not.equal(value, copy)
        end
    end)

    it("are accepted by all methods that store and read", function ()
        assert.is_true((dict:add("a", { 1 }, 100, 7)))
        assert.same(pack({ 1 }, 7), pack(dict:get("a")))
        assert.is_true((dict:safe_add("b", { 2 })))
        assert.is_true((dict:safe_set("c", { 3 })))
        assert.is_true((dict:replace("c", { 4 })))
        assert.same({ 4 }, dict:get("c"))
        assert.is_true((dict:cas("d", nil, { 5 })))
        assert.same({ 5 }, dict:get("d"))
        dict:set("e", { 6 }, 0.01)
        sleep(0.02)
        assert.same(pack({ 6 }, nil, true), pack(dict:get_stale("e")))
    end)

    it("do not count as numbers, lists or strings", function ()
        dict:set("key", { 1 })
        assert.same(pack(nil, "not a number"), pack(dict:incr("key", 1)))
        assert.same(pack(nil, "value not a list"), pack(dict:lpush("key", 1)))
        assert.same(pack(nil, "value not a list"), pack(dict:llen("key")))
        assert.same(pack(nil, "bad value type"), pack(dict:lpush("list", { 1 })))
        local bytes = require("string.buffer").encode({ 1 })
        assert.same(pack(false, "value differs", false), pack(dict:cas("key", bytes, 1)))
    end)

    it("cannot be the old value of cas", function ()
        dict:set("key", { 1 })
        assert.same(pack(nil, "bad old value type: expected string, number, boolean or nil, got table"),
                    pack(dict:cas("key", { 1 }, 2)))
    end)

    it("with content that cannot be encoded are refused, and nothing changes", function ()
        dict:set("key", "before")
        local inside_itself = {}
        inside_itself.me = inside_itself
        local cases = {
            ["cannot serialize 'function'"] = { deep = { print } },
            ["cannot serialize 'thread'"] = { coroutine.create(print) },
            ["cannot serialize 'userdata'"] = { io.stdout },
            ["too deep to serialize"] = inside_itself,
        }
        for reason, value in pairs(cases) do
            for _, method in ipairs { "set", "replace", "safe_set" } do
                assert.same(pack(nil, "bad table: " .. reason), pack(dict[method](dict, "key", value)))
            end
            assert.same(pack(nil, "bad table: " .. reason), pack(dict:cas("key", "before", value)))
            assert.same(pack(nil, "bad table: " .. reason), pack(dict:add("new", value)))
        end
        assert.equal("before", dict:get("key"))
        assert.is_nil(dict:get("new"))
    end)

    -- A loop is compiled with correct arguments. Then a caller deep in the stack enters the loop with bad arguments.
    -- Compiled code would write an error message into the caller's frames, at the position of the last call to C code.
    it("are refused in compiled code without overwriting the stack", function ()
        local text = process.run([[
            local core = require "resty.holdfast.core"
            local dict = require("resty.shdict").open("spec_tables", { size = "1m", tables = true })
            local good = { [true] = true, [false] = true }
            local twice_the_same_key = "\9\2\2\2\2\2"

            local function store(bytes)
                core.C.holdfast_store(dict[1], core.SET, "key", 3, core.TABLE, bytes, #bytes, 0, 0, 0, nil)
            end

            local function loop(method, value)
                local ok, err
                for _ = 1, 100 do
                    ok, err = dict[method](dict, "key", value)
                end
                return ok, err
            end

            local function loop_deep(depth, method, value)
                if depth == 0 then
                    return loop(method, value)
                end
                local ok, err = loop_deep(depth - 1, method, value)
                return ok, err
            end
            jit.off(loop_deep)

            for method, value in pairs { set = { print }, get = false } do
                for _ = 1, 100 do
                    dict:set("key", good)
                    loop(method, good)
                end
                store(twice_the_same_key)
                for i = 1, 20 do
                    os.getenv("HOME", unpack({}, 1, i))
                    local ok, err = loop_deep(40, method, value)
                    assert(not ok and err:find("^bad "), err)
                end
                say(select(2, dict[method](dict, "key", value)))
            end
        ]], { stderr = true })
        assert.matches("bad table: cannot serialize 'function'\n", text, 1, true)
        assert.matches("bad table bytes: duplicate table key\n", text, 1, true)
    end)

    it("are refused in a finaliser that runs while another table is being stored", function ()
        local text = process.run([[
            local dict = require("resty.shdict").open("spec_tables", { size = "1m", tables = true })
            local ffi = require "ffi"
            local inner = 0
            local function finalise()
                local ok, err = dict:set("inner", { print })
                if not ok and err == "bad table: cannot serialize 'function'" and dict:set("inner", { "inner" }) then
                    inner = inner + 1
                end
            end
            for i = 1, 20000 do
                ffi.gc(ffi.new("char[1]"), finalise)
                assert(dict:set("outer", { "outer", i }))
                local value = dict:get("outer")
                assert(value[1] == "outer" and value[2] == i)
            end
            say(inner > 1000, dict:get("inner")[1])
        ]], { stderr = true })
        assert.equal("true\tinner\n", text)
    end)

    it("can be neither stored nor read without the dictionary's option", function ()
        dict:set("key", { 1 })
        local plain = assert(shdict.open("spec_tables", { tables = false }))
        assert.equal(dict, plain)
        assert.same(pack(nil, "bad value type"), pack(plain:set("key", {})))
        assert.same(pack(nil, "bad value type"), pack(plain:cas("key", nil, {})))
        local sentence = "the value is a table; open the dictionary with { tables = true } to read it"
        assert.same(pack(nil, sentence), pack(plain:get("key")))
        assert.same(pack(nil, sentence), pack(plain:get_stale("key")))
        assert.is_true((plain:set("key", 1)))
        assert.equal(dict, shdict.open("spec_tables"))
        assert.same(pack(nil, "bad value type"), pack(plain:set("key", {})))
        shdict.open("spec_tables", { tables = true })
        assert.is_true((dict:set("key", {})))
    end)

    describe("read from foreign bytes", function ()
        local buffer = require "string.buffer"

        local function get(bytes)
            assert.equal(core.OK, core.C.holdfast_store(dict[1], core.SET, "key", 3, core.TABLE, bytes, #bytes, 0, 0,
                                                        0, nil))
            return dict:get("key")
        end

        it("return a table or an error, whatever the bytes", function ()
            local seed = os.time()
            math.randomseed(seed)
            local whole = buffer.encode({ a = { 1, 2, "three", 4.5 }, [true] = { { {} } }, 5LL })
            for i = 1, 3000 do
                local bytes = {}
                if i % 2 == 0 then -- a table in which one byte was changed, or some bytes are missing
                    bytes = { whole:byte(1, math.random(#whole)) }
                    bytes[math.random(#bytes)] = math.random(0, 255)
                else
                    for at = 1, math.random(0, 20) do
                        bytes[at] = math.random(0, 255)
                    end
                end
                for at, byte in ipairs(bytes) do
                    bytes[at] = string.char(byte)
                end
                local value, err = get(table.concat(bytes))
                if value == nil then
                    assert.matches("^bad table bytes: ", err, "seed " .. seed)
                else
                    assert.is_table(value, "seed " .. seed)
                end
            end
        end)

        it("cannot make the decoder allocate more memory than they have bytes", function ()
            local before = collectgarbage("count")
            for _, bytes in ipairs { "\9\255\255\255\255\15", "\12\255\255\255\255\15", "\13\5\255\255\255\255\3",
                                     "\9\254\255", "\9\255\1", "\12", "\12\2\12\200\1", "\255\255\255\255\255" } do
                assert.same(pack(nil, "bad table bytes: string.buffer did not write them"), pack(get(bytes)))
            end
            assert.is_true(collectgarbage("count") - before < 1000)
        end)

        it("are refused if they encode anything but exactly one table", function ()
            assert.same(pack(nil, "bad table bytes: expected a table, got string"),
                            pack(get(buffer.encode("no table"))))
            assert.same(pack(nil, "bad table bytes: string.buffer did not write them"),
                        pack(get(buffer.encode({}) .. buffer.encode({}))))
            assert.same(pack(nil, "bad table bytes: string.buffer did not write them"), pack(get("")))
        end)

        it("must not contain pointers", function ()
            assert.is_table(get(buffer.encode({ 4, 5, "\4\5" })))
            assert.same(pack(nil, "bad table bytes: string.buffer did not write them"),
                        pack(get("\12\2\4\1\2\3\4")))
        end)
    end)

    it("of every size and depth come back unchanged", function ()
        local function deep(levels)
            return levels == 0 and {} or { deep(levels - 1), n = levels }
        end
        local numbers, names = {}, {}
        for i = 0, 9000 do
            numbers[i] = i
            names["name " .. i] = ("x"):rep(i % 70)
        end
        for _, value in ipairs {
            deep(50), numbers, names, { 4, 5, "\4", 4LL }, { [0] = 1, [2] = 3 }, { nil, 2, nil, 4 },
        } do
            assert.is_true((dict:set("key", value)))
            assert.same(value, dict:get("key"))
        end
    end)

    it("with a pointer inside are refused like any userdata", function ()
        local pointer = require("string.buffer").decode("\4\1\2\3\4")
        assert.equal("userdata", type(pointer))
        assert.same(pack(nil, "bad table: cannot serialize 'userdata'"), pack(dict:set("key", { pointer })))
    end)

    it("are refused by open if LuaJIT has no string.buffer", function ()
        local text = process.run([[
            package.preload["string.buffer"] = function () error("module 'string.buffer' not found") end
            local shdict = require "resty.shdict"
            say(shdict.open("spec_plain", { size = "64k", tables = true }))
            local dict = shdict.open("spec_plain", { size = "64k", tables = false })
            say(dict:set("key", {}))
        ]], { stderr = true })
        assert.equal("nil\ttable values need LuaJIT's string.buffer, which this LuaJIT lacks\n"
                     .. "nil\tbad value type\n", text)
    end)

    it("are enabled or disabled with true or false in open", function ()
        assert.error_matches(function () shdict.open("spec_tables", { tables = 1 }) end,
                             'bad option "tables" to open: expected a boolean, got number')
    end)
end)
