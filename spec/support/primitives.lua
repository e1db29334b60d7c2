-- Objects of every module that holds keys, for tests that apply to all these modules.
--
-- Each module also has Lua code for children, in which new(options) creates an object in the dictionary, take(object,
-- key) waits for the key, and give(object, key) releases the key. The default key is "key".

local _M = {}

local SOURCES = {
    lock = [[
        local module = require "resty.lock"
        local function new(options) return assert(module:new("DICTIONARY", options)) end
        local function take(object, key) return object:lock(key or "key") end
        local function give(object) return object:unlock() end
    ]],
    rwlock = [[
        local module = require "resty.rwlock"
        local function new(options) return assert(module:new("DICTIONARY", options)) end
        local function take(object, key) return object:wrlock(key or "key") end
        local function give(object) return object:unlock() end
    ]],
    semaphore = [[
        local module = require "resty.semaphore"
        local function new(options)
            options = options or {}
            options.permits = 1
            return assert(module:new("DICTIONARY", options))
        end
        local function take(object, key) return object:wait(key or "key") end
        local function give(object, key) return object:post(key or "key") end
    ]],
}

_M.names = { "lock", "rwlock", "semaphore" }


function _M.source(name, dictionary)
    return (SOURCES[name]:gsub("DICTIONARY", dictionary))
end


-- Returns the functions new, take and give.
function _M.functions(name, dictionary)
    return assert(loadstring(_M.source(name, dictionary) .. "return new, take, give"))()
end


return _M
