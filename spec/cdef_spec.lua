-- Tests ffi/cdef.lua and ffi/constants.lua: they say what include/holdfast.h says.

local files = require "spec.support" ("files")
local constants = require "resty.holdfast.ffi.constants"

local HEADER = files.read("include/holdfast.h")
local CDEF = assert(files.read("lua/resty/holdfast/ffi/cdef.lua"):match("%[%[(.-)%]%]"))

-- What the library does not declare: libc's, nginx's.
local OTHERS = "getpid holdfast_clock_gettime holdfast_close holdfast_gethostname holdfast_nginx_msec holdfast_pollfd "
                         .. "holdfast_ppoll holdfast_timespec"


-- Without comments, the preprocessor's lines and what only C compilers need; spaces only between words.
local function normalised(text)
    return (("\n" .. text):gsub("/%*.-%*/", " "):gsub("//[^\n]*", " ")
                :gsub("#ifdef __cplusplus.-#endif", ""):gsub("\\\n", " "):gsub("\n *#[^\n]*", "")
                :gsub("%f[%w_]HOLDFAST_API%f[^%w_]", " ")
                :gsub("%f[%w_]HOLDFAST_DEFAULT%b()", "")
                :gsub("%s+", " "):gsub(" ?(%p) ?", function (mark) return mark ~= "_" and mark end)
                :gsub("^ ", ""))
end


local function name_of(declaration)
    return declaration:match("([%w_]+)%[?%d*%]?__asm__") or declaration:match("([%w_]+)%(")
           or declaration:match("}([%w_]+)$") or declaration:match("([%w_]+){") or declaration:match("([%w_]+)$")
end


-- By name, each without its semicolon. Of enums the constants alone, with their values.
local function declarations(text)
    local found, values = {}, {}
    for body in normalised(text):gmatch("enum[%w_ ]*(%b{})") do
        local value = -1
        for item in body:gmatch("[^{},]+") do
            local name, given = item:match("^HOLDFAST_([%u_]+)=?(-?%d*)$")
            value = tonumber(given) or value + 1
            values[assert(name, item)] = value
        end
    end
    local one_by_one = normalised(text):gsub("%b{}", function (body) return (body:gsub(";", "\0")) end)
    for declaration in one_by_one:gmatch("[^;]+") do
        if not declaration:find("^typedef enum") and not declaration:find("^enum") then
            local name = assert(name_of(declaration), declaration)
            assert(not found[name], name)
            found[name] = declaration:gsub("%z", ";")
        end
    end
    return found, values
end


-- What the two say of a name, where that differs.
local function differences(header, cdef)
    local said, found = {}, declarations(cdef)
    for name, declaration in pairs((declarations(header))) do
        if found[name] ~= declaration then
            said[#said + 1] = "holdfast.h: " .. declaration .. "\ncdef.lua:   " .. tostring(found[name])
        end
    end
    table.sort(said)
    return table.concat(said, "\n")
end


-- The text with this part in the place of that one, which must be there once.
local function changed(text, from, to)
    local first, last = text:find(from, 1, true)
    assert(first and not text:find(from, last, true), from)
    return text:sub(1, first - 1) .. to .. text:sub(last + 1)
end


describe("cdef", function ()
    it("declares what the header declares, word by word", function ()
        assert.equal("", differences(HEADER, CDEF))
    end)


    it("declares nothing else but functions and types of others", function ()
        local header, others = declarations(HEADER), {}
        for name in pairs((declarations(CDEF))) do
            others[#others + 1] = not header[name] and name or nil
        end
        table.sort(others)
        assert.equal(OTHERS, table.concat(others, " "))
    end)


    it("is read whole", function ()
        local header = declarations(HEADER)
        local _, functions = HEADER:gsub("\nHOLDFAST_API ", "")
        local _, structs = HEADER:gsub("typedef struct", "")
        local names = 0
        for _ in pairs(header) do
            names = names + 1
        end
        assert.equal(functions + structs, names)
        assert.equal("typedef struct holdfast_lease{uint64_t owner;uint64_t sequence;}holdfast_lease",
                     header.holdfast_lease)
        assert.equal("const char*holdfast_code_text(int code)", header.holdfast_code_text)
    end)


    for what, change in pairs {
        ["another type of a parameter"] = { "int holdfast_parker_timer(holdfast_parker *parker, double seconds)",
                                            "int holdfast_parker_timer(holdfast_parker *parker, float seconds)" },
        ["another type of a result"] = { "uint64_t holdfast_capacity(", "uint32_t holdfast_capacity(" },
        ["a pointer too few"] = { "size_t length, holdfast_dict **dict);\nint holdfast_remove",
                                  "size_t length, holdfast_dict *dict);\nint holdfast_remove" },
        ["swapped fields"] = { "uint32_t waiters;\n  uint32_t alive;", "uint32_t alive;\n  uint32_t waiters;" },
        ["a shorter array"] = { "char why[128];", "char why[64];" },
        ["a field too few"] = { "uint64_t words_mended;", "" },
        ["a function too few"] = { "int holdfast_parker_accept(holdfast_parker *parker);", "" },
    } do
        it("would not pass with " .. what, function ()
            assert.not_equal("", differences(HEADER, changed(CDEF, change[1], change[2])))
        end)
    end
end)


describe("constants", function ()
    it("are those of the header, each with its value", function ()
        local _, expected = declarations(HEADER)
        for name, value in HEADER:gmatch("\n#define HOLDFAST_([%u_]+) (%d+)") do
            expected[name] = tonumber(value)
        end
        assert.equal(1, expected.NOT_FOUND)
        assert.same(expected, constants)
    end)
end)
