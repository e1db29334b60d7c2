-- Measures, and prints tables of what was found. Started by bench/run: main.lua BUILD SUITE [--quick]

local machine = require "bench.support.machine"
local nginx = require "bench.support.nginx"
local report = require "bench.support.report"
local runs = require "bench.support.runs"
local side_by_side = require "bench.tables.side_by_side"

local SUITES = {
    bench = {
        side_by_side.some,
        require("bench.tables.between_processes").make,
        require("bench.tables.memory").make,
        require("bench.tables.hit_ratio").make,
        require("bench.tables.opening").make,
        require("bench.tables.micro").make,
    },
    peers = {
        side_by_side.all,
        require("bench.tables.mixed").make,
    },
}
local TITLES = { bench = "Benchmarks", peers = "Beside ngx.shared" }
-- How a file of results begins.
local PREFIXES = { bench = "", peers = "peers-" }

local build, suite, quick = arg[1], arg[2], arg[3] == "--quick"
local root, folder = os.getenv("HOLDFAST_BENCH_ROOT"), os.getenv("HOLDFAST_BENCH_FOLDER")
local text = {}


local function say(...)
    local words = table.concat({ ... })
    text[#text + 1] = words
    io.write(words)
    io.flush()
end


local function keep(name)
    local path = "bench/results/" .. name .. ".md"
    local file = assert(io.open(path, "w"))
    file:write(table.concat(text))
    file:close()
    print("\nkept in " .. path)
end


local begun = os.date("!%Y-%m-%d-%H%M")
local nginx_version, why_not = nginx.find(folder .. "/nginx", root)
local context = {
    quick = quick,
    root = root,
    folder = folder,
    build = build,
    nginx = nginx_version and folder .. "/nginx",
    why_not = why_not,
}

say("# ", TITLES[suite], quick and " (quick: for trying out only)" or "", "\n\n")
for _, entry in ipairs(machine.describe(build)) do
    say("- ", entry[1], ": ", entry[2], "\n")
end
say("- nginx: ", nginx_version or why_not, "\n- load before: ", machine.load(), "\n")

for _, make in ipairs(SUITES[suite]) do
    for _, found in ipairs(make(context)) do
        say("\n## ", found.title, "\n\n", report.table(found.headings, found.rows))
        if found.note then
            say("\n", found.note, "\n")
        end
    end
end
say("\n- load after: ", machine.load(), "\n")

if runs.failures > 0 then
    io.stderr:write("bench/run: not everything worked; nothing is kept\n")
    os.exit(1)
end
if not quick then
    keep(PREFIXES[suite] .. begun)
end
