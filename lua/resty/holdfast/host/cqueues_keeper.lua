-- Who renews locks in the controllers of cqueues: one coroutine in each where there is something to renew. A controller
-- ends when its coroutines have ended, and tells nobody. So this one looks, every STEP, whether it is the last.

local core = require "resty.holdfast.core"
local condition = require "cqueues.condition"
local cqueues = require "cqueues"
local new_chores = require("resty.holdfast.chores").new

local C = core.C
local max = math.max
local min = math.min
local pcall = pcall
local report = require("resty.holdfast.scheduler").report
local setmetatable = setmetatable
local tostring = tostring

local INFINITY = math.huge
local STEP = 0.1

local _M = {}

-- Controller to keeper, which must not keep it from being collected.
local keepers = setmetatable({}, { __mode = "k" })


local function spawn(fn, ...)
    cqueues.running():wrap(fn, ...)
end


local function run(keeper)
    local controller = cqueues.running()
    local chores = keeper.chores
    while chores.next() < INFINITY and controller:count() > 1 do
        cqueues.poll(keeper.bell, max(min(chores.next() - C.holdfast_now(), STEP), 0))
        local ok, err = pcall(chores.run, C.holdfast_now())
        if not ok then
            report(nil, tostring(err))
        end
    end
    keeper.is_running = false
end


local function new()
    local keeper = { bell = condition.new(), is_running = false, spawn = spawn }
    keeper.chores = new_chores(function ()
        local controller = cqueues.running()
        if keeper.is_running then
            keeper.bell:signal()
        elseif controller and keepers[controller] == keeper and keeper.chores.next() < INFINITY then
            keeper.is_running = true
            controller:wrap(run, keeper)
        end
    end)
    return keeper
end


-- The keeper of a controller.
function _M.of(controller)
    local keeper = keepers[controller]
    if not keeper then
        keeper = new()
        keepers[controller] = keeper
    end
    return keeper
end


return _M
