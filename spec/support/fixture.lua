-- Sets up and tears down each test of a describe. Call these functions in the body of the describe.

local busted = require "busted"
local hosts = require "resty.holdfast.host"
local process = require "spec.support.process"
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"

local _M = {}


-- Calls the finalisers of all unreferenced objects. The second round also collects the objects that these finalisers
-- release.
function _M.collect()
    collectgarbage()
    collectgarbage()
end


-- If the dictionary belongs to a cluster, this machine owns the locks of these keys when a test begins.
local STANDING = os.getenv("HOLDFAST_SPEC_STANDING") or ""


local function open(name, settings)
    local dict = assert(shdict.open(name, settings or { size = "1m" }))
    busted.before_each(function ()
        dict:flush_all()
        for key in STANDING:gmatch("%S+") do
            assert(resty_lock:new(name, { wait = "wake", timeout = 20 })):with(key, function () end)
        end
    end)
    return dict
end


-- Gives each test an empty dictionary. `settings` are the options of shdict.open. Ends child processes after the test.
function _M.dictionary(name, settings)
    local dict = open(name, settings)
    busted.after_each(process.clean_up)
    return dict
end


-- Does the same for tests of locks. After each test, also resets the host and collects unreferenced objects. The second
-- result is a function that creates an object of the module, resty.lock or resty.rwlock, in the dictionary.
function _M.locks(module, name, settings)
    local dict = _M.dictionary(name, settings)
    busted.after_each(function ()
        hosts.set_host(nil)
        _M.collect()
    end)
    return dict, function (options)
        return assert(module:new(name, options))
    end
end


-- Does the same for tests with sites, which it stops after each test. The second result is the spec's own lock object,
-- which holds no lock when a test begins.
function _M.site(name, settings)
    local dict = open(name, settings)
    local lock = assert(resty_lock:new(name, { exptime = 600 }))
    busted.after_each(function ()
        require("spec.support.site").clean_up()
        lock:unlock()
    end)
    return dict, lock
end


-- Returns busted's `it`. If `missing` is given, each test is instead pending with this text.
function _M.it_unless(missing)
    return missing and function (text) return busted.pending(text .. ": " .. missing) end or busted.it
end


return _M
