-- What memory is in use, in bytes of each kind.

local ffi = require "ffi"

ffi.cdef [[
typedef struct { size_t arena, ordblks, smblks, hblks, mapped, usmblks, fsmblks, used, fordblks, keepcost; }
  holdfast_bench_heap;
holdfast_bench_heap mallinfo2(void);
]]

local _M = {}


-- Of the C heap. LuaJIT has a heap of its own.
local function native()
    local heap = ffi.C.mallinfo2()
    return tonumber(heap.used) + tonumber(heap.mapped)
end


-- lua: alive; native: what C and C++ have allocated; shared: of the dictionary.
function _M.used(dict)
    collectgarbage()
    collectgarbage()
    return {
        lua = collectgarbage("count") * 1024,
        native = native(),
        shared = dict:capacity() - dict:free_space(),
    }
end


return _M
