-- Tests dictionary/admin.lua and lock/lock_info.lua: how long locks were waited for and held, the keys with contention,
-- and what blocked a wait that failed.

local expect, fixture, keep, process = require "spec.support" ("expect", "fixture", "keep", "process")
local getpid = require("ffi").C.getpid
local resty_lock = require "resty.lock"
local rwlock = require "resty.rwlock"
local scheduler = require "resty.holdfast.scheduler"
local semaphore = require "resty.semaphore"
local shdict = require "resty.shdict"

local NAME = "spec_contention"


-- Runs `wait(timeout)` in a task, while a second task holds what the first task wants for `seconds`.
local function run_both(hold, release, seconds, wait)
    hold()
    scheduler.spawn(wait)
    scheduler.spawn(function ()
        scheduler.sleep(seconds)
        release()
    end)
    assert.is_true((scheduler.run()))
end


describe("histograms", function ()
    local dict, new

    before_each(function ()
        dict = assert(shdict.open(NAME, { size = "100k" }))
        new = function (options) return assert(resty_lock:new(NAME, options)) end
    end)
    after_each(function ()
        process.clean_up()
        assert(shdict.remove(NAME))
    end)

    it("are empty in a new dictionary, for each kind and both times", function ()
        local histograms = assert(dict:histograms())
        for _, kind in ipairs { "lock", "rwlock", "semaphore" } do
            for _, time in ipairs { "waited", "held" } do
                assert.same({ count = 0, sum = 0, max = 0, p50 = 0, p90 = 0, p99 = 0, buckets = {} },
                            histograms[kind][time])
            end
        end
        assert.same({}, dict:contention())
    end)

    it("contain the waits of all kinds in the right buckets", function ()
        local cases = {
            lock = { new(), new(), "lock", "unlock" },
            rwlock = { rwlock:new(NAME), rwlock:new(NAME), "wrlock", "unlock" },
            semaphore = { semaphore:new(NAME, { permits = 1 }), semaphore:new(NAME, { permits = 1 }), "wait", "post" },
        }
        for kind, case in pairs(cases) do
            local first, second, take, give = unpack(case)
            run_both(function () assert(first[take](first, kind)) end, function () assert(first[give](first, kind)) end,
                     0.05, function ()
                assert(second[take](second, kind))
                assert(second[give](second, kind))
            end)
            local waited = assert(dict:histograms())[kind].waited
            assert.equal(1, waited.count)
            assert.is_true(waited.sum > 0.04 and waited.sum == waited.max)
            assert.is_true(math.abs(waited.p50 - waited.max) <= 0.032 * waited.max)
            assert.equal(1, #waited.buckets)
            assert.equal(1, waited.buckets[1].count)
            assert.is_true(waited.buckets[1].le > waited.max and waited.buckets[1].le < 1.07 * waited.max)
        end
        local kinds = {}
        for _, one in ipairs(assert(dict:contention())) do
            kinds[one.key] = one.kind
            assert.equal(1, one.waits)
            assert.equal(0, one.timeouts)
            assert.equal(0, one.refused)
        end
        assert.same({ lock = "lock", rwlock = "rwlock", semaphore = "semaphore" }, kinds)
    end)

    it("count the waits of all processes, even of killed processes", function ()
        local child = process.start(([[
            local lock = assert(require("resty.lock"):new(%q, { timeout = 0.05, block = true }))
            assert(keep(require("resty.lock"):new(%q)):lock("key"))
            say(select(2, lock:lock("key")))
            hear()
        ]]):format(NAME, NAME))
        child:expect "timeout"
        child:kill()
        assert.equal(1, assert(dict:histograms()).lock.waited.count)
        assert.equal(1, assert(dict:contention())[1].timeouts)
    end)
end)


describe("contention", function ()
    local dict, new = fixture.locks(resty_lock, NAME .. "_keys")

    local function of(key)
        for _, one in ipairs(assert(dict:contention())) do
            if one.key == key then
                return one
            end
        end
    end

    it("counts refusals for callers that do not wait, and each attempt of a caller that polls", function ()
        local holder = new()
        assert(holder:lock("refused"))
        for _ = 1, 3 do
            assert.is_nil((new():trylock("refused")))
        end
        assert.is_nil((new { timeout = 0 }:lock("refused")))
        assert.is_nil((new { timeout = 0.05, wait = "poll", step = 0.01, ratio = 1, block = true }:lock("refused")))
        local found = of "refused"
        assert.is_true(found.refused > 4 and found.refused < 20)
        assert.equal(0, found.waits)
        assert.equal(0, found.timeouts)
        assert.equal(0, found.wait_time)
    end)

    it("returns the keys with the most contention first, and no more keys than requested", function ()
        local holders = {}
        for i = 1, 5 do
            holders[i] = new()
            assert(holders[i]:lock("key " .. i))
            for _ = 1, 1000 * i do
                new():trylock("key " .. i)
            end
        end
        local order = {}
        for _, one in ipairs(assert(dict:contention())) do
            if one.key:find("^key ") then
                order[#order + 1] = one.key
            end
        end
        assert.same({ "key 5", "key 4", "key 3", "key 2", "key 1" }, order)
        assert.equal(2, #dict:contention(2))
        assert.equal('bad "max_count" argument: expected a number, got table', expect.blamed(function ()
            local keys = dict:contention {}
            return keys
        end))
    end)
end)


describe("log_timeouts", function ()
    local dict, new = fixture.locks(resty_lock, NAME .. "_log")
    local lines

    local function log(line)
        lines[#lines + 1] = line
    end

    before_each(function () lines = {} end)

    it("logs the key, the holder, its start time and its reason when a wait times out", function ()
        assert(keep(new()):lock("key", { why = "to write the report" }))
        local lock = new { timeout = 0.05, block = true, log_timeouts = log }
        assert.same({ nil, "timeout" }, { lock:lock("key") })
        assert.equal(1, #lines)
        assert.matches('^lock "key" of dictionary "spec_contention_log": timeout after 0%.050 s; held by [^\n]+ '
                       .. "%(process " .. getpid() .. '%) for 0%.%d%d%d s, why: "to write the report"', lines[1])
    end)

    it("escapes control characters in the name of the holder's program, which may contain any bytes", function ()
        local child = process.start(([[
            arg = { [0] = "a\nb\27[2J\127\194\155c" }
            assert(keep(require("resty.lock"):new(%q)):lock("key"))
            say "held"
            hear()
        ]]):format(NAME .. "_log"))
        child:expect "held"
        assert.is_nil((new { timeout = 0.02, block = true, log_timeouts = log }:lock("key")))
        local named = "held by a\\x0Ab\\x1B[2J\\x7F\\xC2\\x9Bc (process " .. child.pid .. ")"
        assert.truthy(lines[1]:find(named, 1, true), lines[1])
    end)

    it("logs nothing if there was no wait, or if the wait succeeded", function ()
        local lock = new { timeout = 5, block = true, log_timeouts = log }
        assert(lock:lock("key"))
        assert(lock:unlock())
        assert(keep(new()):lock("key"))
        assert.same({ nil, "held" }, { lock:trylock("key") })
        assert.same({ nil, "timeout" }, { lock:lock("key", { timeout = 0 }) })
        assert.same({}, lines)
    end)

    it("names up to three holders of an rwlock or a semaphore", function ()
        local name = NAME .. "_log"
        local readers = {}
        for i = 1, 5 do
            readers[i] = rwlock:new(name)
            assert(readers[i]:rdlock("doc", { why = "reader " .. i }))
        end
        local writer = rwlock:new(name, { timeout = 0.05, block = true, log_timeouts = log })
        assert.is_nil((writer:wrlock("doc")))
        assert.matches('^rwlock "doc" .+ why: "reader 1" and by .+ "reader 2" and by .+ "reader 3" and by others',
                       lines[1])
        local pool = semaphore:new(name, { permits = 1, timeout = 0.05, block = true, log_timeouts = log })
        assert(pool:wait("pool"))
        assert.is_nil((pool:wait("pool")))
        assert.matches('^semaphore "pool" of dictionary', lines[2])
        assert.equal(2, #lines)
    end)

    it("logs a value that blocks the key, and ignores errors of the function", function ()
        dict:set("key", 5)
        local lock = new { timeout = 0.02, block = true, log_timeouts = log }
        assert.is_nil((lock:lock("key")))
        assert.matches("no longer held$", lines[1])
        lock = new { timeout = 0.02, block = true, log_timeouts = function () error("no") end }
        assert.same({ nil, "timeout" }, { lock:lock("key") })
    end)

    it("writes to standard error if no function is given", function ()
        local child = process.start(([[
            io.stderr = { write = function (_, text) say((text:gsub("held by .*", "held by"))) end }
            assert(keep(require("resty.lock"):new(%q)):lock("key"))
            local lock = require("resty.lock"):new(%q, { timeout = 0.02, block = true, log_timeouts = true })
            lock:lock("key")
            hear()
        ]]):format(NAME .. "_log", NAME .. "_log"))
        child:expect('holdfast: lock "key" of dictionary "spec_contention_log": timeout after 0.020 s; held by')
    end)

    it("is a boolean or a function", function ()
        for _, bad in ipairs { "yes", 1, {} } do
            assert.has_error(function () new { log_timeouts = bad } end)
        end
        assert(new { log_timeouts = false })
    end)
end)
