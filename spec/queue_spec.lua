-- Tests resty.holdfast.queue (queue.lua, queue/claims.lua): jobs that several processes push and take.

local expect, pack, process = require "spec.support" ("expect", "pack", "process")
local claims = require "resty.holdfast.queue.claims"
local core = require "resty.holdfast.core"
local queue = require "resty.holdfast.queue"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"
local sleep = require("resty.holdfast.host.none").sleep

local NAME = "spec_queue"
local now = core.C.holdfast_now

-- Opens the queue as `jobs` in child processes.
local OPEN = [[
    local queue = require "resty.holdfast.queue"
    local jobs = assert(queue.open("spec_queue", { size = "100k", persist = false }))
]]


local function remove()
    for _, suffix in ipairs { "", ".claims", ".workers" } do
        shdict.remove(NAME .. suffix)
    end
end


describe("queue", function ()
    local function open(opts)
        opts = opts or {}
        opts.size, opts.persist = opts.size or "100k", false
        return assert(queue.open(NAME, opts))
    end

    local jobs

    before_each(function ()
        remove()
        jobs = open()
    end)

    after_each(process.clean_up)

    -- Takes a job and ends it. Returns its value, or the error if there is one.
    local function finish(timeout, from)
        local job, err = (from or jobs):take(timeout or 0)
        if not job then
            return err
        end
        assert(job:done())
        return job.value
    end

    local function push(...)
        for _, value in ipairs { ... } do
            assert(jobs:push(value))
        end
    end

    describe("push and take", function ()
        it("hand out each job once, in the order of the pushes", function ()
            push("a", "b", "c")
            assert.same({ "a", "b", "c", "timeout" }, { finish(), finish(), finish(), finish() })
        end)

        it("keep the type and the bytes of a job", function ()
            for _, value in ipairs { "", "a\0b", 0, -1.5, true, false, ("x"):rep(10000), { 1, { a = "b" } } } do
                assert(jobs:push(value))
                assert.same(value, finish())
            end
        end)

        it("number the jobs in ascending order, and a job has its number, its attempts and its token", function ()
            local first, second = jobs:push("a"), jobs:push("b")
            assert.is_true(second > first)
            local job = jobs:take(0)
            assert.same({ first, 1, 1 }, { job.number, job.attempts, job:token() })
        end)

        it("wait for a job no longer than the timeout", function ()
            local start = now()
            assert.equal("timeout", finish(0.05))
            assert.is_true(now() - start >= 0.05)
        end)

        it("do not wait if a job is ready, however many unused numbers precede it", function ()
            for _ = 1, 3 do
                require("resty.holdfast.queue.claims").new_number(jobs.store)  -- like a producer that died early
            end
            push("a")
            assert.equal("a", finish(20))
        end)

        it("block only the coroutine that waits", function ()
            local order = {}
            scheduler.spawn(function ()
                local value = finish(20)
                order[#order + 1] = value
            end)
            scheduler.spawn(function ()
                scheduler.sleep(0.02)
                order[#order + 1] = "pushed"
                push("a")
            end)
            scheduler.run()
            assert.same({ "pushed", "a" }, order)
        end)

        it("give each of many waiting coroutines one job", function ()
            local got = {}
            for _ = 1, 50 do
                scheduler.spawn(function ()
                    local value = finish(20)
                    got[#got + 1] = value
                end)
            end
            scheduler.spawn(function ()
                for i = 1, 50 do
                    push(i)
                end
            end)
            scheduler.run()
            table.sort(got)
            assert.equal(50, #got)
            for i = 1, 50 do
                assert.equal(i, got[i])
            end
        end)

        it("wake a process that waits", function ()
            local child = process.start(OPEN .. [[
                say("ready")
                for _ = 1, 3 do
                    local job = assert(jobs:take(20))
                    job:done()
                    say(job.value)
                end
            ]])
            child:expect("ready")
            for _, value in ipairs { "a", "b", "c" } do
                push(value)
                child:expect(value)
            end
            child:expect_end()
        end)
    end)

    -- Starts a process that takes `count` jobs, waits for a line, and then runs `last`.
    local function start_worker(count, last, opts)
        local child = process.start(OPEN:gsub("false }", "false, " .. (opts or "") .. " }") .. ([[
            local taken = {}
            for i = 1, %d do
                taken[i] = assert(jobs:take(20))
            end
            say("taken")
            hear()
            %s
        ]]):format(count or 1, last or ""))
        child:expect("taken")
        return child
    end

    local function end_worker(child)
        child:kill()
        child:wait()
    end

    describe("a job of a dead worker", function ()
        it("is taken again before all other jobs, with one more attempt and a higher token", function ()
            push("a", "b", "c")
            end_worker(start_worker(2))
            for _, value in ipairs { "a", "b" } do
                local job = assert(jobs:take(20))
                assert.same({ value, 2, 2 }, { job.value, job.attempts, job:token() })
                job:done()
            end
            assert.equal("c", finish())
            assert.equal("timeout", finish(0.02))
        end)

        it("is taken again even if the process that noticed the death takes no more jobs", function ()
            push("a", "b")
            end_worker(start_worker(2))
            assert.equal("a", assert(jobs:take(20)).value)
            local child = process.start(OPEN .. [[
                jobs.store.full_at = math.huge  -- only the death may cause a scan
                say(assert(jobs:take(20)).value)
            ]])
            child:expect_end("b")
        end)

        it("is taken again even if another program has removed the lock of the dead worker", function ()
            push("a", "b", "c")
            assert(jobs:take(20)):done()  -- this process has already looked for dead workers
            end_worker(start_worker(2))
            shdict.shared[NAME .. ".workers"]:flush_expired()
            for _, value in ipairs { "b", "c" } do
                assert.equal(value, finish(20))
            end
        end)

        it("wakes a taker that waits", function ()
            push("a")
            local worker = start_worker()
            local child = process.start(OPEN .. [[
                say("waits")
                local job = assert(jobs:take(20))
                say(job.value, job.attempts, job:done())
            ]])
            child:expect("waits")
            sleep(0.05)
            end_worker(worker)
            child:expect_end("a\t2\ttrue")
        end)

        it("is also taken again if its worker has exited normally", function ()
            push("a")
            local child = start_worker()
            child:say("go")
            child:wait()
            assert.equal(2, assert(jobs:take(20)).attempts)
        end)

        it("stays with its worker while the worker lives", function ()
            push("a")
            local child = start_worker(1, "say(taken[1]:done())")
            assert.equal("timeout", finish(0.1))
            child:say("go")
            child:expect_end("true")
        end)

        it("is dead after max_attempts", function ()
            jobs = open { max_attempts = 2 }
            push("a", "b")
            end_worker(start_worker())
            end_worker(start_worker())
            local job = assert(jobs:take(20))
            assert.equal("b", job.value)
            local dead = jobs:dead()
            assert.equal(1, #dead)
            assert.same({ "a", 2 }, { dead[1].value, dead[1].attempts })
        end)
    end)

    it("a job with as many attempts as can be counted becomes dead", function ()
        jobs = open { max_attempts = 1e9 }
        push("a")
        local job = jobs:take(0)
        local last = job.claim - 1 + claims.GRANTS - 1
        assert(claims.swap(jobs.store, claims.CLAIM, job.number, job.claim, last) == 0)
        job.claim = last
        assert.same({ true, "dead" }, { job:retry() })
        assert.equal(claims.GRANTS - 1, jobs:dead()[1].attempts)
        assert.same({ true, "dead" }, { jobs:dead()[1]:retry() })
        assert.is_nil(jobs:take(0))
    end)

    describe("a dead job", function ()
        local dead

        before_each(function ()
            jobs = open { max_attempts = 1 }
            push("a")
            assert.same({ true, "dead" }, { jobs:take(0):retry() })
            dead = assert(jobs:dead()[1])
        end)

        it("is not taken", function ()
            assert.equal("timeout", finish(0.03))
            assert.equal(1, jobs:stats().dead)
        end)

        it("is put back by retry, with its attempts", function ()
            assert.is_true(dead:retry())
            local job = assert(jobs:take(20))
            assert.same({ "a", 2 }, { job.value, job.attempts })
            assert.same({}, jobs:dead())
        end)

        it("is deleted by done, once", function ()
            assert.is_true(dead:done())
            assert.same(pack(nil, "not owner"), pack(dead:done()))
            assert.same({}, jobs:dead())
            assert.same({}, jobs.store.dict:get_keys(0))
        end)

        it("is listed by dead(n), which returns the n oldest dead jobs", function ()
            for i = 1, 4 do
                push(i)
                assert(jobs:take(0):retry())
            end
            local values = {}
            for i, job in ipairs(jobs:dead(3)) do
                values[i] = job.value
            end
            assert.same({ "a", 1, 2 }, values)
        end)
    end)

    describe("retry", function ()
        it("gives the job back, and counts the attempt", function ()
            push("a")
            assert.is_true(jobs:take(0):retry())
            local job = jobs:take(20)
            assert.same({ "a", 2 }, { job.value, job.attempts })
        end)

        it("gives the job back after the delay", function ()
            push("a")
            local start = now()
            assert.is_true(jobs:take(0):retry(0.05))
            assert.equal(1, jobs:stats().delayed)
            assert.equal("a", finish(20))
            assert.is_true(now() - start >= 0.05)
        end)

        it("wakes a taker that waits", function ()
            push("a")
            local job = jobs:take(0)
            local child = process.start(OPEN .. [[
                say("waits")
                say(assert(jobs:take(20)).attempts)
            ]])
            child:expect("waits")
            sleep(0.05)
            assert(job:retry())
            child:expect_end("2")
        end)
    end)

    it("a delayed job can be taken after its delay, and not before", function ()
        local start = now()
        assert(jobs:push("late", { delay = 0.06 }))
        assert(jobs:push("soon", { delay = 0.03 }))
        push("first")
        assert.same({ "first", "timeout" }, { finish(), finish() })
        assert.equal("soon", finish(20))
        assert.is_true(now() - start >= 0.03)
        assert.equal("late", finish(20))
        assert.is_true(now() - start >= 0.06)
    end)

    it("a delayed job wakes a process that waits for longer than the delay", function ()
        local child = process.start(OPEN .. [[
            say("waits")
            say(assert(jobs:take(20)).value)
        ]])
        child:expect("waits")
        sleep(0.05)
        assert(jobs:push("a", { delay = 0.02 }))
        child:expect_end("a")
    end)

    it("jobs with a higher priority are taken first, and all others in order", function ()
        push("normal 1")
        assert(jobs:push("low", { priority = 1 }))
        push("normal 2")
        assert(jobs:push("high", { priority = 9 }))
        assert(jobs:push("high too", { priority = 9 }))
        sleep(0.02)  -- a busy taker checks for such jobs only now and then
        assert.same({ "high", "high too", "low", "normal 1", "normal 2" },
                    { finish(), finish(), finish(), finish(), finish() })
    end)

    describe("a unique key", function ()
        it("admits one job until the job has ended", function ()
            assert(jobs:push("a", { key = "k" }))
            assert.same(pack(nil, "exists"), pack(jobs:push("b", { key = "k" })))
            assert(jobs:push("c", { key = "other" }))
            local job = jobs:take(0)
            assert.same(pack(nil, "exists"), pack(jobs:push("b", { key = "k" })))
            assert(job:done())
            assert(jobs:push("d", { key = "k" }))
            assert.same({ "c", "d" }, { finish(), finish() })
        end)

        it("is free again if a producer died in the middle of a push", function ()
            local child = process.start(OPEN .. [[
                local core = require "resty.holdfast.core"
                local claims = require "resty.holdfast.queue.claims"
                claims.add = function () os.exit(0) end  -- before the commit
                package.loaded["resty.holdfast.queue"] = nil
                require("resty.holdfast.queue").open("spec_queue"):push("a", { key = "k" })
            ]])
            assert.equal(0, child:wait())
            assert(jobs:push("b", { key = "k" }))
            assert.equal("b", finish(20))
        end)
    end)

    describe("max", function ()
        before_each(function () jobs = open { max = 2 } end)

        it("limits the jobs that nobody has taken", function ()
            push("a", "b")
            assert.same(pack(nil, "full"), pack(jobs:push("c", { timeout = 0 })))
            assert.same(pack(nil, "full"), pack(jobs:push("c", { timeout = 0.02 })))
            local job = jobs:take(0)
            assert(jobs:push("c", { timeout = 0 }))
            assert(job:done())
            assert.same({ "b", "c" }, { finish(), finish() })
        end)

        it("makes push wait until a job is taken", function ()
            push("a", "b")
            scheduler.spawn(function ()
                scheduler.sleep(0.02)
                finish()
            end)
            scheduler.spawn(function () assert(jobs:push("c", { timeout = 20 })) end)
            scheduler.run()
            assert.same({ "b", "c" }, { finish(), finish() })
        end)

        it("applies to each program's own pushes", function ()
            push("a", "b")
            assert(open():push("c"))
            assert.same(pack(nil, "full"), pack(jobs:push("d", { timeout = 0 })))
        end)
    end)

    describe("a detached job", function ()
        -- Takes and detaches the job in a process that ends.
        local function detach(seconds)
            local child = process.start(OPEN .. ([[
                local job = assert(jobs:take(0))
                assert(job:detach(%s))
                say(("%%.0f"):format(job.number))
                say(job:token())
            ]]):format(seconds))
            local number, token = tonumber(child:hear()), tonumber(child:hear())
            child:expect_end()
            return number, token
        end

        it("belongs to any caller that knows its number and its token, although its worker has ended", function ()
            push("a")
            local number, token = detach(600)
            assert.equal("timeout", finish(0.05))
            assert.equal(1, jobs:stats().taken)
            assert.same(pack(nil, "not owner"), pack(jobs:job(number)))
            assert.same(pack(nil, "not owner"), pack(jobs:job(number, token + 1)))
            local job = assert(jobs:job(number, token))
            assert.same({ "a", 1, 1, number }, { job.value, job.attempts, token, job.number })
            assert(job:done())
            assert.same(pack(nil, "not found"), pack(jobs:job(number)))
            assert.equal(0, jobs:stats().taken)
        end)

        it("can be taken again after its lease has expired, and then belongs to its next taker", function ()
            push("a")
            local old = assert(jobs:job(detach(0.03)))
            local job = assert(jobs:take(20))
            assert.same({ "a", 2 }, { job.value, job.attempts })
            assert.same(pack(nil, "not owner"), pack(old:done()))
            assert.same(pack(nil, "not owner"), pack(jobs:job(old.number, 2)))
            assert(job:done())
        end)

        it("is dead after max_attempts, whether or not it was given back", function ()
            jobs = open { max_attempts = 1 }
            push("a", "b")
            assert(jobs:take(0):detach(0))
            local second = jobs:take(0)
            assert(second:detach(600))
            assert.same(pack(true, "dead"), pack(second:retry()))
            assert.equal("timeout", finish(0.05))
            assert.equal(2, #jobs:dead())
        end)

        it("can still be used by the worker that detached it", function ()
            push("a")
            local job = jobs:take(0)
            assert(job:detach(0.01))
            assert(job:detach(600))
            assert.equal("timeout", finish(0.05))
            assert(job:retry())
            assert.equal("a", finish(20))
        end)
    end)

    it("a job that belongs to no worker can be ended or taken by its number", function ()
        push("a")
        local late = assert(jobs:push("b", { delay = 600, key = "k" }))
        local first = assert(jobs:take(0))
        local ready = assert(jobs:push("c"))
        push("d")
        assert.same(pack(nil, "not owner"), pack(jobs:job(first.number)))
        assert.same(pack(nil, "not found"), pack(jobs:job(1)))
        assert(jobs:job(ready):done())
        assert(jobs:job(late):retry())
        assert.same({ "b", "d", "timeout" }, { finish(20), finish(20), finish() })
        assert(jobs:push("e", { key = "k" }))
    end)

    describe("a lease", function ()
        it("that has ended does not give a dead job to anybody", function ()
            jobs = open { max_attempts = 1, lease = 0.02 }
            push("a")
            local job = jobs:take(0)
            assert(job:touch(0.01))
            assert.same(pack(true, "dead"), pack(job:retry()))
            assert.equal("timeout", finish(0.1))
            assert.equal("a", jobs:dead()[1].value)
        end)

        it("ends while its worker is stopped, and done then returns an error and ends nothing", function ()
            push("a")
            local worker = start_worker(1, 'say(taken[1]:done()) say(taken[1]:retry()) say(taken[1]:touch())',
                                        "lease = 0.05")
            worker:kill(process.STOP)
            local job = assert(jobs:take(20))
            assert.same({ "a", 2 }, { job.value, job.attempts })
            worker:kill(process.CONT)
            worker:say("go")
            worker:expect_end("nil\tnot owner", "nil\tnot owner", "nil\tnot owner")
            assert.is_true(job:done())
        end)

        it("is not used unless requested, even if a worker is stopped", function ()
            push("a")
            local worker = start_worker(1, "say(taken[1]:done())")
            worker:kill(process.STOP)
            assert.equal("timeout", finish(0.1))
            worker:kill(process.CONT)
            worker:say("go")
            worker:expect_end("true")
        end)

        it("is started again by touch", function ()
            jobs = open { lease = 0.05 }
            push("a")
            local job = jobs:take(0)
            assert.same(pack(true), pack(job:touch(60)))
            sleep(0.1)
            assert.equal("timeout", finish())
            assert.is_true(job:done())
        end)
    end)

    it("a taker that is stopped while it waits does not keep jobs from others", function ()
        local child = process.start(OPEN .. [[
            say("waits")
            say(jobs:take(20) ~= nil)
        ]])
        child:expect("waits")
        sleep(0.1)
        child:kill(process.STOP)
        push("a")
        assert.equal("a", finish(20))
        scheduler.spawn(function () push("b") end)
        scheduler.spawn(function () assert.equal("b", finish(20)) end)
        scheduler.run()
        child:kill(process.CONT)
        push("c")
        child:expect_end("true")
    end)

    describe("done", function ()
        it("ends a job once", function ()
            push("a")
            local job = jobs:take(0)
            assert.is_true(job:done())
            assert.same(pack(nil, "not owner"), pack(job:done()))
            assert.same(pack(nil, "not owner"), pack(job:retry()))
            assert.same(pack(nil, "not owner"), pack(job:touch()))
        end)

        it("leaves nothing in the dictionaries", function ()
            for _, opts in ipairs { {}, { key = "k" }, { delay = 0.001 }, { priority = 3 } } do
                assert(jobs:push("a", opts))
                jobs.store.look_at = 0  -- a job with a priority ends before `next` has passed the job's number
                assert.equal("a", finish(20))
            end
            assert.same({}, jobs.store.dict:get_keys(0))
            push("b")
            assert.equal("b", finish(20))
            assert.equal("timeout", finish(0.05))
            assert.equal(4, #shdict.find(NAME .. ".claims"):get_keys(0))  -- the counters
            assert.same({ ready = 0, taken = 0, delayed = 0, dead = 0, oldest = 0, workers = {} }, jobs:stats())
        end)

        it("is refused in a forked child, which can take other jobs", function ()
            push("a", "b")
            local child = process.start(process.FORK .. OPEN .. [[
                local job = jobs:take(0)
                in_child(function ()
                    say(job:done())
                    local own = assert(jobs:take(1))
                    say(own.value, own:done(), job:done())
                end)
                say(job:done())
            ]])
            child:expect_end("nil\tnot owner", "b\ttrue\tnil\tnot owner", "true")
        end)
    end)

    describe("failures:", function ()
        it("a job that is too large is refused with a message, and the queue continues to work", function ()
            local job, err, message = jobs:push(("x"):rep(200000))
            assert.same({ nil, "no memory" }, { job, err })
            assert.matches("too large", message)
            push("a")
            assert.equal("a", finish(20))
        end)

        it("a full dictionary refuses pushes but loses no job, and taking a job makes room", function ()
            local pushed, err = 0
            repeat
                local n
                n, err = jobs:push(("x"):rep(500), { delay = pushed % 10 == 0 and 0.001 or nil })
                pushed = pushed + (n and 1 or 0)
            until not n
            assert.equal("no memory", err)
            assert.is_true(pushed > 50)
            for _ = 1, 20 do
                jobs:push(("x"):rep(500))
            end
            local taken = 0
            while finish(taken < pushed and 20 or 0.05) ~= "timeout" do
                taken = taken + 1
                if taken == 10 then
                    push("y")
                    pushed = pushed + 1
                end
            end
            assert.equal(pushed, taken)
        end)

        it("any number of pushes into a full dictionary neither blocks the queue nor costs a job", function ()
            remove()
            jobs = open { size = "12k" }
            local pushed = 0
            while jobs:push("a") do
                pushed = pushed + 1
            end
            for _ = 1, 3000 do
                assert.equal("no memory", (select(2, jobs:push("a"))))
            end
            for i = 1, pushed do  -- the first take makes this process a worker
                assert.equal("a", finish(), i)
            end
            push("b")
            assert.equal("b", finish())
            assert.equal("timeout", finish())
        end)

        it("a dictionary that is removed ends its jobs, and a new queue has none of them", function ()
            push("a", "b")
            local job = jobs:take(0)
            remove()
            assert.same(pack(nil, "not owner"), pack(job:done()))
            assert.same(pack(nil, "dictionary not found"), pack(jobs:push("c")))
            assert.same(pack(nil, "dictionary not found"), pack(jobs:take(0)))
            jobs = open()
            push("d")
            assert.same({ "d", "timeout" }, { finish(), finish() })
            assert.same(pack(nil, "not owner"), pack(job:done()))
        end)

        it("a flush ends all jobs, and the queue continues to work", function ()
            for _, suffix in ipairs { "", ".claims", ".workers" } do
                push("a", "b")
                local job = jobs:take(0)
                shdict.open(NAME .. suffix):flush_all()
                assert.matches(suffix == "" and "true" or "not owner", tostring(select(suffix == "" and 1 or 2,
                                                                                       job:done())))
                while finish(0.02) ~= "timeout" do end
                push("c")
                assert.equal("c", finish(20))
            end
        end)

        it("no value that another program stores under a key causes an error or an endless loop", function ()
            -- Runs in a child process, because an endless loop can be ended only by killing its process.
            process.start(OPEN:gsub("false }", "false, max = 9 }") .. [[
                local claims = require "resty.holdfast.queue.claims"
                local shdict = require "resty.shdict"
                local function key(kind, n)
                    return require("ffi").string(claims.at(kind:byte(), n), claims.KEY_SIZE)
                end
                local dicts = {}
                for _, suffix in ipairs { "", ".claims", ".workers" } do
                    dicts[suffix] = assert(shdict.open("spec_queue" .. suffix, { tables = suffix == "" or nil }))
                end
                local function fresh()
                    for _, dict in pairs(dicts) do dict:flush_all() end
                    jobs.store.look_at, jobs.store.full_at = 0, 0
                    jobs:push("a", { key = "k", delay = 0.001 })
                    local n = jobs:push("b")
                    jobs:push("c", { key = "m" })
                    return n
                end
                local function call(what, method, ...)
                    local ok, result, err = pcall(method, ...)
                    if not ok then
                        say(what, result)
                    elseif result == nil and type(err) ~= "string" then
                        say(what, "no reason")
                    end
                    return ok and result
                end
                local function use(what, held)
                    for _ = 1, 2 do
                        call(what, jobs.stats, jobs)
                        call(what, jobs.len, jobs)
                        call(what, jobs.dead, jobs)
                        for _, k in ipairs { "k", "l", "m" } do
                            call(what, jobs.push, jobs, "d", { key = k, delay = k == "l" and 0.001 or 0, timeout = 0 })
                        end
                        for _, method in ipairs { "touch", "retry", "done" } do
                            call(what, held[method], held, 0)
                        end
                        for _, method in ipairs { "retry", "done", "touch" } do
                            local job = call(what, jobs.take, jobs, 0.001)
                            if job then
                                call(what, job[method], job, 0)
                                assert(job.claim >= 16 * claims.GRANTS and job.claim < 2 ^ 53, what)
                            end
                        end
                    end
                end
                local places = {
                    { ".claims", "e" }, { ".claims", "n" }, { ".claims", "t" }, { ".claims", "i" },
                    { ".claims", "c", 0 }, { ".claims", "c", -1 }, { ".claims", "c", 1 }, { ".claims", "c", 0 / 0 },
                    { ".claims", "d", 0 }, { ".claims", "d", -1 }, { ".claims", "d", -1 / 0 },
                    { "", "j", 0 }, { "", "j", -1 }, { "", "u", -1 }, { "", "u", 0 / 0 }, { "", "kk" }, { "", "kl" },
                    { ".workers", "w", 16 }, { ".workers", "w", 0 / 0 }, { ".workers", "turn" },
                }
                for _, place in ipairs(places) do
                    for _, value in ipairs { 0 / 0, 1 / 0, -1 / 0, -1, 0.5, 1e300, 2 ^ 53, 2 ^ 53 - 1, "", "text",
                                             ("x"):rep(999), true, { 1 }, "list", "lock" } do
                        local n, held = fresh(), jobs:take(0)
                        local dict, name = dicts[place[1] ], place[2]
                        if #name == 1 then
                            name = key(name, place[3] and n + place[3] or 0)
                        end
                        dict:delete(name)
                        if value == "list" then
                            dict:rpush(name, 1)
                        elseif value == "lock" then
                            require("resty.lock"):new("spec_queue" .. place[1], { exptime = 0.001 }):lock(name)
                        elseif type(value) ~= "table" or place[1] == "" then
                            assert(dict:set(name, value))
                        end
                        if place[2] == "i" then
                            jobs.store.lease = nil  -- from now on, the worker needs a new number
                        end
                        use(table.concat({ place[1], place[2], tostring(place[3]), tostring(value) }, " "), held)
                    end
                end
                for _, dict in pairs(dicts) do dict:flush_all() end
                assert(jobs:push("a"))
                say(assert(jobs:take(20)).value)
            ]]):expect_end("a")
        end)

        it("two programs with different leases and attempts each use their own", function ()
            local patient, hasty = open(), open { lease = 0.02, max_attempts = 1 }
            push("a", "b")
            local kept, lent = patient:take(0), hasty:take(0)
            sleep(0.03)
            local again = assert(patient:take(20))
            assert.same({ "b", 2 }, { again.value, again.attempts })
            assert.equal("timeout", finish(0.05, hasty))
            assert.same(pack(nil, "not owner"), pack(lent:done()))
            assert.is_true(again:done())
            assert.is_true(kept:retry())
            assert.same({ true, "dead" }, { assert(hasty:take(20)):retry() })
        end)

        it("if two programs give different sizes, the second gets an error with both sizes", function ()
            local child = process.start [[
                local queue = require "resty.holdfast.queue"
                say(queue.open("spec_queue", { size = "1m" }))
            ]]
            assert.matches("102400", child:hear())
        end)

        it("a job that is a table needs string.buffer, and a job that is a function is refused", function ()
            assert.same(pack(nil, "bad value type"), pack(jobs:push(print)))
            local job, err = jobs:push { print }
            assert.is_nil(job)
            assert.matches("bad table", err)
        end)
    end)

    it("a queue outlives its processes, and jobs that had been taken can be taken again", function ()
        local dir = require("spec.support.shell").output("mktemp -d /dev/shm/holdfast-spec.XXXXXX")
        finally(function () os.execute("rm -rf -- '" .. dir .. "'") end)
        local function run(source)
            local child = process.start([[
                local queue = require "resty.holdfast.queue"
                local jobs = assert(queue.open("kept", { size = "100k" }))
            ]] .. source, { env = { HOLDFAST_DIR = dir } })
            local lines = child:hear_all()
            child:wait()
            return lines
        end
        assert.equal("", run [[ for _, v in ipairs { "a", "b", "c" } do jobs:push(v) end ]])
        assert.equal("a\n", run [[ say(jobs:take(0).value) ]])
        assert.equal("a\t2\nb\t1\nc\t1\n", run [[
            for _ = 1, 3 do
                local job = jobs:take(1)
                say(job.value, job.attempts)
                job:done()
            end
        ]])
    end)

    it("a queue that no process uses is not replaced by one with another size", function ()
        local dir = require("spec.support.shell").output("mktemp -d /dev/shm/holdfast-spec.XXXXXX")
        finally(function () os.execute("rm -rf -- '" .. dir .. "'") end)
        local function run(source)
            local child = process.start('local queue = require "resty.holdfast.queue" ' .. source,
                                        { env = { HOLDFAST_DIR = dir } })
            local line = child:hear(5)
            child:wait()
            return line
        end
        assert.equal("true", run [[ say(queue.open("kept", { size = "100k" }):push("job") ~= nil) ]])
        assert.matches('^nil\tdictionary "kept" exists with size 102400 .*remove it: holdfast rm "kept"$',
                       run [[ say(queue.open("kept", { size = "200k" })) ]])
        assert.equal("job", run [[ say(queue.open("kept"):take(0).value) ]])
    end)

    it("a dictionary with other data does not become a queue", function ()
        local dict = assert(shdict.open("spec_other_data", { size = "100k", persist = false }))
        dict:set("key", 1)
        local opened, err = queue.open("spec_other_data")
        assert.is_nil(opened)
        assert.equal('dictionary "spec_other_data" contains other data: give the queue another name', err)
        assert.is_nil(shdict.shared["spec_other_data.claims"])
    end)

    it("a key belongs to one job, even if a push is delayed while the key's job is pushed and taken", function ()
        process.start([[
            local claims = require "resty.holdfast.queue.claims"
            local add, get, running, resume = claims.add, claims.get, coroutine.running, coroutine.resume
            local jobs, first, second
            claims.add = function (store, kind, ...)
                if running() == first and kind == claims.CLAIM then
                    coroutine.yield()
                end
                return add(store, kind, ...)
            end
            claims.get = function (store, kind, ...)
                if second and running() == second and kind == claims.NEXT then
                    second = nil
                    assert(resume(first))
                    say(jobs:take(0).value)
                end
                return get(store, kind, ...)
            end
            jobs = assert(require("resty.holdfast.queue").open("spec_queue", { size = "100k", persist = false }))
            first = coroutine.create(function () assert(jobs:push("a", { key = "k" })) end)
            assert(resume(first))
            second = coroutine.create(function () say(jobs:push("b", { key = "k" })) end)
            assert(resume(second))
        ]]):expect_end("a", "nil\texists\tnil")
    end)

    it("a key of any length belongs to one job, even after a scan of all claims", function ()
        for _, key in ipairs { "1", "order 42", "12345678", "user:123", ("k"):rep(300) } do
            assert(jobs:push("a", { key = key, delay = 60 }))
            jobs.store.look_at, jobs.store.full_at = 0, 0
            assert.equal("timeout", finish())
            assert.same(pack(nil, "exists"), pack(jobs:push("b", { key = key })))
        end
    end)

    it("a push that fails for lack of memory does not keep its key", function ()
        remove()
        jobs = open { size = "64k" }
        for length = 1, 400, 3 do
            local key = ("k"):rep(length)
            while jobs:push("filler") do end
            if not jobs:push("a", { key = key }) then
                local job = jobs:take(0)
                assert(job:done())
                assert.is_truthy(jobs:push("a"))
                local _, err = jobs:push("a", { key = key })
                assert.not_equal("exists", err)
            end
            while finish() ~= "timeout" do end
        end
    end)

    it("a push that fails lets a waiting push continue", function ()
        jobs = open { max = 1 }
        local n = assert(claims.new_number(jobs.store, 1))  -- the number of a push that will fail
        local child = process.start([[
            local jobs = assert(require("resty.holdfast.queue").open("spec_queue", { persist = false, max = 1 }))
            say("pushes")
            say(jobs:push("b", { timeout = 100 }) ~= nil)
        ]])
        child:expect("pushes")
        sleep(0.05)
        assert.is_true(claims.take_back(jobs.store, n))
        child:expect("true")
    end)

    it("a queue that was removed cannot be found", function ()
        assert(queue.find(NAME))
        remove()
        local found, err = queue.find(NAME)
        assert.is_nil(found)
        assert.is_string(err)
    end)

    it("a delay is noticed, even if a scan ends while the job is pushed", function ()
        process.start([[
            local core = require "resty.holdfast.core"
            local C, raise = core.C, nil
            core.C = setmetatable({ holdfast_incr = function (dict, key, ...)
                if raise and key[0] == 0x65 then
                    raise()
                end
                return C.holdfast_incr(dict, key, ...)
            end }, { __index = C })
            local claims = require "resty.holdfast.queue.claims"
            local jobs = assert(require("resty.holdfast.queue").open("spec_queue", { size = "100k", persist = false }))
            local store = jobs.store
            assert(jobs:push("early", { delay = 60 }))
            raise = function ()
                raise = nil
                assert(claims.swap(store, 0x65, 0, claims.get(store, 0x65), 2 ^ 53) == core.OK)
            end
            assert(jobs:push("late", { delay = 90 }))
            say(raise == nil, claims.get(store, 0x65) < 2 ^ 53)
        ]]):expect_end("true\ttrue")
    end)

    it("a job that is given back twice is not taken before the second delay ends", function ()
        push("a")
        local job = jobs:take(0)
        assert(job:retry())
        assert(jobs:job(job.number):retry(60))
        assert.equal("timeout", finish())
    end)

    it("a job that is given back can be taken again immediately", function ()
        push("a")
        for attempt = 1, 4 do
            local job = jobs:take(0)
            assert.same({ "a", attempt }, { job.value, job.attempts })
            assert.is_true(job:retry())
        end
    end)

    it("len and stats count what is in the queue", function ()
        jobs = open { max_attempts = 1 }
        assert.equal(0, jobs:len())
        push("a", "b", "c", "d")
        assert(jobs:push("e", { delay = 60 }))
        jobs:take(0)
        jobs:take(0):retry()
        local stats = jobs:stats()
        assert.is_true(stats.oldest >= 0 and stats.oldest < 60)
        stats.oldest = 0
        local pid = io.open("/proc/self/stat"):read "*n"
        assert.same({ ready = 2, delayed = 1, taken = 1, dead = 1, oldest = 0, workers = { [pid] = 1 } }, stats)
        assert.equal(3, jobs:len())
    end)

    it("bad arguments raise an error at the line of the call", function ()
        for _, call in ipairs {
            { 'bad name to open: expected a string, got nil', function () queue.open() end },
            { 'unknown option "siz" to open', function () queue.open("x", { siz = 1 }) end },
            { 'bad option "max" to open: expected a whole number, 1 or more, got 0',
              function () queue.open("x", { max = 0 }) end },
            { 'bad option "lease" to open: expected a number greater than 0, got -1',
              function () queue.open("x", { lease = -1 }) end },
            { 'bad option "priority" to push: expected a whole number from 0 to 1000, got 1.5',
              function () jobs:push("a", { priority = 1.5 }) end },
            { 'bad option "key" to push: expected a string of 1 to 65534 bytes, got ""',
              function () jobs:push("a", { key = "" }) end },
            { 'bad "job" argument: expected a string, number, boolean or table, got nil', function () jobs:push() end },
            { "bad timeout to take: expected a number, 0 or more, got -1", function () jobs:take(-1) end },
            { "bad receiver of take: expected a queue, got nil; call it with a colon", function () jobs.take() end },
        } do
            assert.equal(call[1], expect.blamed(call[2]))
        end
    end)

    describe("when processes are killed,", function ()
        local function run(patience, ...)
            local child = process.start({ "luajit", ... }, { env = { HOLDFAST_STORM_PATIENCE = patience } })
            local text = child:hear_all(300)
            return child:wait(), text
        end

        it("before each of their calls, no job is lost, repeated with attempts 1, or left as garbage", function ()
            local status, text = run(false, "tests/queue/every_call.lua")
            assert.equal(0, status, text)
            assert.matches("wait: %d+ deaths", text)
        end)

        it("at random, no job is lost, and each job that begins again has attempts above 1", function ()
            local status, text = run(false, "tests/queue/storm.lua", os.getenv "HOLDFAST_STORM_KILLS" or "300")
            assert.equal(0, status, text)
        end)

        for _, fault in ipairs { "claim later", "no void", "attempts forgotten", "the living are dead" } do
            it("the test above detects a planted fault: " .. fault, function ()
                local status, text = run("1", "tests/queue/storm.lua", "300", fault)
                assert.equal(1, status, text)
            end)
        end
    end)
end)
