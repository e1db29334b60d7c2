-- The method wait of resty.lock: waits until the holder of a key releases it, without taking it.

local acquire = require "resty.holdfast.lock.acquire"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local held_lock = require "resty.holdfast.lock.held_lock"
local hosts = require "resty.holdfast.host"
local options = require "resty.holdfast.lock.options"

local C, key_string, reason = core.C, core.key_string, core.reason
local ffi_new, grant_type = ffi.new, ffi.typeof("uint64_t[1]")

local OK = core.OK

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
    elapsed, err, keys = acquire.wait_by(host, request, self)
    if elapsed then
        return elapsed
    end
    return acquire.refused(err, keys)
end


-- The seconds waited, 0 for a free key; nil and the reason, after a deadlock its keys.
function _M.wait(self, key, opts)
    held_lock.check(self, "wait")
    local timeout, err, _
    if opts ~= nil then
        _, timeout = options.read_call(opts, "wait", WAIT_OPTIONS)
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
    elseif acquire.is_final(code, timeout) then
        return nil, reason(code)
    end
    local request = acquire.new_request(self, handle, key, nil, timeout, self.step)
    request.watched, request.fair = grant, nil
    return wait_for(self, request)
end


return _M
