-- Locks that are held while a function runs.

local enter_scope = require("resty.holdfast.lock.scopes").enter
local error = error
local keep = require("resty.holdfast.lock.hand_over").keep
local leave_scope = require("resty.holdfast.lock.scopes").leave
local read_call = require("resty.holdfast.lock.options").read_call
local note = require("resty.holdfast.tasks.traceback").note
local tonumber = tonumber
local type = type
local wrong_receiver = require("resty.holdfast.lock.held_lock").wrong_receiver
local xpcall = xpcall

local _M = {}


-- Of the object only what this call has taken: the function may have unlocked it, and locked another key.
local function give_back(self, token)
    local grant = self.cdata
    if grant and tonumber(grant.lease.sequence) == token then
        self:unlock()
    end
end


local function release(self, token, scope, ok, ...)
    if scope then
        leave_scope(scope)
        self.scope = nil
    end
    give_back(self, token)
    if not ok then
        error((...), 0)
    end
    return ...
end


local function run_locked(self, lock, key, opts, fn, ...)
    local elapsed, err, keys = lock(self, key, opts)
    if not elapsed then
        if keys then
            return nil, err, keys
        end
        return nil, err
    end
    local token = tonumber(self.cdata.lease.sequence)
    keep(self, token)
    local scope = enter_scope(self, give_back, token)
    if scope then
        self.scope = scope
    end
    return release(self, token, scope, xpcall(fn, note, ...))
end


-- The method obj:name(key, fn, ...) or obj:name(key, opts, fn, ...): takes the lock by `lock(self, key, opts)`, calls
-- the function, and gives what it returns. An error is raised on as it is. What `lock` says if there was no lock.
function _M.method(name, lock, known_options)
    return function (self, key, ...)
        if type(self) ~= "table" or self.cdata == nil then
            wrong_receiver(self, name)
        end
        local opts, fn = ...
        if type(opts) == "function" then
            return run_locked(self, lock, key, nil, ...)
        end
        if opts ~= nil then
            read_call(opts, name, known_options)
        end
        if type(fn) ~= "function" then
            error("bad function to " .. name .. ": function expected, got " .. type(fn), 2)
        end
        return run_locked(self, lock, key, ...)
    end
end


return _M
