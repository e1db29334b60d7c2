-- The environment, ignored in a process with more rights than its caller (set-uid, set-gid, file capabilities):
-- os.getenv would let the caller choose the library.

local ffi = require "ffi"

local C, ffi_str = ffi.C, ffi.string
local pcall = pcall

local _M = {}

-- Our own name contradicts no other declaration. A second load of this file finds it declared.
pcall(ffi.cdef, 'char *holdfast_getenv(const char *name) __asm__("secure_getenv");')


-- The value of a variable, or nil.
function _M.get(name)
    local value = C.holdfast_getenv(name)
    return value ~= nil and ffi_str(value) or nil
end


return _M
