-- Tests the checks that `make bench-cluster` makes: its locks exclude each other, and an overlap is detected.

local figures, process, stats = require "bench.support" ("figures", "process", "stats")
local contest = require "cluster.bench.contest"
local etcd = require "cluster.bench.etcd"
local shared_page = require "cluster.bench.shared_page"
local command, files, fixture, shell = require "spec.support" ("command", "files", "fixture", "shell")
local ffi = require "ffi"

local root = shell.output("pwd")
local BUILD = shell.output("dirname -- \"${HOLDFAST_LIB:-" .. root .. "/build/libholdfast.so}\"")
local CLIENTS = BUILD .. "/cluster/bench/cluster_clients"
local no_clients = not shell.succeeds("[ -x '" .. CLIENTS .. "' ]") and CLIENTS .. " is not built" or nil
local missing = no_clients
                or not shell.succeeds("[ -x '" .. BUILD .. "/holdfast-agent' ]") and "there is no agent"
                or not shell.succeeds("command -v etcd >/dev/null") and "etcd is not installed"
                or not shell.succeeds("command -v curl >/dev/null") and "curl is not installed"
                or nil


describe("The page that contenders share", function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    local function open(self)
        return shared_page.open(command.path("page"), self)
    end

    it("counts sections and no overlaps if one section follows the other", function ()
        local page, first, second = open(), open(0), open(1)
        for _ = 1, 3 do
            first:section(0)
            second:section(0)
        end
        assert.same({ 0, 0, 6 }, { first.overlaps, second.overlaps, page:sections() })
    end)

    it("detects a contender that enters another's section", function ()
        local page = open(1)
        page.page.owner = 1
        page:section(0)
        assert.equal(1, page.overlaps)
    end)

    it("does not start before all contenders have arrived", function ()
        local page, first, second = open(), open(0), open(1)
        first.page.ready[0] = 1
        assert.equal(0, page.page.start)
        second.page.ready[1] = 1
        assert.is_true(page:await(2))
        page:start()
        assert.is_true(first:await_start() == second:await_start())
    end)

    -- Sections of this length overlap on every machine.
    fixture.it_unless(no_clients)("is the same in C++, and detects that contenders without a lock overlap", function ()
        local page, children = open(), {}
        for i = 1, 4 do
            children[i] = process.start(CLIENTS, "none", { page = command.path("page"), process = i - 1, held = 0.01,
                                                           pause = 0, seconds = 0.2, url = "-", space = "-" })
        end
        assert.is_true(page:await(4))
        page:start()
        local sections, overlaps = 0, 0
        for _, child in ipairs(children) do
            for words in child.lines() do
                if words[1] == "contender" then
                    sections, overlaps = sections + words[2], overlaps + words[3]
                end
            end
            child.close()
        end
        assert.is_true(overlaps > 0)
        assert.is_true(page:sections() > 0 and page:sections() < sections)
    end)
end)


describe("Contenders for one lock over etcd", function ()
    local cluster, context
    local it = fixture.it_unless(missing)

    before_each(function ()
        command.set_up()
        if not missing then
            ffi.C.setenv("HOLDFAST_BENCH_ROOT", root, 1)
            context = { root = root, build = BUILD, folder = command.world() }
            cluster = assert(etcd.start(command.path("etcd"), 1))
        end
    end)

    after_each(function ()
        if cluster then
            cluster:stop()
            cluster = nil
        end
        ffi.C.unsetenv("HOLDFAST_BENCH_ROOT")
        command.tear_down()
    end)

    for _, entry in ipairs {
        { what = "by its lock service", side = "stock", contenders = 3 },
        { what = "by a queue of keys", side = "fixed", contenders = 4 },
        { what = "by the agents of two machines", side = "holdfast", machines = 2, contenders = 4 },
    } do
        it("get the lock in turn " .. entry.what, function ()
            local found = assert(contest.run(context, cluster, entry, 0.5))
            assert.equal(0, found.overlaps)
            assert.is_true(found.acquired > 0)
            assert.is_true(found.requests > 0)
            assert.is_true(found.longest > 0 and stats.histogram_percentile(found.waits, 1) >= found.longest)
        end)
    end

    it("report no result if one of them fails", function ()
        cluster.urls[1] = "http://127.0.0.1:1"
        local found, err = contest.run(context, cluster, { side = "fixed", contenders = 1 }, 0.1)
        assert.is_nil(found)
        assert.matches("127.0.0.1:1", err, 1, true)
    end)

    it("leave no process and no file behind", function ()
        assert(contest.run(context, cluster, { side = "holdfast", machines = 1, contenders = 1 }, 0.1))
        local pid = cluster.nodes[1].pid
        cluster:stop()
        cluster = nil
        assert.is_false(shell.succeeds("kill -0 " .. pid .. " 2>/dev/null"))
        assert.equal("", shell.output("ls -A " .. command.world()))
        assert.is_false(shell.succeeds("[ -e " .. command.path("etcd") .. " ]"))
    end)
end)


it("The figures in cluster/docs/benchmarks.md match the result files, as bench/publish writes them", function ()
    local text = files.read("cluster/docs/benchmarks.md")
    assert.is_true(#figures.sources(text) > 0)
    assert.equal(assert(figures.update(text, files.find)), text)
end)


describe("The share of a histogram", function ()
    it("is reached at the end of a bucket", function ()
        local histogram = {}
        for _, seconds in ipairs { 0.001, 0.001, 0.001, 0.1 } do
            stats.count(histogram, seconds)
        end
        assert.is_near(0.001, stats.histogram_percentile(histogram, 0.5), 0.0002)
        assert.is_near(0.1, stats.histogram_percentile(histogram, 0.99), 0.02)
    end)
end)
