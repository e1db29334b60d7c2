-- Tests resty.holdfast.prometheus and lock/lock_info.lua: the metrics have the format of Prometheus and correct values,
-- and the manual names exactly the metrics that exist.

local command, files, fixture, process, shell, site, waits =
    require "spec.support" ("command", "files", "fixture", "process", "shell", "site", "waits")
local lock_info = require "resty.holdfast.lock.lock_info"
local prometheus = require "resty.holdfast.prometheus"
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"

local NAMES = { "spec_metrics", "spec metrics \"2\"\\%\n" }
local MANUAL = "docs/resty.holdfast.prometheus.md"

local checked = fixture.it_unless(not shell.succeeds("command -v promtool >/dev/null") and "promtool is not installed")


-- Returns the families in a text as { name = type }, and the samples as { ["name{labels}"] = value }.
local function parse(text)
    local families, samples = {}, {}
    for line in text:gmatch("[^\n]+") do
        local family, kind = line:match("^# TYPE (%S+) (%S+)$")
        local sample, value = line:match("^([^#].*) (%S+)$")
        if family then
            families[family] = kind
        elseif sample then
            assert(not samples[sample], "twice: " .. sample)
            samples[sample] = tonumber(value) or value
        end
    end
    return families, samples
end


-- Returns the metrics, however long it takes to count the locks that other specs have left.
local function metrics(options)
    local computed = lock_info.computed
    lock_info.computed = function () return 0 end
    local ok, text, content_type = pcall(prometheus.metrics, options)
    lock_info.computed = computed
    assert(ok, text)
    return text, content_type
end


-- Returns the families that the manual names.
local function described()
    local families = {}
    for name, kind in files.read(MANUAL):gmatch("\n| `(holdfast_[%w_]+)` | (%w+) |") do
        families[name] = kind
    end
    return families
end


