-- The one place that finds libholdfast: the search for it, the check that it fits, and the constants and scratch memory
-- that the other modules share.

local ffi = require "ffi"

require "resty.holdfast.ffi.cdef"

local error = error
local format = string.format
local getenv = require("resty.holdfast.ffi.environment").get
local getinfo = debug and debug.getinfo
local getmetatable = debug and debug.getmetatable or getmetatable  -- not what a __metatable pretends
local ipairs = ipairs
local open = io.open
local pcall = pcall
local rawget = rawget
local tonumber = tonumber
local tostring = tostring
local type = type

local ffi_cast = ffi.cast
local ffi_load = ffi.load
local ffi_new = ffi.new
local ffi_str = ffi.string

local _M = {
    -- HOLDFAST_ABI of the header that declarations.lua was written for.
    ABI = 5,

    -- holdfast_code
    OK = 0,
    NOT_FOUND = 1,
    EXISTS = 2,
    NO_MEMORY = 3,
    TIMEOUT = 4,
    NOT_A_NUMBER = 5,
    LOCKED = 6,
    NOT_OWNER = 7,
    TOO_LARGE = 8,
    BUFFER = 9,
    INVALID = 10,
    SYSTEM = 11,
    MISMATCH = 12,
    CORRUPT = 13,
    PERMISSION = 14,
    BUSY = 15,
    REMOVED = 16,
    NOT_A_LIST = 17,
    IS_A_LIST = 18,
    DIFFERS = 19,
    DEADLOCK = 20,

    -- holdfast_type
    NIL = 0,
    BOOLEAN = 1,
    NUMBER = 3,
    STRING = 4,
    TABLE = 5,

    -- holdfast_mutex
    MUTEX_FUTEX = 0,
    MUTEX_SPIN = 1,
    MUTEX_FILE = 2,

    -- holdfast_store_op
    SET = 0,
    ADD = 1,
    REPLACE = 2,
    SAFE_SET = 3,
    SAFE_ADD = 4,

    -- holdfast_end
    LEFT = 0,
    RIGHT = 1,

    -- holdfast_permits_kind
    RWLOCK = 0,
    SEMAPHORE = 1,
    ALL_PERMITS = 2 ^ 30,

    -- limits
    NAME_MAX = 250,
    KEY_MAX = 65535,
    SIZE_MIN = 12288,
    WHY_MAX = 127,
    HOLDERS_MAX = 4096,
}

local INFINITY = math.huge
local KEY_MAX = _M.KEY_MAX


local function readable(path)
    local file = open(path, "rb")
    if file then
        file:close()
    end
    return file ~= nil
end


-- Raises unless the library is one for these Lua files.
local function check_abi(library, path)
    local known, abi = pcall(function ()
        return tonumber(library.holdfast_abi())
    end)
    if not known then
        error("holdfast: " .. path .. " is not libholdfast: it has no holdfast_abi", 0)
    end
    if abi ~= _M.ABI then
        error("holdfast: these Lua files need a library of ABI " .. _M.ABI .. ", but " .. path .. " has ABI " .. abi, 0)
    end
end


local function load_named(path)
    local loaded, library = pcall(ffi_load, path)
    if not loaded then
        error("holdfast: cannot load the library that HOLDFAST_LIB names: " .. library, 0)
    end
    return library, path
end


