-- Run by each worker of an nginx after its master ran before_fork.lua.

local dict = require "spec.before_fork"
local worker = require "spec.side_by_side.worker"

worker.run(function ()
    local hello, flags = dict:get("from the master")
    for _ = 1, 10000 do
        dict:incr("rounds", 1)
    end
    dict:rpush("list", "worker")
    local workers = dict:incr("workers", 1, 0)
    worker.say("worker", hello, flags)
    if workers == ngx.worker.count() then  -- luacheck: ignore 113
        worker.say("last", dict:get("rounds"), dict:llen("list"), dict:lpop("list"))
    end
end)
