-- How long it takes to make and open a dictionary, and what memory it has then; and, in turns with it, to reserve and
-- map an empty file of that size in the same file system. One round: the dictionary's memory stays until this process
-- ends.

local clock = require "bench.support.clock"
local ffi = require "ffi"
local shdict = require "resty.shdict"

local C = ffi.C

ffi.cdef [[
int open(const char *path, int flags, ...);
int close(int file);
int posix_fallocate(int file, int64_t offset, int64_t length);
void *mmap(void *address, size_t length, int protection, int flags, int file, int64_t offset);
int munmap(void *address, size_t length);
]]

local O_RDWR, O_CREAT = 2, 64
local PROT_READ_WRITE, MAP_SHARED = 3, 1

local _M = {}


-- Milliseconds of the call: on the clock on the wall, and of this thread.
local function time(call, ...)
    local wall, cpu = clock.now(), clock.cpu()
    local result = assert(call(...))
    cpu = clock.cpu() - cpu
    return (clock.now() - wall) * 1000, cpu * 1000, result
end


-- The address.
local function reserve(path, bytes)
    local file = C.open(path, O_RDWR + O_CREAT, ffi.cast("int", 384))
    assert(file >= 0, "cannot make a file")
    assert(C.posix_fallocate(file, 0, bytes) == 0, "no room for the file")
    local address = C.mmap(nil, bytes, PROT_READ_WRITE, MAP_SHARED, file, 0)
    C.close(file)
    assert(ffi.cast("intptr_t", address) ~= -1, "cannot map the file")
    return address
end


local function bare(folder, bytes)
    local path = folder .. "/bare"
    local wall, cpu, address = time(reserve, path, bytes)
    C.munmap(address, bytes)
    os.remove(path)
    return { wall = wall, cpu = cpu }
end


-- What the file of the dictionary takes of the file system, in bytes.
local function memory_of(name)
    local pipe = assert(io.popen("du -B1 '" .. os.getenv("HOLDFAST_DIR") .. "/" .. name .. ".dict' 2>/dev/null"))
    local bytes = tonumber((pipe:read("*a"):match("^%d+")))
    pipe:close()
    return bytes or 0
end


local function dictionary(_, bytes)
    local wall, cpu, dict = time(shdict.open, "opening", { size = bytes, persist = false })
    local memory = memory_of("opening")
    local first = time(dict.set, dict, "key", 1)
    assert(shdict.remove("opening"))
    return { wall = wall, cpu = cpu, memory = memory, first = first }
end


function _M.run(host, options)
    -- The first one of a process also brings the process into its world.
    assert(shdict.open("bench_sync", { size = "100k", persist = false }))
    bare(options.folder, 4096)
    local spent = {}
    local order = options.round % 2 == 1 and { "dictionary", "bare" } or { "bare", "dictionary" }
    for _, which in ipairs(order) do
        spent[which] = (which == "bare" and bare or dictionary)(options.folder, options.bytes)
    end
    local mine, other = spent.dictionary, spent.bare
    host.emit("opening", mine.wall, mine.cpu, mine.first, mine.memory, other.wall, other.cpu)
end


return _M
