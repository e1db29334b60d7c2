-- Claims about a site in which requests and the spec go step by step: a step that is done is a key of a dictionary.

local site = require "spec.support.site"

local _M = {}

-- What each location begins with.
local COMMON = [[
    local dict = require("resty.shdict").open("NAME")
    local function new(options) return assert(require("resty.lock"):new("NAME", options)) end
    local function await(step)
        while not dict:get(step) do ngx.sleep(0.002) end
    end
    local function done(step, ...)
        dict:set(step, table.concat({ ... }, " "))
    end
]]


-- A function that takes the locations of a site, with sources that may use the steps in the dictionary, and `more`.
function _M.locations_with(name, more)
    local common = COMMON:gsub("NAME", name) .. (more or "")
    return function (sources)
        return site.with_common(common, sources)
    end
end


-- A function that waits for a step, and returns what is said of it.
function _M.await_in(dict)
    return function (step)
        return site.await(step, function () return dict:get(step) end)
    end
end


return _M
