-- Runs all parts, one after the other, and prints what they found. Started by bench/run.

local machine = require "bench.support.machine"
local nginx = require "bench.support.nginx"
local parts = require "bench.parts"
local report = require "bench.support.report"

local build, quick = arg[1], arg[2] == "--quick"
local root, folder = os.getenv("HOLDFAST_BENCH_ROOT"), os.getenv("HOLDFAST_BENCH_FOLDER")
local text = {}


local function say(...)
    local words = table.concat({ ... })
    text[#text + 1] = words
    io.write(words)
    io.flush()
end


local function print_table(title, headings, rows)
    say("\n## ", title, "\n\n", report.table(headings, rows))
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
    build = build,
    nginx = nginx_version and folder .. "/nginx",
    why_not = why_not,
}

say("# Benchmarks", quick and " (quick: for trying out only)" or "", "\n\n")
for _, entry in ipairs(machine.describe(build)) do
    say("- ", entry[1], ": ", entry[2], "\n")
end
say("- nginx: ", nginx_version or why_not, "\n- load before: ", machine.load(), "\n")

local loops, peer, plain = parts.loops(context)
local pairs_of_processes = parts.between_processes(context)
local memory = parts.memory(context)

print_table("Side by side", { "what", "holdfast", "against", "ratio (middle half)", "target", "distance" }, loops)
say("\nAgainst: ", peer, ". Processor time per step, medians of all rounds.\n")
print_table("Between processes", { "what", "holdfast", "against", "target", "distance" }, pairs_of_processes)
print_table("Memory", { "what", "holdfast", "against", "target", "distance" }, memory)
print_table("The same loops in plain LuaJIT", { "what", "holdfast", "middle half" }, plain)
print_table("One call in C++", { "what", "processor time", "standard deviation" }, parts.micro(context))
say("\n- load after: ", machine.load(), "\n")

if parts.failures > 0 then
    io.stderr:write("bench/run: not everything worked; nothing is kept\n")
    os.exit(1)
end
if not quick then
    keep(begun)
end
