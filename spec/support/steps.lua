-- Lets the requests to a site and the spec proceed step by step. Each finished step is a key in a dictionary.

local site = require "spec.support.site"

local _M = {}

-- Prepended to each location.
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


-- Returns a function that prepares a site's locations, whose code can then use `more` and the steps, which are in the
-- dictionary `name`.
function _M.locations_with(name, more)
    local common = COMMON:gsub("NAME", name) .. (more or "")
    return function (sources)
        return site.with_common(common, sources)
    end
end


-- Returns a function that waits for a step, and returns the words that were passed to done().
function _M.await_in(dict)
    return function (step)
        return site.await(step, function () return dict:get(step) end)
    end
end


return _M
