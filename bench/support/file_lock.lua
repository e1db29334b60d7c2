-- flock(2) with the interface of a lock module: a "dictionary" is a file, and the key does not matter. Whoever waits,
-- waits with the whole process.

local ffi = require "ffi"
local shared = require "bench.support.shared"

local C = ffi.C
local setmetatable = setmetatable

ffi.cdef "int flock(int file, int operation);"

local EXCLUSIVE, UNLOCK = 2, 8

local _M = {}
local mt = { __index = _M }


-- Each object has an open file of its own, and with it a lock of its own.
function _M.new(_, path)
    return setmetatable({ file = shared.open(path) }, mt)
end


-- A signal may interrupt it.
function _M.lock(self)
    for _ = 1, 100 do
        if C.flock(self.file, EXCLUSIVE) == 0 then
            return 0
        end
    end
    return nil, "flock failed"
end


function _M.unlock(self)
    if C.flock(self.file, UNLOCK) == 0 then
        return 1
    end
    return nil, "flock failed"
end


return _M
