-- Calls of dictionary methods, with good and bad arguments for each method of ngx.shared.DICT. A call is a table with
-- `method`, the arguments and their number `n`, and `receiver` if it is not the dictionary.

local ffi = require "ffi"

local LONG = ("k"):rep(65535)
local NAN = 0 / 0

local named = setmetatable({}, { __tostring = function () return "a name" end })

local function pack(...)
    return { n = select("#", ...), ... }
end

-- Lists that contain nil have a field with their length.
local KEYS = pack(nil, "", "other", "a\0b", "\255", LONG, LONG .. "k", 12, 1.5, -0.5, 1e15, 1e100, NAN, math.huge, true,
                  false, 5LL, {}, named, print, io.stdout, coroutine.create(function () end), ffi.new("void *"))
local VALUES = pack("", "text", "a\0b", "12345678", ("v"):rep(5000), ("v"):rep(60000), 0, -1.5, 1e300, NAN, -math.huge,
                    true, false, nil, {}, named, print, 5LL, io.stdout, coroutine.create(function () end),
                    ffi.new("void *"))
local EXPTIMES = pack(nil, false, 0, 0.5, 100, 1e7, -1, -0.001, "1", "x", {}, true, NAN, math.huge, 5LL)
local FLAGS = pack(nil, false, 0, 1, 255, 2147483647, 2147483648, 4294967295, 4294967296, -1, 1.5, NAN, "7", "x", {},
                   true)
local NUMBERS = pack(0, 1, -1, 0.5, 1e300, math.huge, NAN, "2", " 0x10 ", "1e2", "x", "", nil, true, {}, print, 5LL)
local INITS = pack(nil, false, 0, 10, -0.5, math.huge, "5", "x", true, {}, print)
local TTLS = pack(nil, 0, 0.5, 100, -1, "100", "x", true, {}, false, math.huge, NAN)
local COUNTS = pack(nil, 0, 1, 2, 1000, -1, 0.5, 1.5, "1", "x", {}, true, NAN)
-- No table contains userdata of another kind, because nginx would crash.
local RECEIVERS = pack(nil, "key", 1, true, {}, { 1 }, { "x" }, { {} }, print, io.stdout)

local calls = {}


local function add(method, ...)
    calls[#calls + 1] = { method = method, n = select("#", ...), ... }
end


for _, method in ipairs { "set", "safe_set", "add", "safe_add", "replace" } do
    add(method)
    for i = 1, KEYS.n do add(method, KEYS[i], "new") end
    for i = 1, VALUES.n do
        add(method, "key", VALUES[i])
        add(method, "key", VALUES[i], 100, 7)
    end
    for i = 1, EXPTIMES.n do add(method, "key", "new", EXPTIMES[i]) end
    for i = 1, FLAGS.n do add(method, "key", "new", 0, FLAGS[i]) end
    add(method, nil, nil, -1)
    add(method, "key", nil, 1)
    add(method, "", {}, 1)
    add(method, "key", "new", 0, 0, "one too many")
end

for _, method in ipairs { "get", "get_stale", "delete", "ttl", "lpop", "rpop", "llen" } do
    add(method, "key")
    for i = 1, KEYS.n do add(method, KEYS[i]) end
end

for i = 1, KEYS.n do add("incr", KEYS[i], 1, 0) end
for i = 1, NUMBERS.n do
    add("incr", "key", NUMBERS[i])
    add("incr", "key", NUMBERS[i], 10)
end
for i = 1, INITS.n do add("incr", "key", 1, INITS[i]) end
for i = 1, TTLS.n do
    add("incr", "key", 1, 10, TTLS[i])
    add("incr", "key", 1, nil, TTLS[i])
end

for i = 1, KEYS.n do add("expire", KEYS[i], 1) end
for i = 1, EXPTIMES.n do add("expire", "key", EXPTIMES[i]) end

for _, method in ipairs { "lpush", "rpush" } do
    for i = 1, KEYS.n do add(method, KEYS[i], "new") end
    for i = 1, VALUES.n do add(method, "key", VALUES[i]) end
end

for _, method in ipairs { "get_keys", "flush_expired" } do
    add(method)
    for i = 1, COUNTS.n do add(method, COUNTS[i]) end
end

for _, method in ipairs { "lpush", "rpush" } do
    add(method)
    add(method, "key")
    add(method, "key", "new", "one too many")
end
for _, method in ipairs { "get", "get_stale", "delete", "ttl", "lpop", "rpop", "llen" } do
    add(method)
    add(method, "key", "one too many")
end
add("incr", "key")
add("incr", "key", 1, 10, 100, "one too many")
add("expire", "key")
add("expire", "key", 1, "one too many")
add("get_keys", 1, 1)
add("flush_expired", 1, 1)
add("flush_all", 1)
add("capacity", 1)

add("flush_all")
add("capacity")
add("free_space")

-- The arguments after the key in the shortest valid call.
local SHORT = {
    get = 0, get_stale = 0, delete = 0, ttl = 0, lpop = 0, rpop = 0, llen = 0, flush_all = -1, flush_expired = -1,
    get_keys = -1, capacity = -1, free_space = -1,
}

-- Calls with a dot, and with receivers that are not dictionaries.
for _, method in ipairs {
    "get", "get_stale", "set", "safe_set", "add", "safe_add", "replace", "delete", "incr", "ttl", "expire", "lpush",
    "rpush", "lpop", "rpop", "llen", "flush_all", "flush_expired", "get_keys", "capacity", "free_space",
} do
    for i = 1, RECEIVERS.n do
        calls[#calls + 1] = {
            method = method, n = 1 + (SHORT[method] or 1), "key", 1, wrong_receiver = true, receiver = RECEIVERS[i],
        }
    end
end

return calls
