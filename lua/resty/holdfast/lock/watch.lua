-- Waits until what holds a key is released, without taking it: a method of resty.lock.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local hosts = require "resty.holdfast.host"
local options = require "resty.holdfast.lock.options"

local C = core.C
local ffi_new = ffi.new
local grant_type = ffi.typeof("uint64_t[1]")
local key_string = core.key_string
local read_call = options.read_call
local reason = core.reason
local type = type
local wait_by = require("resty.holdfast.lock.acquire").wait_by
local wrong_receiver = require("resty.holdfast.lock.held_lock").wrong_receiver

local BUSY = core.BUSY
local LOCKED = core.LOCKED
local OK = core.OK
local SYSTEM = core.SYSTEM
local TIMEOUT = core.TIMEOUT

local WAIT_OPTIONS = options.known { "timeout" }

local _M = {}


local function wait_for(self, request)
    if request.timeout <= 0 then
        return nil, "timeout"
    end
    local host, err = hosts.current(self.settings.block)
    if not host then
        return nil, err
    end
    local elapsed, keys
    elapsed, err, keys = wait_by(host, request, self.settings)
    if elapsed then
        return elapsed
    end
    if keys then
        return nil, err, keys
    end
    return nil, err
end


-- The seconds waited, 0 if nobody holds the key; nil and the reason, after a deadlock its keys.
function _M.wait(self, key, opts)
    if type(self) ~= "table" or self.cdata == nil then
        wrong_receiver(self, "wait")
    end
    local timeout, err, _
    if opts ~= nil then
        _, timeout = read_call(opts, "wait", WAIT_OPTIONS)
    end
    key, err = key_string(key or nil)
    if not key then
        return nil, err
    end
    timeout = timeout or self.timeout
    local handle = self.dict[1]
    local grant = ffi_new(grant_type)
    local code = C.holdfast_lock_watch(handle, key, #key, nil, grant)
    if code == OK then
        return 0
    end
    if code ~= LOCKED and code ~= TIMEOUT and (timeout <= 0 or (code ~= SYSTEM and code ~= BUSY)) then
        return nil, reason(code)
    end
    return wait_for(self, {
        handle = handle,
        key = key,
        watched = grant,
        timeout = timeout,
        step = self.step,
        ratio = self.ratio,
        max_step = self.max_step,
    })
end


return _M
