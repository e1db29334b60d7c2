-- Runs the benchmarks and prints tables of the results. bench/run starts this program: main.lua BUILD SUITE [--quick]
-- [--only=TABLE]

local points, report, runs = require "bench.support" ("points", "report", "runs")

-- The suites by name: each has a title, the prefix of the names of its result files, and its tables in order. A table
-- is given as the names of a file in bench/tables and of a function in that file. A suite may have the name of its only
-- file instead of the prefix; without either, the results are not kept.
--
-- The suite of --cluster is in cluster/bench/suite.lua and has more fields: the folders of its modules and results;
-- peer(context), which names the peer of holdfast; and clean_up(), which is called at the end, even after an error.
local SUITES = {
    bench = { title = "Benchmarks", prefix = "",
        { "side_by_side", "some" },
        { "limits", "make" },
        { "own_keys", "some" },
        { "instructions", "make" },
        { "counts", "make" },
        { "between_processes", "make" },
        { "memory", "make" },
        { "hit_ratio", "make" },
        { "opening", "make" },
        { "starting", "make" },
        { "micro", "make" },
    },
    peers = { title = "Beside ngx.shared", prefix = "peers-",
        { "side_by_side", "dictionaries" },
        { "shared_keys", "make" },
    },
    locks = { title = "Locks", prefix = "locks-",
        { "side_by_side", "locks" },
        { "own_keys", "all" },
        { "counts", "make" },
        { "between_processes", "make" },
        { "short_sections", "make" },
        { "fairness", "make" },
        { "many_holders", "make" },
        { "crowd", "make" },
        { "idle", "make" },
        { "one_value", "make" },
        { "curves", "make" },
    },
    hosts = { title = "Hosts", prefix = "hosts-",
        { "hosts", "make" },
    },
    uses = { title = "Caches, queues and events", prefix = "uses-",
        { "caches", "make" },
        { "queues", "make" },
        { "events", "make" },
        { "versions", "make" },
    },
    count = { title = "Instructions",
        { "instructions", "check" },
    },
    record = { title = "Instructions", file = "instructions",
        { "instructions", "record" },
    },
}

local build, suite = arg[1], SUITES[arg[2]] or require(arg[2] .. ".bench.suite")
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


-- Writes the tables to a file and the points of the curves, if there are any, to another.
local function keep(name, figures, description)
    local path = (suite.results or "bench/results/") .. name
    local file = assert(io.open(path .. ".md", "w"))
    file:write(table.concat(text))
    file:close()
    print("\nkept in " .. path .. ".md")
    if not figures:is_empty() then
        figures:write(path .. ".csv", description)
        print("kept in " .. path .. ".csv; bench/plot draws it")
    end
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
    figures = points.new(),
}
local description = {}

say("# ", suite.title, quick and " (quick: for trying out only)" or "", "\n\n")
for _, entry in ipairs(report.describe(build)) do
    say("- ", entry[1], ": ", entry[2], "\n")
    description[#description + 1] = entry[1] .. ": " .. entry[2]
end
say("- ", suite.peer and suite.peer(context) or "nginx: " .. (nginx_version or why_not), "\n")
say("- load before: ", report.load(), "\n")

local function make_tables()
    for _, entry in ipairs(suite) do
        local name, make = unpack(entry)
        local wanted = not only or only == name
        local module = wanted and require((suite.modules or "bench.tables.") .. name)
        for _, found in ipairs(module and { module[make](context) } or {}) do
            say("\n## ", found.title, "\n\n", report.table(found.headings, found.rows))
            if found.note then
                say("\n", found.note, "\n")
            end
        end
    end
end


local ok, err = xpcall(make_tables, debug.traceback)
if suite.clean_up then
    suite.clean_up()
end
if not ok then
    error(err, 0)
end
say("\n- load after: ", report.load(), "\n")

if runs.failures > 0 then
    io.stderr:write("bench/run: not everything worked; nothing is kept\n")
    os.exit(1)
end
if not quick and not only and (suite.file or suite.prefix) then
    keep(suite.file or suite.prefix .. begun, context.figures, description)
end