-- The files that package.cpath has for libholdfast. A template without "?" (…/loadall.so) is of no use.
local function add_templates(found)
    for template in package.cpath:gmatch("[^;]+") do
        if template:find("?", 1, true) then
            local name = template:gsub("?", "libholdfast")
            -- The dynamic loader takes a name without a slash as one to look up in the system's folders.
            found[#found + 1] = name:find("/", 1, true) and name or "./" .. name
        end
    end
end


-- Where the library lies when these Lua files are those of an installation or of a checkout, so that who has found them
-- need not be told of a second path. The source's name is missing from files that were compiled and stripped.
local function add_neighbours(found)
    local folder = getinfo and getinfo(1, "S").source:match("^@(.*)resty/holdfast/core%.lua$")
    local prefix = folder and folder:match("^(.*)share/lua/5%.1/$")
    if prefix then
        found[#found + 1] = prefix .. "lib/lua/5.1/libholdfast.so"
    elseif folder then
        found[#found + 1] = folder .. "../build/libholdfast.so"
    end
end


local function candidates()
    local found = {}
    add_templates(found)
    add_neighbours(found)
    return found
end


local function search()
    local looked_at = {}
    for _, path in ipairs(candidates()) do
        if readable(path) then
            local loaded, library = pcall(ffi_load, path)
            if loaded then
                return library, path
            end
            looked_at[#looked_at + 1] = library
        else
            looked_at[#looked_at + 1] = path .. ": no such file"
        end
    end

    local loaded, library = pcall(ffi_load, "holdfast")
    if loaded then
        return library, "libholdfast.so"
    end
    looked_at[#looked_at + 1] = library
    error("holdfast: libholdfast is not found; HOLDFAST_LIB is not set, and these places were looked at:\n\t"
          .. table.concat(looked_at, "\n\t"), 0)
end


local function load_library()
    local named = getenv("HOLDFAST_LIB")
    local library, path
    if named and named ~= "" then
        library, path = load_named(named)
    else
        library, path = search()
    end
    check_abi(library, path)
    return library, path
end


local C, path = load_library()


-- An interpreter has one name, whatever it runs. The process tells others the name of its script instead, unless the
-- program has named itself. nginx and Neovim are programs of their own.
local function name_program()
    local script = not (rawget(_G, "ngx") or rawget(_G, "vim")) and rawget(_G, "arg")
    script = type(script) == "table" and rawget(script, 0)
    local name = type(script) == "string" and script:match("[^/]+$")
    if name and name ~= "-" then
        C.holdfast_name_program(name, #name)
    end
end
name_program()

_M.C = C
-- Where the library was found.
_M.path = path
_M.version = ffi_str(C.holdfast_version())


-- A frame is what one call to the library writes to. A finaliser may run wherever Lua makes something, so also between
-- such a call and the reading of what it wrote, and may make calls of its own: they have frames of their own. There are
-- more than can be in use at once: two of a call that makes a table, two of a finaliser in it, and two of a hook in
-- each. They are used in turns, so that what is raised between `enter` and `leave`, for want of stack or memory, costs
-- none.
local FRAMES = 8

local frames = {}
local depth = 0

local BUFFER_SIZE = 4096

local lengths_type = ffi.typeof("const uint32_t *")


-- Out-parameters, and a value whose buffer grows to the longest that was read, and stays.
local function make_frame()
    local frame = {
        int = ffi_new("int[1]"),
        double = ffi_new("double[1]"),
        count = ffi_new("uint32_t[1]"),
        count2 = ffi_new("uint32_t[1]"),
        value = ffi_new("holdfast_value"),
        buffer = ffi_new("char[?]", BUFFER_SIZE),
    }
    frame.value.data = frame.buffer
    frame.value.capacity = BUFFER_SIZE
    return frame
end


-- Each enter has its leave.
function _M.enter()
    depth = (depth + 1) % FRAMES
    local frame = frames[depth]
    if not frame then
        frame = make_frame()
        frames[depth] = frame
    end
    return frame
end


function _M.leave()
    depth = (depth - 1) % FRAMES
end


-- The keys that a call packed into the frame as "length, bytes, length, bytes, ...".
function _M.unpack_keys(frame)
    local keys = {}
    local packed = frame.value.data
    for i = 1, frame.count[0] do
        local length = ffi_cast(lengths_type, packed)[0]
        keys[i] = ffi_str(packed + 4, length)
        packed = packed + 4 + length
    end
    return keys
end


-- Makes room for what did not fit.
function _M.grow(frame)
    local value = frame.value
    local size, capacity = tonumber(value.size), tonumber(value.capacity)
    while capacity < size do
        capacity = capacity * 2
    end
    frame.buffer = ffi_new("char[?]", capacity)
    value.data = frame.buffer
    value.capacity = capacity
end


-- The sentence of the call that just failed.
local function sentence(code)
    local text = ffi_str(C.holdfast_error())
    if text == "" then
        return ffi_str(C.holdfast_code_text(code))
    end
    return text
end
_M.sentence = sentence


-- Strings that callers compare. A value that can never fit is "no memory" in ngx.shared, too.
local TEXTS = {
    [_M.NOT_FOUND] = "not found",
    [_M.EXISTS] = "exists",
    [_M.NO_MEMORY] = "no memory",
    [_M.TIMEOUT] = "timeout",
    [_M.NOT_A_NUMBER] = "not a number",
    [_M.NOT_OWNER] = "not owner",
    [_M.TOO_LARGE] = "no memory",
    [_M.REMOVED] = "dictionary not found",
    [_M.NOT_A_LIST] = "value not a list",
    [_M.IS_A_LIST] = "value is a list",
    [_M.DIFFERS] = "value differs",
    [_M.DEADLOCK] = "deadlock",
}


-- What a call on a key reports for a code.
function _M.reason(code)
    return TEXTS[code] or sentence(code)
end


-- Keeps the process alive when somebody cuts a dictionary's file short: holdfast_guard_sigbus in holdfast.h. For hosts
-- that want it, as nginx in init_by_lua; `holdfast run` has it. True, or nil and a sentence.
function _M.guard_sigbus()
    local code = C.holdfast_guard_sigbus()
    if code ~= _M.OK then
        return nil, sentence(code)
    end
    return true
end


-- Whether this is a number of seconds that has an end: NaN and negative numbers are none.
function _M.is_duration(seconds)
    return type(seconds) == "number" and seconds >= 0 and seconds < INFINITY
end


local function escape(bytes)
    return (bytes:gsub(".", function (byte) return format("\\x%02X", byte:byte()) end))
end


-- A text in quotes, for messages and logs: control characters, those of UTF-8 too, as \xXX.
local function quote(text)
    return '"' .. text:gsub("[%c%z]", escape):gsub("\194[\128-\159]", escape) .. '"'
end
_M.quote = quote


-- How an error message names a value that is not acceptable.
function _M.describe(given)
    if type(given) == "number" then
        return tostring(given)
    end
    if type(given) == "string" then
        return quote(given)
    end
    return type(given)
end


-- tostring of anything else gives an address, which means nothing to another process. It gives whatever a __tostring
-- returns; what is no string is no key.
local function convert_key(key)
    local kind = type(key)
    if kind == "number" or kind == "boolean" then
        return tostring(key)
    end
    if kind == "cdata" then
        return tonumber(key) and tostring(key)
    end
    local metatable = getmetatable(key)
    local text = type(metatable) == "table" and metatable.__tostring and tostring(key)
    return type(text) == "string" and text
end


-- The key as a string of acceptable length; nil and the reason for anything else.
function _M.key_string(key)
    if type(key) ~= "string" then
        if key == nil then
            return nil, "nil key"
        end
        key = convert_key(key)
        if not key then
            return nil, "bad key type"
        end
    end
    local length = #key
    if length == 0 then
        return nil, "empty key"
    end
    if length > KEY_MAX then
        return nil, "key too long"
    end
    return key
end


return _M
