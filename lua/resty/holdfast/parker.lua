-- Where this Lua state sleeps: one parker, made when it is first needed, and who is to be told of which waiter's
-- wake-up. Whoever sleeps here, our scheduler or a blocked process, delivers the wake-ups of all.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C = core.C
local error = error
local ffi_gc = ffi.gc
local ffi_new = ffi.new
local getpid = ffi.C.getpid
local min = math.min
local next = next
local sentence = core.sentence
local SYSTEM = core.SYSTEM

local _M = {}

-- Longer sleeps than this are made of several.
local LONGEST = 86400

local MAX_WOKEN = 64
local woken = ffi_new("uint32_t[?]", MAX_WOKEN)

local parker
local parker_pid

-- Waiter number to an object with a method wake.
local listeners = {}


-- Also when the Lua state is closed, before or after the finalisers of those that still have waiters here.
local function free(old)
    if old == parker then
        parker = nil
        parker_pid = nil
    end
    C.holdfast_parker_free(old)
end


-- The parker, or nil and the reason. A forked child makes its own, and is told nothing of its parent's waiters.
function _M.get()
    local pid = getpid()
    if parker_pid ~= pid then
        local new = C.holdfast_parker_new()
        if new == nil then
            return nil, sentence(SYSTEM)
        end
        parker = ffi_gc(new, free)
        parker_pid = pid
        listeners = {}
    end
    return parker
end


-- Whether what the caller got from get() is still the one: not freed, and not that of a parent process.
function _M.is_mine(other)
    return other == parker and parker_pid == getpid()
end


-- From now on listener:wake() is called for each wake-up of the waiter.
function _M.listen(waiter, listener)
    listeners[waiter] = listener
end


function _M.forget(waiter)
    listeners[waiter] = nil
end


function _M.has_listeners()
    return next(listeners) ~= nil
end


-- Sleeps until a waiter is woken, `seconds` have passed, or a signal came, whichever is first; then tells the
-- listeners. 0 only looks.
function _M.sleep(seconds)
    local here, err = _M.get()
    if not here then
        error("holdfast: cannot sleep: " .. err, 0)
    end
    local count
    repeat
        count = C.holdfast_parker_sleep(here, min(seconds, LONGEST), woken, MAX_WOKEN)
        if count < 0 then
            error("holdfast: cannot sleep: " .. sentence(SYSTEM), 0)
        end
        for i = 0, count - 1 do
            local listener = listeners[woken[i]]
            if listener then
                listener:wake()
            end
        end
        seconds = 0
    until count < MAX_WOKEN
end


return _M
