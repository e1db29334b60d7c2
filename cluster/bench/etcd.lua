-- Runs a private etcd, with one or several nodes on loopback and their data in a temporary folder. Also reads its
-- counters.

local clock, process = require "bench.support" ("clock", "process")
local daemon = require "cluster.bench.daemon"

local quote = process.quote

-- Seconds until etcd serves.
local PATIENCE = 20
local LOOK = 0.05
-- A different program may take a port between the check and the start.
local ATTEMPTS = 3
local FIRST_PORT, PORTS = 20000, 12000

local _M = {}
local Cluster = {}
Cluster.__index = Cluster


-- Returns the version, such as "3.4.23".
function _M.version()
    return process.output("etcd --version | sed -n 's/^etcd Version: //p'")
end


-- --- ports ----------------------------------------------------------------------------------------------

local function ports_in_use()
    local used = {}
    for _, path in ipairs { "/proc/net/tcp", "/proc/net/tcp6" } do
        local file = io.open(path)
        for line in file and file:lines() or function () end do
            local port = line:match("^%s*%d+: %x+:(%x+) ")
            used[port and tonumber(port, 16) or 0] = true
        end
        if file then
            file:close()
        end
    end
    return used
end


-- Returns ports on which no process listens.
function _M.free_ports(count)
    local used, ports = ports_in_use(), {}
    local at = math.floor(clock.now() * 1e6)
    while #ports < count do
        at = at + 1
        local port = FIRST_PORT + at % PORTS
        if not used[port] then
            used[port] = true
            ports[#ports + 1] = port
        end
    end
    return ports
end


local function url(port)
    return "http://127.0.0.1:" .. port
end


-- --- nodes ----------------------------------------------------------------------------------------------

local function answers(address)
    return os.execute("curl -fsS -m 2 -d '{\"key\":\"YQ==\"}' " .. address .. "/v3/kv/range >/dev/null 2>&1") == 0
end


-- Returns the command that starts a node with its data in the folder. more: a list of options.
function _M.command(name, folder, client, peer, members, more)
    return table.concat({
        "etcd --name", name, "--data-dir", quote(folder .. "/" .. name),
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", table.concat(members, ","), unpack(more or {}),
    }, " ")
end


local function start_nodes(folder, count)
    local ports, members = _M.free_ports(2 * count), {}
    local cluster = setmetatable({ urls = {}, nodes = {}, folder = folder }, Cluster)
    for i = 1, count do
        cluster.urls[i] = url(ports[i])
        members[i] = "n" .. i .. "=" .. url(ports[count + i])
    end
    for i = 1, count do
        local name = "n" .. i
        cluster.nodes[i] = daemon.start(_M.command(name, folder, cluster.urls[i], url(ports[count + i]), members),
                                        folder .. "/" .. name .. ".log")
    end
    return cluster
end


-- Returns nil, or what prevents a start.
function Cluster:await_service()
    local patience = clock.now() + PATIENCE
    for i, address in ipairs(self.urls) do
        while not answers(address) do
            if not self.nodes[i]:runs() or clock.now() > patience then
                return "etcd does not serve: " .. self.nodes[i]:last_words()
            end
            clock.sleep(LOOK)
        end
    end
end


-- Starts a cluster with `count` nodes. Returns the cluster, with the URLs of its nodes in `urls`, or nil and a
-- sentence. The folder must be new.
function _M.start(folder, count)
    local err
    for _ = 1, ATTEMPTS do
        os.execute("mkdir -p " .. quote(folder))
        local cluster = start_nodes(folder, count)
        err = cluster:await_service()
        if not err then
            return cluster
        end
        cluster:stop()
    end
    return nil, err
end


function Cluster:stop()
    daemon.stop(self.nodes)
    os.execute("rm -rf " .. quote(self.folder))
end


-- --- counters ----------------------------------------------------------------------------------

-- Keepalives do not count as requests, because they are sent even without locks.
local REQUESTS = { ["etcdserverpb.KV"] = true, ["etcdserverpb.Watch"] = true, ["v3lockpb.Lock"] = true }


local function count_line(counts, line)
    local name, labels, value = line:match("^([%w_]+)(%S*) (%S+)$")
    value = tonumber(value)
    if name == "grpc_server_started_total" and REQUESTS[labels:match('grpc_service="([^"]+)"')] then
        counts.requests = counts.requests + value
    elseif name == "etcd_debugging_mvcc_events_total" then
        counts.events = counts.events + value
    elseif name == "etcd_disk_wal_fsync_duration_seconds_sum" then
        counts.sync_seconds = counts.sync_seconds + value
    elseif name == "etcd_disk_wal_fsync_duration_seconds_count" then
        counts.syncs = counts.syncs + value
    end
end


-- Returns the sums over all nodes since their start: requests, events sent to watchers, and the number and the total
-- time of the writes of their logs to disk.
function Cluster:counts()
    local counts = { requests = 0, events = 0, syncs = 0, sync_seconds = 0 }
    for _, address in ipairs(self.urls) do
        for line in process.output("curl -fsS -m 5 " .. address .. "/metrics"):gmatch("[^\n]+") do
            count_line(counts, line)
        end
    end
    return counts
end


-- Describes the cluster in a sentence.
function Cluster:describe()
    local counts = self:counts()
    return ("Each write of etcd's log to the disk took %.2f ms on average."):format(
        counts.sync_seconds / math.max(counts.syncs, 1) * 1e3)
end


return _M
