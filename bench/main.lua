-- Measures, and prints tables of what was found. Started by bench/run: main.lua BUILD SUITE [--quick] [--only=TABLE]

local daemon, etcd, plot, process, report, runs =
    require "bench.support" ("daemon", "etcd", "plot", "process", "report", "runs")

-- Their names, the files of bench/tables, and the functions in there.
local SUITES = {
    bench = {
        { "side_by_side", "some" },
        { "own_keys", "some" },
        { "counts", "make" },
        { "between_processes", "make" },
        { "memory", "make" },
        { "hit_ratio", "make" },
        { "opening", "make" },
        { "micro", "make" },
    },
    peers = {
        { "side_by_side", "dictionaries" },
        { "shared_keys", "make" },
    },
    locks = {
        { "side_by_side", "locks" },
        { "own_keys", "all" },
        { "counts", "make" },
        { "between_processes", "make" },
        { "short_sections", "make" },
        { "fairness", "make" },
        { "many_holders", "make" },
        { "waiters", "make" },
        { "curves", "make" },
    },
    hosts = {
        { "hosts", "make" },
    },
    cluster = {
        { "cluster_locks", "make" },
        { "cluster_alone", "make" },
    },
}
local TITLES = { bench = "Benchmarks", peers = "Beside ngx.shared", locks = "Locks", hosts = "Hosts",
                 cluster = "Over machines" }
-- How the name of a file of results begins.
local PREFIXES = { bench = "", peers = "peers-", locks = "locks-", hosts = "hosts-", cluster = "cluster-" }

local build, suite = arg[1], arg[2]
local quick, only = false, nil
for i = 3, #arg do
    quick = quick or arg[i] == "--quick"
    only = only or arg[i]:match("^%-%-only=(.*)")
end
local root, folder = os.getenv("HOLDFAST_BENCH_ROOT"), os.getenv("HOLDFAST_BENCH_FOLDER")
local text = {}


local function say(...)
    local words = table.concat({ ... })
    text[#text + 1] = words
    io.write(words)
    io.flush()
end


-- The tables, and the points of curves if there are any.
local function keep(name, points, description)
    local path = "bench/results/" .. name
    local file = assert(io.open(path .. ".md", "w"))
    file:write(table.concat(text))
    file:close()
    print("\nkept in " .. path .. ".md")
    if not points:is_empty() then
        points:write(path .. ".csv", description)
        print("kept in " .. path .. ".csv; bench/plot draws it")
    end
end


-- What holdfast is measured beside.
local function peer(context, nginx_version)
    if suite == "cluster" then
        return "etcd: " .. etcd.version() .. ", on loopback, with its data in "
            .. process.output("stat -f -c %T " .. process.quote(context.disk))
    end
    return "nginx: " .. (nginx_version or context.why_not)
end


local begun = os.date("!%Y-%m-%d-%H%M")
local nginx_version, why_not = runs.find_nginx(folder .. "/nginx", root)
local context = {
    quick = quick,
    root = root,
    folder = folder,
    disk = quick and folder or os.getenv("HOLDFAST_BENCH_DISK"),
    build = build,
    nginx = nginx_version and folder .. "/nginx",
    why_not = why_not,
    figures = plot.points(),
}
local description = {}

say("# ", TITLES[suite], quick and " (quick: for trying out only)" or "", "\n\n")
for _, entry in ipairs(report.describe(build)) do
    say("- ", entry[1], ": ", entry[2], "\n")
    description[#description + 1] = entry[1] .. ": " .. entry[2]
end
say("- ", peer(context, nginx_version), "\n- load before: ", report.load(), "\n")

local function make_tables()
    for _, entry in ipairs(SUITES[suite]) do
        local name, make = unpack(entry)
        local wanted = not only or only == name
        for _, found in ipairs(wanted and { require("bench.tables." .. name)[make](context) } or {}) do
            say("\n## ", found.title, "\n\n", report.table(found.headings, found.rows))
            if found.note then
                say("\n", found.note, "\n")
            end
        end
    end
end


local ok, err = xpcall(make_tables, debug.traceback)
daemon.stop_all()
if not ok then
    error(err, 0)
end
say("\n- load after: ", report.load(), "\n")

if runs.failures > 0 then
    io.stderr:write("bench/run: not everything worked; nothing is kept\n")
    os.exit(1)
end
if not quick and not only then
    keep(PREFIXES[suite] .. begun, context.figures, description)
end
