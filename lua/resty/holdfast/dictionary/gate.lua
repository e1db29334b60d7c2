-- Loads gates. The gate of a dictionary decides whether this machine may grant a lock that other machines may also
-- want; see src/dict/gate.h.
--
-- Only the dictionaries of clusters have gates, so gates do not make plain dictionaries slower. When the first
-- dictionary with a gate is opened, the module for gates is loaded. It has these fields:
--
--   NO_HOLDER                       a text for the log: why a lock without a holder on this machine may be held
--   FAMILIES                        families of metrics, as in prometheus.lua
--   holder(handle, key, block)      does the same as lock_info.find_here, for all machines
--   measure(handle, add)            calls add(family, label, label value, value) for each sample
--   reason_of_timeout(handle, key)  returns the error for a wait that timed out
--   refusal(handle)                 returns why no lock of the dictionary can be granted now, or nil if locks can
--   state(handle)                   returns the results of dict:cluster()
--   verify(lock, grant, key)        returns the results of lock:verify()

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local later = require "resty.holdfast.later"

local C, quote, sentence = core.C, core.quote, core.sentence
local error, ffi_str, package, pcall, rawget, type = error, ffi.string, package, pcall, rawget, type
local getinfo = debug and debug.getinfo

local OK, UNAVAILABLE = core.OK, core.UNAVAILABLE

local MODULE = "resty.holdfast.cluster.gate"

-- The result of the current call. No other Lua code runs before it is read.
local state = ffi.new("holdfast_cluster")

local _M = {}

local gate


-- In a checkout, adds the Lua files of cluster/ to package.path, so that LUA_PATH need not name both folders.
-- ffi/library.lua does the same for the library.
local function search_beside()
    local root = getinfo and getinfo(1, "S").source:match("^@(.*)lua/resty/holdfast/dictionary/gate%.lua$")
    local folder = root and root .. "cluster/lua/?.lua;"
    if folder and not package.path:find(folder, 1, true) then
        package.path = folder .. package.path
    end
end


-- Loads the module for gates. On failure, raises the reason; the next call tries again.
local function load_gate()
    search_beside()
    local loaded, result = pcall(later.load, MODULE)
    if not loaded then
        error("cannot load the Lua files for the cluster " .. quote(ffi_str(state.name)) .. ": "
              .. result:match("^[^\n]*"):gsub(":$", "") .. "; install the Lua files of cluster/ beside those of the "
              .. "library", 0)
    end
    return result
end


-- Returns the dictionary's gate, or nil and the library's code if it has none. A dictionary without a gate may have one
-- after it was removed and created again.
function _M.find(handle)
    local code = C.holdfast_cluster_state(handle, state)
    if code ~= OK and code ~= UNAVAILABLE then
        return nil, code
    end
    gate = gate or load_gate()
    return gate
end


-- Checks an object's option `cluster`, which is true or a name. Returns true, or nil and the reason why the option does
-- not fit the dictionary.
function _M.check(dict, asked)
    if rawget(dict, 1) == nil then
        return nil, "the cluster of dictionary " .. quote(rawget(dict, "name")) .. " is not known yet in init_by_lua; "
                    .. "create the object later"
    end
    local found, code = _M.find(dict[1])
    if not found then
        return nil, sentence(code)
    end
    local name = ffi_str(state.name)
    if type(asked) == "string" and asked ~= name then
        return nil, "dictionary " .. quote(dict.name) .. " belongs to the cluster " .. quote(name) .. ", not "
                    .. quote(asked)
    end
    return true
end


return _M
