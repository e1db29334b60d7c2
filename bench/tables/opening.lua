-- The time that the creation of a dictionary takes, compared with the kernel's part of the work.

local clock, process, report, runs, stats = require "bench.support" ("clock", "process", "report", "runs", "stats")
local ffi = require "ffi"

local _M = {}


-- --- measured in new processes ---------------------------------------------------------------------------------
--
-- Measures how long it takes to create and open a dictionary, and the memory that the dictionary then occupies. Also
-- measures how long it takes to reserve and map an empty file of the same size in the same file system. Makes only one
-- round, because the dictionary's memory stays until this process ends.

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


-- Returns the milliseconds of the call: elapsed time, and processor time of this thread.
local function time(call, ...)
    local wall, cpu = clock.now(), clock.cpu()
    local result = assert(call(...))
    cpu = clock.cpu() - cpu
    return (clock.now() - wall) * 1000, cpu * 1000, result
end


-- Returns the address.
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


-- Returns the bytes that the dictionary's file occupies in the file system.
local function memory_of(name)
    local pipe = assert(io.popen("du -B1 '" .. os.getenv("HOLDFAST_DIR") .. "/" .. name .. ".dict' 2>/dev/null"))
    local bytes = tonumber((pipe:read("*a"):match("^%d+")))
    pipe:close()
    return bytes or 0
end


local function dictionary(_, bytes)
    local shdict = require "resty.shdict"
    local wall, cpu, dict = time(shdict.open, "opening", { size = bytes, persist = false })
    local memory = memory_of("opening")
    local first = time(dict.set, dict, "key", 1)
    assert(shdict.remove("opening"))
    return { wall = wall, cpu = cpu, memory = memory, first = first }
end


function _M.run(host, options)
    local shdict = require "resty.shdict"
    -- A process joins the runtime directory with its first call.
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


-- --- the table ----------------------------------------------------------------------------------------------

local NONE = report.NONE
local MEGABYTE = 1024 * 1024
local TARGET = 5

-- The name, the bytes, the number of rounds and, from 1 GB on, the target for the call in milliseconds.
local SIZES = {
    { "12k", 12 * 1024, 20 },
    { "1m", MEGABYTE, 20 },
    { "64m", 64 * MEGABYTE, 10 },
    { "1g", 1024 * MEGABYTE, 9, TARGET },
    { "8g", 8192 * MEGABYTE, 2, TARGET },
}
-- The positions of the values in a round's line.
local WALL, CPU, FIRST, MEMORY, BARE_WALL = 2, 3, 4, 5, 6


-- Returns whether both the file system and the machine's memory have ample room for the dictionary.
local function has_room(context, bytes)
    local free = process.output("df --output=avail -B1 " .. process.quote(context.folder) .. " | tail -n 1")
    local available = process.output("sed -n 's/^MemAvailable: *\\([0-9]*\\) kB$/\\1/p' /proc/meminfo")
    return (tonumber(free) or 0) > bytes * 1.5 and (tonumber(available) or 0) * 1024 > bytes * 1.5
end


-- Formats "1.2 ms (1.1)": the median, and the minimum.
local function milliseconds(times)
    return ("%s ms (%s)"):format(report.digits(stats.median(times)), report.digits(stats.percentile(times, 0)))
end


local function row(context, name, bytes, rounds, target)
    local wanted = target and "<= " .. target .. " ms" or NONE
    if not has_room(context, bytes) then
        return { name, "no room", NONE, NONE, NONE, NONE, wanted, NONE }
    end
    local lists = {}
    for round = 1, context.quick and 2 or rounds do
        local lines, err = runs.here(context, "bench/tables/opening", { bytes = bytes, round = round })
        local words = runs.find(lines, "opening")
        if not words then
            return { name, runs.failed(err), NONE, NONE, NONE, NONE, wanted, NONE }
        end
        for place = WALL, #words do
            lists[place] = lists[place] or {}
            table.insert(lists[place], words[place])
        end
    end
    return { name, milliseconds(lists[WALL]), report.digits(stats.median(lists[CPU])) .. " ms",
             report.digits(stats.median(lists[FIRST]) * 1000) .. " µs",
             ("%.0f %%"):format(stats.median(lists[MEMORY]) / bytes * 100), milliseconds(lists[BARE_WALL]), wanted,
             target and report.distance(stats.median(lists[WALL]), target) or NONE }
end


function _M.make(context)
    local sizes = context.quick and { unpack(SIZES, 1, 3) } or SIZES -- sizes below 1 GB
    return {
        title = "Opening a new dictionary",
        headings = { "size", "open, in the caller", "of this, processor time", "first set", "memory occupied then",
                     "an empty file, reserved", "target", "distance" },
        rows = stats.map(sizes, function (size) return row(context, unpack(size)) end),
        note = "The median (and the minimum) of the rounds, each of which runs in a new process.",
    }
end


return _M
