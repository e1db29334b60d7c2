-- Whether this is nginx, and no stand-in named `ngx`, as in unit tests and command-line tools. Under a stand-in locks
-- work as in a plain script.

local warn_once = require("resty.holdfast.host.warning").once

local ipairs, pairs, pcall, rawget, require, tostring, type = ipairs, pairs, pcall, rawget, require, tostring, type

-- The functions a light thread waits with. nginx's own thread pool has none that sleep: there the thread waits.
local NEEDED = {
    socket = { "tcp" }, thread = { "spawn" }, timer = { "at" }, worker = { "exiting" },
}


local function has_functions(ngx)
    if type(ngx.sleep) ~= "function" or type(ngx.get_phase) ~= "function" or type(ngx.log) ~= "function" then
        return false
    end
    for part, names in pairs(NEEDED) do
        for _, name in ipairs(names) do
            if type(ngx[part]) ~= "table" or type(ngx[part][name]) ~= "function" then
                return false
            end
        end
    end
    return true
end


-- A stand-in that raises for a missing field is not nginx, either.
local function is_nginx()
    local ngx = rawget(_G, "ngx")
    local ok, has = pcall(has_functions, ngx)
    if type(ngx) ~= "table" or not ok or not has then
        return false
    end
    local err
    ok, err = pcall(require, "ngx.semaphore")
    if not ok then
        warn_once("this ngx has no semaphores, so a wait for a lock stops the process: "
                  .. tostring(err):match("^[^\n]*"))
        return false
    end
    return true
end


return { is_nginx = is_nginx() }
