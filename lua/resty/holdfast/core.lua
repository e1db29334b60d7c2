-- The one place that speaks to libholdfast: its declarations, the search for the library, the check that it fits, and
-- the constants and scratch memory that the other modules share.

local ffi = require "ffi"

local error = error
local getenv = os.getenv
local getmetatable = debug and debug.getmetatable or getmetatable  -- not what a __metatable pretends
local ipairs = ipairs
local open = io.open
local pcall = pcall
local tonumber = tonumber
local tostring = tostring
local type = type

local ffi_load = ffi.load
local ffi_new = ffi.new
local ffi_str = ffi.string

local _M = {
    -- HOLDFAST_ABI of the header that the declarations below were written for.
    ABI = 2,

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

    -- limits
    NAME_MAX = 64,
    KEY_MAX = 65535,
    SIZE_MIN = 12288,
}

local INFINITY = math.huge
local KEY_MAX = _M.KEY_MAX

local DECLARATIONS = [[
uint32_t holdfast_abi(void);
const char *holdfast_version(void);
const char *holdfast_error(void);
const char *holdfast_code_text(int code);
double holdfast_now(void);
const char *holdfast_directory(void);
int holdfast_parse_size(const char *text, size_t length, uint64_t *bytes);

typedef struct holdfast_dict holdfast_dict;

typedef struct holdfast_options {
  uint64_t size;
  int32_t mutex;
  int32_t persist;
  uint32_t mode;
} holdfast_options;

int holdfast_open(const char *name, size_t length, const holdfast_options *options, holdfast_dict **dict);
int holdfast_attach(const char *name, size_t length, holdfast_dict **dict);
int holdfast_remove(const char *name, size_t length);

typedef struct holdfast_value {
  int32_t type;
  uint32_t flags;
  double number;
  char *data;
  size_t capacity;
  size_t size;
} holdfast_value;

int holdfast_get(holdfast_dict *dict, const char *key, size_t key_length, holdfast_value *value);
int holdfast_get_stale(holdfast_dict *dict, const char *key, size_t key_length, holdfast_value *value, int *stale);
int holdfast_store(holdfast_dict *dict, int op, const char *key, size_t key_length, int type, const char *data,
                   size_t length, double number, double exptime, uint32_t flags, int *forcible);
int holdfast_cas(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_value *expected,
                 const holdfast_value *desired, double exptime, int *forcible);
int holdfast_delete(holdfast_dict *dict, const char *key, size_t key_length);
int holdfast_incr(holdfast_dict *dict, const char *key, size_t key_length, double by, int has_init, double init,
                  double init_ttl, double *sum, int *forcible);
int holdfast_ttl(holdfast_dict *dict, const char *key, size_t key_length, double *seconds);
int holdfast_expire(holdfast_dict *dict, const char *key, size_t key_length, double exptime);
int holdfast_flush_all(holdfast_dict *dict);
int holdfast_flush_expired(holdfast_dict *dict, uint32_t max, uint32_t *count);
int holdfast_push(holdfast_dict *dict, const char *key, size_t key_length, int end, int type, const char *data,
                  size_t length, double number, uint32_t *count);
int holdfast_pop(holdfast_dict *dict, const char *key, size_t key_length, int end, holdfast_value *value);
int holdfast_llen(holdfast_dict *dict, const char *key, size_t key_length, uint32_t *count);
int holdfast_keys(holdfast_dict *dict, uint32_t max, holdfast_value *keys, uint32_t *count);
int holdfast_scan(holdfast_dict *dict, uint64_t *cursor, uint32_t count, const char *prefix, size_t prefix_length,
                  holdfast_value *keys, uint32_t *found);

typedef struct holdfast_stats {
  uint64_t entries;
  uint64_t bytes_used;
  uint64_t bytes_free;
  uint64_t hits;
  uint64_t misses;
  uint64_t evictions;
  uint64_t expirations;
  uint64_t repairs;
  uint64_t mutex_waits;
} holdfast_stats;

int holdfast_dict_stats(holdfast_dict *dict, holdfast_stats *stats);
uint64_t holdfast_capacity(holdfast_dict *dict);
uint64_t holdfast_free_space(holdfast_dict *dict);

typedef struct holdfast_lease {
  uint64_t owner;
  uint64_t sequence;
} holdfast_lease;

int holdfast_lock_try(holdfast_dict *dict, const char *key, size_t key_length, double exptime, holdfast_lease *lease);
int holdfast_unlock(holdfast_dict *dict, const char *key, size_t key_length, holdfast_lease *lease);
int holdfast_lock_renew(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_lease *lease,
                        double exptime);
int holdfast_lock_remaining(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_lease *lease,
                            double *seconds);

typedef struct holdfast_parker holdfast_parker;

holdfast_parker *holdfast_parker_new(void);
void holdfast_parker_free(holdfast_parker *parker);
uint32_t holdfast_waiter_open(holdfast_parker *parker);
void holdfast_waiter_close(holdfast_parker *parker, uint32_t waiter);
int holdfast_lock_wait(holdfast_dict *dict, const char *key, size_t key_length, double exptime,
                       holdfast_parker *parker, uint32_t waiter, holdfast_lease *lease, double *pause);
int holdfast_lock_leave(holdfast_dict *dict, const char *key, size_t key_length, holdfast_parker *parker,
                        uint32_t waiter);
int holdfast_parker_sleep(holdfast_parker *parker, double seconds, uint32_t *waiters, int max);

int getpid(void);
]]

