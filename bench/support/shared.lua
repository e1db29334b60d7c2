-- Memory that several processes share without the library: a file that each of them maps.

local ffi = require "ffi"

local C = ffi.C

ffi.cdef [[
int open(const char *path, int flags, ...);
int close(int file);
int ftruncate(int file, long length);
void *mmap(void *address, size_t length, int protection, int flags, int file, long offset);
]]

local O_RDWR_CREATE = 0x42
local READ_WRITE, SHARED = 3, 1

local _M = {}


-- A new or old file, open for reading and writing.
function _M.open(path)
    local file = C.open(path, O_RDWR_CREATE, ffi.cast("int", tonumber("600", 8)))
    assert(file >= 0, "cannot open " .. path)
    return file
end


-- A pointer to the type that lies at the beginning of the file; zero where nobody has written yet. The mapping stays
-- until the process ends.
function _M.map(path, type)
    local file = _M.open(path)
    local size = ffi.sizeof(type)
    assert(C.ftruncate(file, size) == 0, "no room for " .. path)
    local address = C.mmap(nil, size, READ_WRITE, SHARED, file, 0)
    C.close(file)
    assert(ffi.cast("intptr_t", address) ~= -1, "cannot map " .. path)
    return ffi.cast(type .. " *", address)
end


return _M
