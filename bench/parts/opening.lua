-- How long it takes to make and open a dictionary; and, in turns with it, to reserve and map an empty file of that size
-- in the same file system. One round: the dictionary's memory stays until this process ends.

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


-- Milliseconds of processor time, nearly all of it in the kernel.
local function bare(folder, bytes)
    local path = folder .. "/bare"
    local start = clock.cpu()
    local file = C.open(path, O_RDWR + O_CREAT, ffi.cast("int", 384))
    assert(file >= 0, "cannot make a file")
    assert(C.posix_fallocate(file, 0, bytes) == 0, "no room for the file")
    local address = C.mmap(nil, bytes, PROT_READ_WRITE, MAP_SHARED, file, 0)
    C.close(file)
    local spent = (clock.cpu() - start) * 1000
    assert(ffi.cast("intptr_t", address) ~= -1, "cannot map the file")
    C.munmap(address, bytes)
    os.remove(path)
    return spent
end


local function dictionary(_, bytes)
    local start = clock.cpu()
    assert(shdict.open("opening", { size = bytes }))
    local spent = (clock.cpu() - start) * 1000
    assert(shdict.remove("opening"))
    return spent
end


function _M.run(host, options)
    -- The first one of a process also brings the process into its world.
    assert(shdict.open("bench_sync", { size = "100k" }))
    bare(options.folder, 4096)
    local spent = {}
    local order = options.round % 2 == 1 and { "dictionary", "bare" } or { "bare", "dictionary" }
    for _, which in ipairs(order) do
        spent[which] = (which == "bare" and bare or dictionary)(options.folder, options.bytes)
    end
    host.emit("opening", spent.dictionary, spent.bare)
end


return _M
