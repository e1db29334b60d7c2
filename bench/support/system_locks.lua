-- The means of the operating system for processes that share a file: mapped memory, futexes, flock(2), and robust
-- pthread mutexes. The two kinds of locks have the interface of a lock module: a "dictionary" is a file, and the key is
-- ignored. A waiter blocks its whole process.

local ffi = require "ffi"

local C = ffi.C
local setmetatable = setmetatable

ffi.cdef [[
int open(const char *path, int flags, ...);
int close(int file);
int ftruncate(int file, long length);
void *mmap(void *address, size_t length, int protection, int flags, int file, long offset);
int flock(int file, int operation);
long syscall(long number, ...);
typedef struct {
  int32_t ready;                      // nonzero: the mutex is made
  int64_t attributes[2], mutex[8];    // more than any C library needs
} holdfast_bench_mutex;
int pthread_mutexattr_init(void *attributes);
int pthread_mutexattr_setpshared(void *attributes, int shared);
int pthread_mutexattr_setrobust(void *attributes, int robust);
int pthread_mutex_init(void *mutex, const void *attributes);
int pthread_mutex_lock(void *mutex);
int pthread_mutex_unlock(void *mutex);
]]

local O_RDWR_CREATE = 0x42
local READ_WRITE, SHARED = 3, 1
local EXCLUSIVE, UNLOCK = 2, 8
local PROCESS_SHARED, ROBUST = 1, 1
local FUTEX = ({ x64 = 202, arm64 = 98 })[jit.arch]
local FUTEX_WAIT, FUTEX_WAKE = 0, 1

local _M = {}


-- Opens a new or existing file for reading and writing.
local function open(path)
    local file = C.open(path, O_RDWR_CREATE, ffi.cast("int", tonumber("600", 8)))
    assert(file >= 0, "cannot open " .. path)
    return file
end


-- Returns a pointer of this type to the beginning of the file, whose memory is zero until a process writes to it. The
-- mapping lasts until the process ends.
function _M.map(path, type)
    local file = open(path)
    local size = ffi.sizeof(type)
    assert(C.ftruncate(file, size) == 0, "no room for " .. path)
    local address = C.mmap(nil, size, READ_WRITE, SHARED, file, 0)
    C.close(file)
    assert(ffi.cast("intptr_t", address) ~= -1, "cannot map " .. path)
    return ffi.cast(type .. " *", address)
end


-- --- futexes -------------------------------------------------------------------------------------------
--
-- Calls fail if has_futexes is false. `word` is a pointer to an int32_t.

_M.has_futexes = FUTEX ~= nil


local function futex(word, operation, value)
    C.syscall(ffi.cast("long", FUTEX), word, ffi.cast("int", operation), ffi.cast("int", value), nil, nil,
              ffi.cast("int", 0))
end


-- Sleeps until wake() is called, or for a shorter time; does not sleep if the word differs from `value`.
function _M.sleep(word, value)
    futex(word, FUTEX_WAIT, value)
end


function _M.wake(word)
    futex(word, FUTEX_WAKE, 1)
end


-- --- flock(2) ------------------------------------------------------------------------------------------

local Flock = {}
_M.flock = Flock
local flock_mt = { __index = Flock }


-- Each object opens the file itself, so it has its own lock.
function Flock.new(_, path)
    return setmetatable({ file = open(path) }, flock_mt)
end


-- Repeats the call, because a signal may interrupt it.
function Flock.lock(self)
    for _ = 1, 100 do
        if C.flock(self.file, EXCLUSIVE) == 0 then
            return 0
        end
    end
    return nil, "flock failed"
end


function Flock.unlock(self)
    if C.flock(self.file, UNLOCK) == 0 then
        return 1
    end
    return nil, "flock failed"
end


-- --- the robust mutex ----------------------------------------------------------------------------------

local RobustMutex = {}
_M.robust_mutex = RobustMutex
local robust_mt = { __index = RobustMutex }


local function make(memory)
    assert(C.pthread_mutexattr_init(memory.attributes) == 0
           and C.pthread_mutexattr_setpshared(memory.attributes, PROCESS_SHARED) == 0
           and C.pthread_mutexattr_setrobust(memory.attributes, ROBUST) == 0
           and C.pthread_mutex_init(memory.mutex, memory.attributes) == 0, "cannot make a robust mutex")
    memory.ready = 1
end


-- The first process creates the mutex.
function RobustMutex.new(_, path)
    local memory = _M.map(path, "holdfast_bench_mutex")
    local making = Flock:new(path)
    assert(making:lock())
    if memory.ready == 0 then
        make(memory)
    end
    assert(making:unlock())
    return setmetatable({ mutex = ffi.cast("void *", memory.mutex) }, robust_mt)
end


local function answer(code, done)
    if code == 0 then
        return done
    end
    return nil, "the robust mutex: error " .. code
end


function RobustMutex.lock(self)
    return answer(C.pthread_mutex_lock(self.mutex), 0)
end


function RobustMutex.unlock(self)
    return answer(C.pthread_mutex_unlock(self.mutex), 1)
end


return _M
