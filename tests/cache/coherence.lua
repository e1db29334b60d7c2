-- Reads values of a cache in several processes, while other processes set and delete them and are killed at random. No
-- read that began after set() or delete() returned may find an older value.
--   luajit tests/cache/coherence.lua [reads [fault]]
-- Prints the counts. Exits with 1 if a read found an older value, or a value that nobody had set yet. `fault` names an
-- entry of FAULTS below, which is planted first. Needs HOLDFAST_LIB and HOLDFAST_DIR.

local reads, fault = tonumber(arg[1]) or 1e8, arg[2]
local READERS, WRITERS, KEYS = 3, 2, { "one", "two", "three", "four" }
-- The values of each key are 1, 2, 3, and so on. A multiple of this number stands for a delete.
local DELETES = 16
-- The maximum number of changes to a key without a pause, and the maximum length of a pause.
local MOST_CHANGES, MOST_MICROSECONDS = 20, 200

-- Replaces a piece of a module's text before the module is loaded.
local FAULTS = {
    ["no comparison"] = { "cache", "entry and is_fresh(self, entry)", "entry" },
    ["version read after the value"] = {
        "cache.entries", "local number, stripe, ends = tonumber(version[0].number)",
        "C.holdfast_key_version(dict[1], cache.prefix .. key, #cache.prefix + #key, version) "
        .. "local number, stripe, ends = tonumber(version[0].number)" },
}

if fault then
    local room, old, new = unpack((assert(FAULTS[fault], "no such fault")))
    local module = "resty.holdfast." .. room
    package.preload[module] = function ()
        local file = assert(io.open(assert(package.searchpath(module, package.path))))
        local text = file:read("*a")
        file:close()
        local first, last = text:find(old, 1, true)
        assert(first, "the fault does not fit the module")
        return assert(loadstring(text:sub(1, first - 1) .. new .. text:sub(last + 1), module))()
    end
end

local ffi = require "ffi"
local resty_cache = require "resty.holdfast.cache"
local shdict = require "resty.shdict"

ffi.cdef [[
int fork(void);
int kill(int pid, int signal);
int waitpid(int pid, int *status, int options);
int getpid(void);
int usleep(unsigned microseconds);
int prctl(int option, ...);
void _exit(int status);
]]

local C, KILL, WNOHANG, PDEATHSIG = ffi.C, 9, 1, 1
local floor = math.floor

local name = "coherence" .. C.getpid()
local cache = assert(resty_cache.new("coherence", name, { size = "1m", ttl = 0 }))
-- For each key, the last value whose set() or delete() has returned. Also holds the totals of all readers.
local done = assert(shdict.open(name .. ".done", { size = "100k", persist = false }))


-- Runs fn in a child, which is killed if this process ends first.
local function fork(fn, ...)
    local pid = C.fork()
    if pid == 0 then
        C.prctl(PDEATHSIG, ffi.cast("unsigned long", KILL))
        math.randomseed(C.getpid())
        local ok, err = pcall(fn, ...)
        if not ok then
            done:set("failed", tostring(err))
        end
        C._exit(ok and 0 or 1)
    end
    return pid
end


-- A killed process keeps its mutexes until it is really dead, so a call may return "timeout". Repeats the call.
local function repeated(object, method, ...)
    local ok, err
    repeat
        ok, err = object[method](object, ...)
        assert(ok or err == "timeout", err)
    until ok
end


local function change(key, value)
    if value % DELETES == 0 then
        repeated(cache, "delete", key)
    else
        repeated(cache, "set", key, nil, value)
    end
    repeated(done, "set", key, value)
end


-- Changes the keys first, first + WRITERS, and so on until it is killed. Makes many changes without a pause, so that
-- readers are often in the middle of a read. If the previous writer was killed, it may have made a change that it did
-- not record, so this writer skips one value.
local function write(first)
    local values = {}
    for i = first, #KEYS, WRITERS do
        values[i] = done:get(KEYS[i]) + 1
    end
    while true do
        for i = first, #KEYS, WRITERS do
            for _ = 1, math.random(MOST_CHANGES) do
                values[i] = values[i] + 1
                change(KEYS[i], values[i])
            end
        end
        C.usleep(math.random(0, MOST_MICROSECONDS))
    end
end


-- Returns "right", "old" or "early" (nobody has set the value yet) for a value that a read found. `least` was recorded
-- before the read. `most` is the last value that may have been set by the end of the read.
local function judge(value, least, most)
    if value == nil then
        return floor(most / DELETES) == floor((least - 1) / DELETES) and "old" or "right"
    end
    return value < least and "old" or value > most and "early" or "right"
end


local function read(count)
    local found, failed = { old = 0, early = 0, right = 0 }, 0
    for i = 1, count do
        local key = KEYS[i % #KEYS + 1]
        local least = done:get(key)
        local value, err = cache:get(key)
        if value ~= least then
            local most = done:get(key)
            if err or not least or not most then
                failed = failed + 1
            else
                local what = judge(value, least, most + 2)
                found[what] = found[what] + 1
            end
        end
    end
    local stats = cache:stats()
    for what, number in pairs { old = found.old, early = found.early, failed = failed, copies = stats.l1_hits } do
        done:incr(what, number, 0)
    end
end


math.randomseed(tonumber(os.getenv("SEED")) or os.time())
for _, key in ipairs(KEYS) do
    assert(cache:set(key, nil, 1))
    assert(done:set(key, 1))
end
local readers, writers, kills = {}, {}, 0
for i = 1, WRITERS do
    writers[i] = fork(write, i)
end
for _ = 1, READERS do
    readers[fork(read, math.ceil(reads / READERS))] = true
end
while next(readers) do
    C.usleep(math.random(0, 50000))
    local i = math.random(WRITERS)
    C.kill(writers[i], KILL)
    C.waitpid(writers[i], nil, 0)
    writers[i] = fork(write, i)
    kills = kills + 1
    for pid in pairs(readers) do
        readers[pid] = C.waitpid(pid, nil, WNOHANG) == 0 or nil
    end
end
for i = 1, WRITERS do
    C.kill(writers[i], KILL)
    C.waitpid(writers[i], nil, 0)
end

local changes = 0
for _, key in ipairs(KEYS) do
    changes = changes + done:get(key)
end
local old, early, failed = done:get("old"), done:get("early"), done:get("failed")
print(("%d changes, %d kills, %.0f reads, %.0f of them from copies")
      :format(changes, kills, reads, done:get("copies") or 0))
print(("of a process that was dying, without an answer: %s"):format(failed))
print(("before they were set: %s"):format(early))
print(("older than a value that was set before: %s"):format(old))
shdict.remove(name)
shdict.remove(name .. ".done")
os.exit(old == 0 and early == 0 and type(failed) == "number" and 0 or 1)
