-- Runs in a worker of nginx. Fills a dictionary of each side in every way. Prints "full", the method, and the results
-- of the original and of ours when there is no more room.

local pack = require "spec.support.pack"
local shdict = require "resty.shdict"
local worker = require "spec.side_by_side.worker"

local ngx = ngx  -- luacheck: ignore 113

local FILLERS = {
    set = function (dict, i) return dict:set("key " .. i, ("x"):rep(200)) end,
    add = function (dict, i) return dict:add("key " .. i, i) end,
    incr = function (dict, i) return dict:incr("key " .. i, 1, 41) end,
    safe_set = function (dict, i) return dict:safe_set("key " .. i, ("x"):rep(200)) end,
    safe_add = function (dict, i) return dict:safe_add("key " .. i, i) end,
    -- Our method returns one more result if the value is too large.
    ["safe_set over a value"] = function (dict)
        local ok, err, forcible = dict:safe_set("key 1", ("x"):rep(300000))
        return ok, err, forcible
    end,
    ["rpush to one list"] = function (dict, i) return dict:rpush("list", i) end,
    ["lpush to new lists"] = function (dict, i) return dict:lpush("list " .. i, ("x"):rep(100)) end,
    ["lpush of what is too large"] = function (dict)
        local length, err = dict:lpush("list", ("x"):rep(300000))
        return length, err
    end,
}


-- Returns the first results that report a lack of room.
local function fill(dict, filler)
    dict:flush_all()
    dict:flush_expired()
    for i = 1, 100000 do
        local results = pack(filler(dict, i))
        if results[2] or results[3] then
            if type(results[1]) == "number" then
                results[1] = "a number"
            end
            return worker.show_all(results)
        end
    end
    return "never full"
end


worker.run(function ()
    local theirs = ngx.shared.side_by_side_small
    local ours = assert(shdict.open("side_by_side_small", { size = "256k" }))
    local methods = {}
    for method in pairs(FILLERS) do
        methods[#methods + 1] = method
    end
    table.sort(methods)
    for _, method in ipairs(methods) do
        worker.say("full", method, fill(theirs, FILLERS[method]), fill(ours, FILLERS[method]))
    end
end)
