-- What runs when a Lua state closes, late in the life of its process.

local process = require "spec.support.process"

describe("when a Lua state closes", function ()
    after_each(process.clean_up)

    it("finalisers may make calls that go well and calls that fail", function ()
        local output, status = process.run([[
            local shdict = require "resty.shdict"
            local dict = assert(shdict.open("spec_late", { size = "100k" }))
            local kept = newproxy(true)
            getmetatable(kept).__gc = function ()
                say(dict:set("a", 1), dict:get("a"), pcall(dict.set, dict, "a", 1, -1) == false,
                    select(2, dict:lpush("a", 1)))
            end
            _G.kept = kept
        ]])
        assert.equal("true\t1\ttrue\tvalue not a list\n", output)
        assert.equal(0, status)
    end)

    it("the guard against files that are cut short is on, once it was asked for", function ()
        local output, status = process.run([[
            local core = require "resty.holdfast.core"
            local ffi = require "ffi"
            ffi.cdef "int truncate(const char *path, long length);"
            local dict = assert(require "resty.shdict".open("spec_late_cut", { size = "100k" }))
            say(core.guard_sigbus())
            ffi.C.truncate(ffi.string(core.C.holdfast_directory()) .. "/spec_late_cut.dict", 0)
            say(dict:set("a", 1))
        ]])
        assert.equal("true\nfalse\tdictionary not found\tfalse\n", output)
        assert.equal(0, status)
    end)
end)
