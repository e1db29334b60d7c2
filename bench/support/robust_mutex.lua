-- A pthread mutex, robust and shared between processes, with the interface of a lock module: a "dictionary" is a file,
-- and the key does not matter. Whoever waits, waits with the whole process.

local ffi = require "ffi"
local file_lock = require "bench.support.file_lock"
local shared = require "bench.support.shared"

local C = ffi.C
local setmetatable = setmetatable

ffi.cdef [[
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

local PROCESS_SHARED, ROBUST = 1, 1

local _M = {}
local mt = { __index = _M }


local function make(memory)
    assert(C.pthread_mutexattr_init(memory.attributes) == 0
           and C.pthread_mutexattr_setpshared(memory.attributes, PROCESS_SHARED) == 0
           and C.pthread_mutexattr_setrobust(memory.attributes, ROBUST) == 0
           and C.pthread_mutex_init(memory.mutex, memory.attributes) == 0, "cannot make a robust mutex")
    memory.ready = 1
end


-- Whoever comes first makes the mutex.
function _M.new(_, path)
    local memory = shared.map(path, "holdfast_bench_mutex")
    local making = file_lock:new(path)
    assert(making:lock())
    if memory.ready == 0 then
        make(memory)
    end
    assert(making:unlock())
    return setmetatable({ mutex = ffi.cast("void *", memory.mutex) }, mt)
end


function _M.lock(self)
    local code = C.pthread_mutex_lock(self.mutex)
    if code == 0 then
        return 0
    end
    return nil, "pthread_mutex_lock: error " .. code
end


function _M.unlock(self)
    local code = C.pthread_mutex_unlock(self.mutex)
    if code == 0 then
        return 1
    end
    return nil, "pthread_mutex_unlock: error " .. code
end


return _M
