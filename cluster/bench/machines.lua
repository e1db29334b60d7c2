-- Simulates machines of a cluster on this machine: separate runtime directories, with an agent in each.

local process = require "bench.support.process"
local daemon = require "cluster.bench.daemon"

local quote = process.quote

local CLUSTER = "bench"

local _M = {
    -- The dictionary that their programs open.
    DICTIONARY = "bench_cluster",
    OPTIONS = { size = "1m", cluster = CLUSTER },
}
local Machines = {}
Machines.__index = Machines


-- Starts `count` machines and their agents. space: the prefix of their keys at etcd.
function _M.start(context, etcd, space, count)
    local self = setmetatable({ root = context.root, folders = {}, agents = {} }, Machines)
    for i = 1, count do
        local folder = ("%s/%s-%d"):format(context.folder, space, i)
        os.execute("mkdir -m 700 " .. quote(folder))
        self.folders[i] = folder
        self.agents[i] = daemon.start(table.concat({
            "env HOLDFAST_DIR=" .. quote(folder), quote(context.build .. "/holdfast"), "agent", CLUSTER,
            "--etcd", table.concat(etcd.urls, ","), "--namespace", space,
        }, " "), folder .. ".log")
    end
    return self
end


-- Returns the command that starts bench/child.lua on one of the machines; number: from 1.
function Machines:command(number)
    return "env HOLDFAST_DIR=" .. quote(self.folders[number]) .. " luajit " .. quote(self.root .. "/bench/child.lua")
end


function Machines:stop()
    daemon.stop(self.agents)
    for _, folder in ipairs(self.folders) do
        os.execute("rm -rf " .. quote(folder) .. " " .. quote(folder .. ".log"))
    end
end


return _M
