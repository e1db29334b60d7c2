-- Errors in words: strings that callers compare, and sentences of the library.

local constants = require("resty.holdfast.ffi.header").constants
local ffi = require "ffi"
local C = require("resty.holdfast.ffi.library").C

local ffi_str = ffi.string

local OK = constants.OK

local _M = {}


-- The sentence of the call that just failed.
local function sentence(code)
    local text = ffi_str(C.holdfast_error())
    if text == "" then
        return ffi_str(C.holdfast_code_text(code))
    end
    return text
end
_M.sentence = sentence


-- Strings that callers compare. For a value that can never fit ngx.shared says "no memory", too.
local TEXTS = {
    [constants.NOT_FOUND] = "not found",
    [constants.EXISTS] = "exists",
    [constants.NO_MEMORY] = "no memory",
    [constants.TIMEOUT] = "timeout",
    [constants.NOT_A_NUMBER] = "not a number",
    [constants.NOT_OWNER] = "not owner",
    [constants.TOO_LARGE] = "no memory",
    [constants.REMOVED] = "dictionary not found",
    [constants.NOT_A_LIST] = "value not a list",
    [constants.IS_A_LIST] = "value is a list",
    [constants.DIFFERS] = "value differs",
    [constants.DEADLOCK] = "deadlock",
    [constants.UNAVAILABLE] = "unavailable",
    [constants.UNSUPPORTED] = "not supported in a cluster dictionary",
}


-- What a call on a key reports for a code.
function _M.reason(code)
    return TEXTS[code] or sentence(code)
end


-- The value, after a call that succeeded; otherwise nil and the reason.
function _M.answer(code, value)
    if code == OK then
        return value
    end
    return nil, TEXTS[code] or sentence(code)
end


return _M
