-- Tests dictionary/registry.lua: a dictionary that several handles, Lua states and processes share.

local fixture, process = require "spec.support" ("fixture", "process")
local ffi = require "ffi"
local shdict = require "resty.shdict"

local C = ffi.C


-- Runs `task` in a forked child of this process. Returns whether `task` returned true there.
local function in_child(task)
    local pid = C.fork()
    assert(pid >= 0, "fork failed")
    if pid == 0 then
        local ok, result = pcall(task)
        C._exit(ok and result == true and 0 or 1)
    end
    local status = ffi.new("int[1]", -1)
    C.waitpid(pid, status, 0)
    return status[0] == 0
end


describe("shdict, shared:", function ()
    local dict = fixture.dictionary("spec_dict")

    it("all dictionaries share one metatable of methods, which other libraries may patch", function ()
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

    it("one process can read the values that another process stores", function ()
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

    describe("a dictionary that was opened before fork", function ()
        it("is the same dictionary in the child", function ()
            dict:set("number", 1)
            dict:set("text", "before")
            dict:rpush("list", "first")
            assert.is_true(in_child(function ()
                return dict:get("text") == "before"
                    and dict:incr("number", 41) == 42
                    and dict:set("text", "child")
                    and dict:rpush("list", "second") == 2
                    and dict:cas("lock", nil, "child's")
                    and shdict.shared.spec_dict == dict
            end))
            assert.equal(42, dict:get("number"))
            assert.equal("child", dict:get("text"))
            assert.equal(2, dict:llen("list"))
            assert.equal("child's", dict:get("lock"))
        end)

        it("can be opened again and recreated in the child", function ()
            assert.is_true(in_child(function ()
                local new = shdict.open("spec_child", { size = "64k" })
                return shdict.open("spec_dict") == dict and new:set("key", 1) and new:get("key") == 1
            end))
            shdict.remove("spec_child")
        end)
    end)
end)
