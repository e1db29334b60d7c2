-- The option log_timeouts: a line about each wait that ends in vain, with the holders that were in the way, and why.

local core = require "resty.holdfast.core"
local find_gate = require("resty.holdfast.dictionary.gate").find
local look = require("resty.holdfast.lock.lock_info").look
local warn = require("resty.holdfast.program").warn

local concat, format, pcall, type = table.concat, string.format, pcall, type
local printable, quote = core.printable, core.quote

-- Holders that are named.
local NAMED = 3

local NAMES = { lock = "lock", [core.RWLOCK] = "rwlock", [core.SEMAPHORE] = "semaphore" }

local _M = {}


local function describe(holder)
    local who = (holder.program and printable(holder.program) or "a program") .. " (process " .. (holder.process or "?")
                .. (holder.worker and ", worker " .. holder.worker or "") .. ")"
    return who .. (holder.alive == false and ", which is dead," or "") .. format(" for %.3f s", holder.held)
           .. (holder.why and ", why: " .. quote(holder.why) or "")
end


-- What was in the way just now.
local function obstacle(handle, key)
    local holders, waiters = look(handle, key, NAMED + 1, {})
    if not holders then
        return "who holds it is not known: " .. waiters
    end
    local named = {}
    for i = 1, #holders do
        named[i] = i <= NAMED and describe(holders[i]) or "others"
    end
    if #named == 0 then
        local gate = find_gate(handle)
        return gate and gate.NO_HOLDER or "nobody holds it by now"
    end
    return "held by " .. concat(named, " and by ") .. (waiters > 0 and "; waiters: " .. waiters or "")
end


-- Raises nothing. `reason`: that of the method.
function _M.report(self, request, key, reason)
    local log = self.settings.log_timeouts
    if request.tries then
        return
    end
    local kind = NAMES[request.total > 0 and request.kind or "lock"]
    local line = format("%s %s of dictionary %s: %s after %.3f s; %s", kind, quote(key), quote(self.dict.name), reason,
                        request.timeout, obstacle(request.handle, key))
    if type(log) == "function" then
        pcall(log, line)
    else
        warn(line)
    end
end


return _M
