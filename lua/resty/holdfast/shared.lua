-- Puts dictionaries of holdfast into ngx.shared, for code that iterates over ngx.shared (exporters, status pages).
-- Manual: docs/resty.shdict.md.

local keep_values = require("resty.holdfast.dictionary.registry").keep_values
local quote = require("resty.holdfast.core").quote
local shdict = require "resty.shdict"

local error, next, rawget, select, type = error, next, rawget, select, type
local find = shdict.find

local _M = {}


local function install(zones, name)
    local dict, err = find(name)
    if not dict then
        return nil, "dictionary " .. quote(name) .. ": " .. err
    end
    zones[name] = dict
    if rawget(dict, 1) then  -- the dictionary is open, so this process is not the master
        keep_values()
    end
    return true
end


-- Puts the dictionaries with these names into ngx.shared, where they replace zones with the same names. Without names,
-- does so with all dictionaries that this Lua state has opened. Returns true. At the first failure, returns nil and a
-- message; the dictionaries that were installed before this remain installed. Raises an error for a name that is not a
-- string. Does not yield.
function _M.install(...)
    local ngx = rawget(_G, "ngx")
    local zones = type(ngx) == "table" and ngx.shared
    if type(zones) ~= "table" then
        return nil, "there is no ngx.shared here"
    end
    local count = select("#", ...)
    for i = 1, count do
        local name = select(i, ...)
        if type(name) ~= "string" then
            error("bad name to install: expected a string, got " .. type(name), 2)
        end
        local ok, err = install(zones, name)
        if not ok then
            return nil, err
        end
    end
    if count == 0 then
        local name, dict = next(shdict.shared)
        if name then
            keep_values()
        end
        while name do
            zones[name] = dict
            name, dict = next(shdict.shared, name)
        end
    end
    return true
end


return _M
