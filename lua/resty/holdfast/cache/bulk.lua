-- Several lookups in one call, with the tables that mlcache uses: a bulk has four elements for each lookup (key,
-- options, loader, the loader's argument), and the results have three (value, error, hit level).

local core = require "resty.holdfast.core"
local is_current = require("resty.holdfast.cache.copies").is_current
local options = require "resty.holdfast.cache.options"
local program = require "resty.holdfast.program"
local scheduler = require "resty.holdfast.scheduler"

local error, format, ipairs, min, pcall = error, string.format, ipairs, math.min, pcall
local setmetatable, type = setmetatable, type

local ngx = program.is_nginx and require "ngx"

local _M = {}

local Bulk = {}
Bulk.__index = Bulk


function _M.new_bulk()
    return setmetatable({ n = 0 }, Bulk)
end


function Bulk.add(bulk, key, opts, loader, argument)
    local at = 4 * bulk.n
    bulk[at + 1], bulk[at + 2], bulk[at + 3], bulk[at + 4] = key, opts, loader, argument
    bulk.n = bulk.n + 1
end


local function next_result(results, number)
    local at = 3 * number
    if at < results.n then
        return number + 1, results[at + 1], results[at + 2], results[at + 3]
    end
end


-- for number, value, err, hit_level in cache.each_bulk_res(results) do ... end
function _M.each_bulk_res(results)
    if type(results) ~= "table" or not results.n then
        error("bad results to each_bulk_res: expected the result of get_bulk, got " .. core.describe(results), 2)
    end
    return next_result, results, 0
end


-- Calls fn() `count` times. The calls are concurrent in light threads of nginx and in tasks of the scheduler, and
-- sequential elsewhere.
local function run(fn, count)
    local in_task = not ngx and scheduler.running()
    local started = {}
    for i = 1, (ngx or in_task) and count - 1 or 0 do
        local allowed, thread = pcall(ngx and ngx.thread.spawn or scheduler.spawn, fn)
        started[i] = allowed and thread or nil
    end
    fn()
    for _, thread in ipairs(started) do
        if ngx then
            ngx.thread.wait(thread)
        else
            thread:join()
        end
    end
end


-- Raises an error for a wrong argument of a lookup, before any loader is called.
local function check_lookups(bulk)
    for row = 0, bulk.n - 1 do
        local key, opts, loader = bulk[4 * row + 1], bulk[4 * row + 2], bulk[4 * row + 3]
        if type(key) ~= "string" then
            error(format("bad key to lookup %d of get_bulk: expected a string, got %s", row + 1, core.describe(key)),
                  3)
        elseif loader ~= nil and type(loader) ~= "function" then
            error(format("bad loader to lookup %d of get_bulk: expected a function, got %s", row + 1,
                         core.describe(loader)), 3)
        elseif opts ~= nil then
            options.check(opts, format("lookup %d of get_bulk", row + 1), options.GET, 3)
        end
    end
end


-- Returns whether level 1 has a current copy. After a hit of level 2 it has none if the value should be loaded early.
local function has_copy(cache, key)
    local copy = cache.young[key]
    return copy and is_current(cache, copy)
end


-- Returns the results. At most `concurrency` (default 3) loaders run at the same time.
function _M.get_bulk(cache, bulk, opts)
    if type(bulk) ~= "table" or type(bulk.n) ~= "number" then
        error("bad bulk to get_bulk: expected a table with a field n, got " .. core.describe(bulk), 2)
    end
    options.check(opts, "get_bulk", options.BULK, 2)
    check_lookups(bulk)
    local results, missing, last = { n = 3 * bulk.n }, {}, 0
    local function get(row, loader)
        local at, to = 4 * row, 3 * row
        local value, err, level = cache:get(bulk[at + 1], bulk[at + 2], loader, bulk[at + 4])
        results[to + 1], results[to + 2], results[to + 3] = value, err, level
        return level
    end
    for row = 0, bulk.n - 1 do
        local level = get(row, nil)
        if level == -1 or level == 4 or level == 2 and not has_copy(cache, bulk[4 * row + 1]) then
            missing[#missing + 1] = row
        end
    end
    run(function ()
        while last < #missing do
            last = last + 1
            get(missing[last], bulk[4 * missing[last] + 3])
        end
    end, min(#missing, opts and opts.concurrency or 3))
    return results
end


return _M