describe("resty.holdfast.prometheus", function ()
    local dict, other

    before_each(function ()
        command.set_up()
        dict = assert(shdict.open(NAMES[1], { size = "100k" }))
        other = assert(shdict.open(NAMES[2], { size = "1m" }))
    end)

    after_each(function ()
        process.clean_up()
        for _, name in ipairs { "spec_metrics.claims", "spec_pages", "spec_jobs", "spec_jobs.claims",
                                "spec_jobs.workers", unpack(NAMES) } do
            shdict.remove(name)
        end
        command.tear_down()
    end)

    -- Makes every call that a plain dictionary counts.
    local function fill()
        dict:set("value", 1)
        dict:get("value")
        dict:get("nothing")
        local lock = assert(resty_lock:new(NAMES[1]))
        for _ = 1, 3 do
            assert(lock:lock("free"))
            assert(lock:unlock())
        end
        assert(lock:lock("held"))
        assert.same({ nil, "timeout" }, { resty_lock:new(NAMES[1], { timeout = 0.2 }):lock("held") })
        return lock
    end

    -- Makes every call that caches and queues count.
    local function use_modules()
        local jobs = assert(require("resty.holdfast.queue").open("spec_jobs", { size = "100k", max_attempts = 1 }))
        assert(jobs:push(0, { delay = 3000 }))
        for i = 1, 4 do
            assert(jobs:push(i))
        end
        assert(jobs:take(0))
        assert(jobs:take(0):retry())
        local pages = assert(require("resty.holdfast.cache").new("pages", "spec_pages", { size = "100k" }))
        for i, name in ipairs { "none", "l2_hits", "stale", "loads", "load_errors", "refreshes", "waits", "timeouts",
                                "not_stored" } do
            pages.counts[name] = i
        end
        pages.left[0] = pages.left[0] - 1
        pages:get("key", nil, function () return 1 end)
        return jobs, pages
    end

    it("has the counts of each dictionary, and of its locks", function ()
        local lock = fill()
        local text, content_type = metrics()
        assert.equal("text/plain; version=0.0.4; charset=utf-8", content_type)
        local families, samples = parse(text)
        assert.equal("counter", families.holdfast_dictionary_hits_total)
        assert.equal(102400, samples['holdfast_dictionary_capacity_bytes{dictionary="spec_metrics"}'])
        assert.equal(1, samples['holdfast_dictionary_hits_total{dictionary="spec_metrics"}'])
        assert.equal(1, samples['holdfast_dictionary_misses_total{dictionary="spec_metrics"}'])
        assert.equal(1, samples['holdfast_locks_held{dictionary="spec_metrics",kind="lock"}'])
        assert.equal(0, samples['holdfast_lock_waiters{dictionary="spec_metrics"}'])
        assert.equal(0, samples['holdfast_lock_longest_wait_seconds{dictionary="spec_metrics"}'])
        assert.is_true(samples['holdfast_lock_longest_hold_seconds{dictionary="spec_metrics",waiters="no"}'] >= 0.2)
        assert.equal(0, samples['holdfast_lock_longest_hold_seconds{dictionary="spec_metrics",waiters="yes"}'])
        local labels = 'dictionary="spec_metrics",kind="lock"'
        assert.equal(1, samples["holdfast_lock_wait_seconds_count{" .. labels .. "}"])
        assert.equal(1, samples["holdfast_lock_wait_seconds_bucket{" .. labels .. ',le="+Inf"}'])
        assert.equal(0, samples["holdfast_lock_wait_seconds_bucket{" .. labels .. ',le="0.005"}'])
        assert.is_true(samples["holdfast_lock_wait_seconds_sum{" .. labels .. "}"] >= 0.01)
        lock:unlock()
        assert.equal(0, select(2, parse((metrics())))['holdfast_locks_held{' .. labels .. "}"])
    end)

    it("has the longest current wait of living callers that want the lock, and the longest current hold", function ()
        local lock = fill()
        waits.sleep(0.1)
        local function child(code)
            local started = process.start(([[
                local lock = require("resty.lock"):new("spec_metrics", { timeout = 100, block = true })
                say "ready"
                %s
            ]]):format(code))
            assert.equal("ready", started:hear())
            return started
        end
        local function longest()
            local _, samples = parse((metrics()))
            local hold = 'holdfast_lock_longest_hold_seconds{dictionary="spec_metrics",waiters='
            return samples['holdfast_lock_longest_wait_seconds{dictionary="spec_metrics"}'], samples[hold .. '"yes"}'],
                   samples[hold .. '"no"}'], samples['holdfast_lock_waiters{dictionary="spec_metrics"}']
        end
        child [[ lock:wait "held" ]]
        assert(waits.await(function () return select(4, longest()) == 1 end))
        local wait, contended = longest()
        assert.same({ 0, 0 }, { wait, contended })
        local waiter = child [[ lock:lock "held" ]]
        assert(waits.await(function () return (longest()) > 0.1 end))
        local free
        wait, contended, free = longest()
        assert.is_true(contended > wait + 0.1, contended)
        assert.equal(0, free)
        waiter:kill(process.KILL)
        assert(waits.await(function () return (longest()) == 0 end, 5))  -- the waiter stays in the queue
        lock:unlock()
    end)

    it("counts the dictionaries that cannot be opened", function ()
        local function unreadable() return (select(2, parse((metrics())))).holdfast_dictionaries_unreadable end
        local before = unreadable()  -- left by other specs
        local path = os.getenv("HOLDFAST_DIR") .. "/spec_unreadable.dict"
        command.write(path, "nothing")
        local found = unreadable()
        os.remove(path)
        assert.equal(before + 1, found)
    end)

    it("counts the locks of each dictionary only now and then if there is no time to count all of them", function ()
        local more = { "spec_metrics_left", "spec_metrics_out", "spec_metrics_for", "spec_metrics_good" }
        for _, name in ipairs(more) do
            assert(shdict.open(name, { size = "100k" }))
        end
        local computed, count = lock_info.computed, lock_info.count_all
        finally(function ()
            lock_info.computed, lock_info.count_all = computed, count
            for _, name in ipairs(more) do
                shdict.remove(name)
            end
        end)
        local time = 0
        lock_info.computed = function () return time end
        lock_info.count_all = function (_, seconds)
            if seconds < 0.002 then
                return nil, "timeout"
            end
            time = time + 0.002
            return { held = { lock = 1 }, waiters = 0, longest_wait = 0, longest_hold = {} }
        end
        local counted = {}
        for _ = 1, #shdict.list() do
            for line in assert(prometheus.metrics()):gmatch "\nholdfast_locks_held{([^\n]*)} 1" do
                counted[line:match '^dictionary="(.-)",kind='] = true
            end
        end
        for _, name in ipairs(more) do
            assert.is_true(counted[name], name)
        end
    end)

    it("has histograms that never decrease from one bound to the next", function ()
        fill()
        local last = {}
        for line in metrics():gmatch("[^\n]+") do
            local family, count = line:match('^(holdfast_lock_%a+_seconds_bucket{.*)le="[^"]+"} (%d+)$')
            if family then
                assert.is_true(tonumber(count) >= (last[family] or 0), line)
                last[family] = tonumber(count)
            end
        end
        assert.truthy(next(last))
    end)

    it("writes names that contain any bytes as labels", function ()
        other:set("key", 1)
        local _, samples = parse((metrics()))
        local labels = '{dictionary="spec metrics \\"2\\"\\\\%25\\n"}'
        assert.equal(1048576, samples["holdfast_dictionary_capacity_bytes" .. labels])
    end)

    it("includes keys with contention only on request, and omits the locks on request", function ()
        fill()
        local _, samples = parse((metrics { keys = 5, locks = false }))
        assert.equal(1, samples['holdfast_key_waits_total{dictionary="spec_metrics",kind="lock",key="held"}'])
        assert.is_nil(samples['holdfast_lock_waiters{dictionary="spec_metrics"}'])
        assert.is_nil(metrics():find("holdfast_key", 1, true))
    end)

    it("adds up the values of long keys that begin with the same 72 bytes", function ()
        local start = ("k"):rep(72)
        for _, key in ipairs { start .. "one", start .. "two", start } do
            local lock, waiter = resty_lock:new(NAMES[1]), resty_lock:new(NAMES[1], { timeout = 0.05, block = true })
            assert(lock:lock(key))
            assert.same({ nil, "timeout" }, { waiter:lock(key) })
            assert(lock:unlock())
        end
        local _, samples = parse((metrics { keys = 64 }))
        local labels = '{dictionary="spec_metrics",kind="lock",key="' .. start .. '"}'
        assert.equal(3, samples["holdfast_key_waits_total" .. labels])
        -- Because the clock is coarse, each wait may seem 10 ms shorter, but two waits together last at least this
        -- long.
        assert.is_true(samples["holdfast_key_wait_seconds_total" .. labels] >= 0.12)
    end)

    it("counts holders and waiters by kind, without listing them", function ()
        local held = {}
        for i = 1, 120 do
            held[i] = assert(resty_lock:new(NAMES[1]))
            assert(held[i]:lock("key" .. i))
        end
        local pool = assert(require("resty.semaphore"):new(NAMES[1], { permits = 2 }))
        assert(pool:wait("pool"))
        local found = assert(lock_info.count_all(dict[1], 60))
        assert.same({ lock = 120, rwlock = 0, semaphore = 1 }, found.held)
        assert.equal(0, found.waiters)
        pool:post("pool")
        assert.same(found.held.lock, #dict:locks())
    end)

    it("omits a dictionary's locks if counting them would block other tasks for too long", function ()
        local held = {}
        other = assert(shdict.open("spec_many", { size = "64m" }))
        finally(function () shdict.remove "spec_many" end)
        for i = 1, 40000 do
            held[i] = assert(resty_lock:new("spec_many"))
            assert(held[i]:lock("key" .. i))
        end
        assert.same({ nil, "timeout" }, { lock_info.count_all(other[1], 0) })
        local _, samples = parse((prometheus.metrics()))
        assert.is_nil(samples['holdfast_locks_held{dictionary="spec_many",kind="lock"}'])
        assert.is_nil(samples['holdfast_lock_waiters{dictionary="spec_many"}'])
        assert.equal(67108864, samples['holdfast_dictionary_capacity_bytes{dictionary="spec_many"}'])
        assert.equal(40000, lock_info.count_all(other[1], 60).held.lock)
    end)

    it("limits processor time and not elapsed time, so that a busy machine does not hide the numbers", function ()
        local child = process.start [[
            local lock_info = require "resty.holdfast.lock.lock_info"
            local dict = assert(require("resty.shdict").open("spec_metrics"))
            local held = {}
            for i = 1, 120 do
                held[i] = assert(require("resty.lock"):new("spec_metrics"))
                assert(held[i]:lock("key" .. i))
            end
            say "counting"
            local left_out, stop = 0, dict:get("stop")
            while not stop do
                for _ = 1, 20 do
                    left_out = left_out + (lock_info.count_all(dict[1], 0.02) and 0 or 1)
                end
                stop = dict:get("stop")
            end
            say(left_out)
        ]]
        assert.equal("counting", child:hear())
        for _ = 1, 20 do
            child:kill(process.STOP)
            waits.sleep(0.03)
            child:kill(process.CONT)
            waits.sleep(0.001 + math.random() / 1000)
        end
        assert(dict:set("stop", true))
        assert.equal("0", child:hear())
    end)

    it("has the counts of caches, which the caches add to the dictionary about once a second", function ()
        local before = waits.now()
        local _, pages = use_modules()
        local function counts()
            local _, samples = parse((metrics()))
            local hits = 'holdfast_cache_hits_total{dictionary="spec_pages",level='
            return samples[hits .. '"1"}'], samples[hits .. '"2"}'], samples[hits .. '"stale"}'],
                   samples['holdfast_cache_loads_total{dictionary="spec_pages"}'],
                   samples['holdfast_cache_not_stored_total{dictionary="spec_pages"}']
        end
        assert.same({ 1, 2, 3, 4, 9 }, { counts() })
        assert.is_true(pages.publish_at > before + 0.9)
        pages.publish_at = math.huge  -- nothing is published, even if the machine stalls for a second
        pages:get("key 2", nil, function () return 1 end)
        assert.same({ 1, 2, 3, 4, 9 }, { counts() })
        local another = assert(require("resty.holdfast.cache").new("others", "spec_pages"))
        for _, cache in ipairs { pages, another } do
            cache.counts.loads = cache.counts.loads + 100
            cache.publish_at = 0
            cache:get("key 3", nil, function () return 1 end)
        end
        assert.same({ 1, 2, 3, 4 + 2 + 100 + 100, 9 }, { counts() })
    end)

    it("has the jobs of queues, but no jobs for a dictionary that only has a queue's name", function ()
        local jobs = use_modules()
        assert(shdict.open("spec_metrics.claims", { size = "100k" }))
        local _, samples = parse((metrics()))
        local function of(family, state)
            return samples["holdfast_queue_" .. family .. '{dictionary="spec_jobs"'
                           .. (state and ',state="' .. state .. '"}' or "}")]
        end
        assert.same({ 2, 2, 1, 1, 1 }, { of "waiting", of("jobs", "ready"), of("jobs", "delayed"), of("jobs", "taken"),
                                         of("jobs", "dead") })
        assert.is_true(of "oldest_seconds" >= 0)
        assert.is_nil(samples['holdfast_queue_waiting{dictionary="spec_metrics"}'])
        for i = 1, 1000 do
            assert(jobs:push(i))
        end
        _, samples = parse((metrics()))
        assert.equal(1002, of "waiting")
        assert.is_nil(of("jobs", "ready"))
    end)

    it("has the families that the manual describes", function ()
        fill()
        use_modules()
        local families, manual = parse((metrics { keys = 1 })), described()
        for name, kind in pairs(families) do
            assert.equal(kind, manual[name], name)
        end
        for name in pairs(manual) do
            assert.is_true(families[name] ~= nil or name:find("^holdfast_cluster_") ~= nil, name)
        end
    end)

    it("ends OpenMetrics text correctly, and names families of counters without _total", function ()
        local text, content_type = metrics { openmetrics = true }
        assert.equal("application/openmetrics-text; version=1.0.0; charset=utf-8", content_type)
        assert.equal("# EOF\n", text:sub(-6))
        local families, samples = parse(text)
        assert.equal("counter", families.holdfast_dictionary_hits)
        assert.equal(0, samples['holdfast_dictionary_hits_total{dictionary="spec_metrics"}'])
    end)

    checked("passes the check of promtool", function ()
        fill()
        command.write("metrics", (metrics { keys = 64 }))
        local ended, out, err = command.run("-c", "promtool check metrics <'" .. command.path("metrics") .. "'",
                                            { PROGRAM = "/bin/sh" })
        assert.same({ code = 0 }, ended, out .. err)
        assert.equal("", out .. err)
    end)

    it("names a bad option in its error, and reports the caller's line", function ()
        for _, case in ipairs {
            { { keys = 65 }, 'bad option "keys": expected a whole number from 0 to 64, got 65' },
            { { keys = "x" }, 'bad option "keys": expected a whole number from 0 to 64, got "x"' },
            { { key = 1 }, 'unknown option "key": expected keys, locks or openmetrics' },
            { 5, "bad options: expected a table, got 5" },
        } do
            local ok, err = pcall(function () prometheus.metrics(case[1]) end)
            assert.is_false(ok)
            assert.equal("spec/prometheus_spec.lua", err:match("^(.-):%d+: "))
            assert.equal(case[2], err:match("^.-:%d+: (.*)$"))
        end
    end)

    it("explains where serve can be used", function ()
        local ok, err = pcall(prometheus.serve)
        assert.is_false(ok)
        assert.truthy(err:find("serve() works only in an nginx request; elsewhere, use metrics()", 1, true), err)
    end)
end)


describe("resty.holdfast.prometheus in nginx", function ()
    local in_nginx = fixture.it_unless(site.missing())

    after_each(site.clean_up)

    in_nginx("answers with the metrics in the requested format", function ()
        local here = site.start {
            dictionaries = { spec_metrics = "1m" },
            locations = {
                ["/use"] = [[
                    local lock = require("resty.lock"):new("spec_metrics")
                    lock:lock("key")
                    ngx.say(lock:unlock())
                ]],
                ["/metrics"] = [[require("resty.holdfast.prometheus").serve()]],
            },
        }
        here:get("/use")
        local families = parse((here:get("/metrics")))
        assert.equal("gauge", families.holdfast_dictionary_capacity_bytes)
        assert.is_nil(families.holdfast_dictionary_hits)
    end)
end)
