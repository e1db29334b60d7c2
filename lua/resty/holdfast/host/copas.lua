-- The host of coroutines of copas, for the version that the program has.

local copas = require "copas"

local co_isyieldable = coroutine.isyieldable
local ipairs, require, tostring, type = ipairs, require, tostring, type

-- What copas4.lua uses. Before 4.0, which brought addnamedthread, coroutines began before the loop ran, and could not
-- be told from others.
local NEEDED = { "addnamedthread", "addserver", "addthread", "finished", "removeserver", "sleep", "wakeup" }

local version = tostring(copas._VERSION or "a copas without a version")
local refusal = version .. " is not supported, only 1.x, and 4.0 or newer; give set_host a host that sleeps as it does"


local function has_needed()
    for _, name in ipairs(NEEDED) do
        if type(copas[name]) ~= "function" then
            return false
        end
    end
    return type(copas.running) == "boolean"
end


local function refuse()
    if not co_isyieldable() or copas.running == false then
        return false
    end
    return false, refusal
end


if version:match("^Copas 1%.") then
    return require "resty.holdfast.host.copas1"
end
if has_needed() then
    return require "resty.holdfast.host.copas4"
end
return { name = "copas", is_yieldable = refuse }
