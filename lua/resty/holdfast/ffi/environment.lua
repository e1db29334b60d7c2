-- The environment, which counts for nothing in a process with rights that its caller does not have (set-uid, set-gid,
-- file capabilities): os.getenv would let the caller choose the library that is loaded there.

local ffi = require "ffi"

local C, ffi_str = ffi.C, ffi.string
local pcall = pcall

local _M = {}

-- Under a name of our own, which no other declaration contradicts. It is there already when this file is loaded twice.
pcall(ffi.cdef, 'char *holdfast_getenv(const char *name) __asm__("secure_getenv");')


-- The value of a variable, or nil.
function _M.get(name)
    local value = C.holdfast_getenv(name)
    return value ~= nil and ffi_str(value) or nil
end


return _M
