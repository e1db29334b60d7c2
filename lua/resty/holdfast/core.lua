-- What all modules share of ffi/, as one table: the library `C`, its constants and errors, scratch memory, and the
-- checks of arguments.

local errors = require "resty.holdfast.ffi.errors"
local library = require "resty.holdfast.ffi.library"

local _M = {}

for _, part in ipairs {
    require("resty.holdfast.ffi.header").constants, library, errors, require "resty.holdfast.ffi.scratch",
    require "resty.holdfast.ffi.arguments",
} do
    for name, value in pairs(part) do
        _M[name] = value
    end
end


-- Keeps the process alive when a dictionary's file is cut short: holdfast_guard_sigbus in holdfast.h. For hosts that
-- want it, as nginx in init_by_lua; `holdfast run` has it. True, or nil and a sentence.
function _M.guard_sigbus()
    local code = library.C.holdfast_guard_sigbus()
    if code ~= _M.OK then
        return nil, errors.sentence(code)
    end
    return true
end


return _M
