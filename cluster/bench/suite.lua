-- The benchmarks of `make bench-cluster`, for bench/main.lua.

local process = require "bench.support.process"
local daemon = require "cluster.bench.daemon"
local etcd = require "cluster.bench.etcd"

return {
    title = "Across machines",
    prefix = "cluster-",
    modules = "cluster.bench.",
    results = "cluster/bench/results/",
    { "cluster_locks", "make" },
    { "cluster_alone", "make" },
    peer = function (context)
        return "etcd: " .. etcd.version() .. ", on loopback, with its data in "
            .. process.output("stat -f -c %T " .. process.quote(context.disk))
    end,
    clean_up = daemon.stop_all,
}