-- A second load of this file in one Lua state (package.loaded cleared) finds the types there.
if not pcall(ffi.typeof, "holdfast_lease") then
    ffi.cdef(DECLARATIONS)
end


local function readable(path)
    local file = open(path, "rb")
    if file then
        file:close()
    end
    return file ~= nil
end


-- The dynamic loader takes a name without a slash as one to look up in the system's folders.
local function as_path(name)
    if not name:find("/", 1, true) and readable(name) then
        return "./" .. name
    end
    return name
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
local function candidates()
    local found = {}
    for template in package.cpath:gmatch("[^;]+") do
        if template:find("?", 1, true) then
            found[#found + 1] = as_path((template:gsub("?", "libholdfast")))
        end
    end
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
        library, path = load_named(as_path(named))
    else
        library, path = search()
    end
    check_abi(library, path)
    return library, path
end


local C, path = load_library()

_M.C = C
-- Where the library was found.
_M.path = path
_M.version = ffi_str(C.holdfast_version())


-- A frame is what one call to the library writes to. A finaliser may run wherever Lua makes something, so also between
-- such a call and the reading of what it wrote, and may make calls of its own: they have frames of their own.
local frames = {}
local depth = 0

local BUFFER_SIZE = 4096


-- Out-parameters, and a value whose buffer grows to the longest that was read, and stays.
local function make_frame()
    local frame = {
        int = ffi_new("int[1]"),
        double = ffi_new("double[1]"),
        count = ffi_new("uint32_t[1]"),
        value = ffi_new("holdfast_value"),
        buffer = ffi_new("char[?]", BUFFER_SIZE),
    }
    frame.value.data = frame.buffer
    frame.value.capacity = BUFFER_SIZE
    return frame
end


-- Each enter has its leave. What is raised in between, for want of memory, costs a frame.
function _M.enter()
    depth = depth + 1
    local frame = frames[depth]
    if not frame then
        frame = make_frame()
        frames[depth] = frame
    end
    return frame
end


function _M.leave()
    depth = depth - 1
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
    [_M.BUSY] = "busy",
    [_M.REMOVED] = "dictionary not found",
    [_M.NOT_A_LIST] = "value not a list",
    [_M.IS_A_LIST] = "value is a list",
    [_M.DIFFERS] = "value differs",
}


-- What a call on a key reports for a code.
function _M.reason(code)
    return TEXTS[code] or sentence(code)
end


-- Whether this is a number of seconds that has an end: NaN and negative numbers are none.
function _M.is_duration(seconds)
    return type(seconds) == "number" and seconds >= 0 and seconds < INFINITY
end


-- How an error message names a value that is not acceptable.
function _M.describe(given)
    if type(given) == "number" then
        return tostring(given)
    end
    if type(given) == "string" then
        return '"' .. given .. '"'
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
