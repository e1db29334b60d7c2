-- Tests ffi/header.lua: a C compiler compares each of its declarations with include/holdfast.h. scripts/lint checks
-- that scripts/make-cdef has generated header.lua from the current header.

local files, shell = require "spec.support" ("files", "shell")
local ffi = require "ffi"
local header = require "resty.holdfast.ffi.header"

local HEADER = files.read("include/holdfast.h")


-- Returns the name of each struct, and its fields as { type, name, "[length]" or "" }.
local function structs(declarations)
    local found = {}
    for body, name in declarations:gmatch("typedef struct [%w_]+ (%b{}) ([%w_]+);") do
        local fields = {}
        for kind, field, length in body:gmatch("%s*([%w_ ]+[ *]+)([%w_]+)([%[%]%d]*);") do
            fields[#fields + 1] = { kind, field, length }
        end
        found[name] = fields
    end
    return found
end


-- Returns a C program that compiles only if the header agrees with the declarations. The program declares each function
-- again. It checks the value of each constant, and the types, sizes and offsets that LuaJIT uses for structs and their
-- fields.
local function program(declarations, constants)
    local lines = { '#include "holdfast.h"', (declarations:gsub("typedef struct [%w_]+ %b{} [%w_]+;", "")) }
    local function claim(what, value)
        lines[#lines + 1] = ('_Static_assert(%s == %d, "");'):format(what, tonumber(value))
    end
    for name, fields in pairs(structs(declarations)) do
        claim(("sizeof(%s)"):format(name), ffi.sizeof(name))
        for _, field in ipairs(fields) do
            claim(("__builtin_offsetof(%s, %s)"):format(name, field[2]), ffi.offsetof(name, field[2]))
            claim(("__builtin_types_compatible_p(__typeof__(((%s *)0)->%s), %s%s)"):format(
                name, field[2], field[1], field[3]), 1)
        end
    end
    for name, value in pairs(constants) do
        claim("HOLDFAST_" .. name, value)
    end
    return table.concat(lines, "\n") .. "\n"
end


local function compiles(declarations, constants)
    local path = os.tmpname()
    files.write(path, program(declarations, constants))
    local succeeded = shell.succeeds(("cc -std=c11 -Werror -Iinclude -fsyntax-only -xc %s 2>%s.err"):format(path, path))
    local said = files.read(path .. ".err")
    os.remove(path)
    os.remove(path .. ".err")
    return succeeded, said
end


describe("cdef", function ()
    it("agrees with the header according to a C compiler", function ()
        assert(compiles(header.declarations, header.constants))
    end)

    it("declares everything in the header", function ()
        local text = HEADER:gsub("/%*.-%*/", "")
        local _, functions = text:gsub("\nHOLDFAST_API ", "")
        local _, declared = header.declarations:gsub("%)", "")
        assert.equal(functions, declared)
        local said = structs(header.declarations)
        for name in text:gmatch("typedef struct ([%w_]+) {") do
            assert(said[name] and #said[name] > 0, name)
        end
        for name in text:gmatch("HOLDFAST_([%u_]+) = ") do
            assert(header.constants[name], name)
        end
        for name in text:gmatch("#define HOLDFAST_([%u_]+) %d") do
            assert(header.constants[name], name)
        end
    end)

    for what, change in pairs {
        ["a different type of a parameter"] = { "parker, double seconds)", "parker, float seconds)" },
        ["a different type of a result"] = { "uint64_t holdfast_capacity(", "uint32_t holdfast_capacity(" },
        ["one pointer too few"] = { "holdfast_attach(const char *name, size_t length, holdfast_dict **dict)",
                                  "holdfast_attach(const char *name, size_t length, holdfast_dict *dict)" },
        ["a different type of a field"] = { "double remaining;", "uint64_t remaining;" },
        ["a shorter array"] = { "char why[128];", "char why[64];" },
    } do
        it("would fail with " .. what, function ()
            local first, last = header.declarations:find(change[1], 1, true)
            local changed = header.declarations:sub(1, first - 1) .. change[2] .. header.declarations:sub(last + 1)
            assert.is_false((compiles(changed, {})))
        end)
    end

    it("would fail with a different value for a constant", function ()
        assert.is_false((compiles("", { OK = 1 })))
    end)
end)
