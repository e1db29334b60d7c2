-- The method wait of resty.lock: waits until the holder of a key releases it, without taking it.

local contended = require "resty.holdfast.lock.contended"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local held_lock = require "resty.holdfast.lock.held_lock"
local hosts = require "resty.holdfast.host"
local lease_pool = require "resty.holdfast.lock.lease_pool"
local options = require "resty.holdfast.lock.options"

local C, key_string, reason = core.C, core.key_string, core.reason
local is_final = require("resty.holdfast.lock.acquire").is_final
local give_back, take_grant = lease_pool.give_back, lease_pool.take

local ELSEWHERE, OK = core.ELSEWHERE, core.OK

-- The number of the grant that the present call has found: nothing else runs before it is read.
local watched = ffi.new("uint64_t[1]")

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
    elapsed, err, keys = contended.wait_by(host, request, self)
    if elapsed then
        return elapsed
    end
    return contended.refused(err, keys)
end


local function finish(grant, ...)
    give_back(grant)
    return ...
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
    watched[0] = 0  -- begins a wait
    local code = C.holdfast_lock_watch(handle, key, #key, nil, watched)
    if code == OK then
        return 0
    elseif code == ELSEWHERE then
        return nil, "held"  -- maybe by another machine, of which nothing here sees the release
    elseif is_final(code, timeout) then
        return nil, reason(code)
    end
    local number = watched[0]
    local grant = take_grant(handle, key)  -- it takes nothing, but owns the key
    local request = contended.new_request(self, grant, 0, timeout, self.step)
    request.watches, request.fair, request.watched[0] = true, false, number
    return finish(grant, wait_for(self, request))
end


return _M
