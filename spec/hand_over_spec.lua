-- Tests which coroutine the search for deadlocks expects to release a lock that has changed hands.

local expect, fixture, loops, process = require "spec.support" ("expect", "fixture", "loops", "process")
local resty_lock = require "resty.lock"
local rwlock = require "resty.rwlock"
local scheduler = require "resty.holdfast.scheduler"

local NAME = "spec_hosts"

-- make(options) creates an object, take(object, key) takes the key with it, and hold(object, key, fn) holds the key
-- while fn runs.
local PRIMITIVES = {
    lock = [[
        local make = new
        local function take(object, key) return object:lock(key) end
        local function hold(object, key, fn) return object:with(key, fn) end
    ]],
    rwlock = [[
        local function make(options) return assert(require("resty.rwlock"):new("spec_hosts", options)) end
        local function take(object, key) return object:wrlock(key) end
        local function hold(object, key, fn) return object:with_wr(key, fn) end
    ]],
}

local COMMON = [[
    local steps = {}
    local function await(step)
        while not steps[step] do sleep(0.002) end
    end
    -- Makes the library notice a loop that was loaded after the library. It does so at the first wait.
    local function make_known()
        local first = new()
        assert(first:lock("first"))
        new({ timeout = 0.001 }):lock("first")
        first:unlock()
    end
    -- Sleeps until both coroutines wait. Then sleeps long enough for a deadlock to be reported, or until one of them
    -- continues.
    local function both_wait()
        local dict = shdict.open("spec_hosts")
        while dict:waiters("a") + dict:waiters("b") < 2 and not steps["one goes on"] do sleep(0.002) end
        sleep(0.1)
    end
    -- Reports the result of the wait for a key, and releases the key if it was granted.
    local function try(key, timeout)
        local wanted = make { timeout = timeout }
        local elapsed, err, keys = take(wanted, key)
        steps["one goes on"] = true
        if elapsed then
            wanted:unlock()
        end
        say((elapsed and "got" or err) .. (keys and " " .. table.concat(keys, ",") or ""))
    end
]]


local function start(loop, primitive, source)
    assert(require("resty.shdict").open(NAME, { size = "1m" })):flush_all()
    return loops.start(loop, PRIMITIVES[primitive] .. COMMON .. source)
end


-- Returns the lines that the program's two coroutines report, in alphabetical order.
local function outcomes(child)
    local said = { child:hear(30), child:hear(30) }
    table.sort(said)
    return table.concat(said, "; ")
end


local function assert_deadlock(child)
    local said = outcomes(child)
    assert.is_true(said == "deadlock a,b; got" or said == "deadlock b,a; got", said)
end


-- When one coroutine times out, the other coroutine continues.
local function assert_no_deadlock(child)
    local said = outcomes(child)
    assert.is_truthy(said:find("timeout", 1, true) and not said:find("deadlock", 1, true), said)
end


describe("a lock that is given to another coroutine", function ()
    after_each(process.clean_up)

    -- Two coroutines each take a lock and give it to another coroutine, which releases it. Then each of the two waits
    -- for the other's lock.
    local GIVEN = [[
        local function page(mine, other)
            local lock = make { timeout = 0, deadlock = DEADLOCK }
            make_known()
            assert(take(lock, mine))
            GIVE
            spawn(function ()
                await "both wait"
                assert(lock:unlock())
            end)
            sleep(0.02)
            try(other, 15)
        end
        spawn(function () page("a", "b") end)
        spawn(function () page("b", "a") end)
        spawn(function ()
            both_wait()
            steps["both wait"] = true
        end)
        run()
    ]]

    local function given(give, deadlock)
        return (GIVEN:gsub("%u%u%u%u+", { GIVE = give, DEADLOCK = deadlock or "nil" }))
    end

    for _, loop in ipairs(loops.names) do
        for primitive in pairs(PRIMITIVES) do
            it("by hand_over is not part of a deadlock: a " .. primitive .. " in the loop of " .. loop, function ()
                assert.equal("got; got", outcomes(start(loop, primitive, given "assert(lock:hand_over())")))
            end)
        end
    end

    it("is not part of a deadlock if the object was created with deadlock = false", function ()
        assert.equal("got; got", outcomes(start("scheduler", "lock", given("", "false"))))
    end)

    it("by default counts as held by the coroutine that took it", function ()
        assert_deadlock(start("scheduler", "lock", given ""))
    end)

    -- The first coroutine takes a and gives it to the second coroutine, which waits for b. The holder of b waits for a.
    local CYCLE = [[
        local lock = make { deadlock = DEADLOCK }
        spawn(function ()
            make_known()
            assert(take(lock, "a"))
            TAKER
            steps["a is given"] = true
        end)
        spawn(function ()
            await "a is given"
            USER
            steps["a is used"] = true
            await "b is taken"
            try("b", TIMEOUT)
            lock:unlock()
        end)
        spawn(function ()
            local other = make()
            await "a is given"
            assert(take(other, "b"))
            steps["b is taken"] = true
            await "a is used"
            sleep(0.02)
            try("a", TIMEOUT)
            other:unlock()
        end)
        run()
    ]]

    local function cycle(taker, user, timeout)
        return (CYCLE:gsub("%u%u%u%u+", { DEADLOCK = "nil", TAKER = taker, USER = user, TIMEOUT = timeout }))
    end

    for _, loop in ipairs { "scheduler", "cqueues", "luv" } do
        for primitive in pairs(PRIMITIVES) do
            it("by hand_over belongs to its next user: a " .. primitive .. " in the loop of " .. loop, function ()
                assert_deadlock(start(loop, primitive, cycle("lock:hand_over()", "assert(lock:valid())", 15)))
            end)
        end
    end

    for _, use in ipairs { "expire()", "remaining()", "valid()", "token()" } do
        it("is used by " .. use, function ()
            assert_deadlock(start("scheduler", "lock", cycle("lock:hand_over()", "assert(lock:" .. use .. ")", 15)))
        end)
    end

    for _, use in ipairs { "downgrade()", "upgrade()" } do
        it("is used by " .. use, function ()
            assert_deadlock(start("scheduler", "rwlock", cycle("lock:hand_over()", "assert(lock:" .. use .. ")", 15)))
        end)
    end

    it("may be passed on repeatedly", function ()
        assert_deadlock(start("scheduler", "lock", cycle([[
            lock:hand_over()
            lock:valid()
            lock:hand_over()
            spawn(function ()
                lock:valid()
                lock:hand_over()
                steps["it came back"] = true
            end)
            await "it came back"
        ]], "assert(lock:valid())", 15)))
    end)

    it("by hand_over has no holder until a coroutine uses it", function ()
        assert_no_deadlock(start("scheduler", "lock", cycle("lock:hand_over()", "", 0.5)))
    end)

    it("without hand_over, but used by another coroutine, belongs to neither: either may release it", function ()
        assert_no_deadlock(start("scheduler", "lock", cycle("", "lock:valid() lock:valid()", 0.5)))
    end)
end)


describe("a lock that another coroutine renews", function ()
    after_each(process.clean_up)

    -- The first coroutine works under a lock. The second renews the lock, and waits for the third coroutine's lock. The
    -- third waits for the first coroutine's lock.
    local KEEPER = [[
        local lock = make()
        local function work()
            steps["a is taken"] = true
            await "both wait"
        end
        spawn(function ()
            WORK
        end)
        spawn(function ()
            await "a is taken"
            for _ = 1, 3 do
                assert(lock:expire() and lock:valid() and lock:remaining() > 0 and lock:token())
            end
            await "b is taken"
            try("b", 15)
        end)
        spawn(function ()
            local other = make()
            assert(take(other, "b"))
            steps["b is taken"] = true
            try("a", 15)
            other:unlock()
        end)
        spawn(function ()
            both_wait()
            steps["both wait"] = true
        end)
        run()
    ]]

    local WORKS = {
        ["by plain calls"] = 'assert(take(lock, "a")) work() lock:unlock()',
        ["by with"] = 'hold(lock, "a", work)',
        ["by with, and handed over"] = 'hold(lock, "a", function () assert(lock:hand_over()) work() end)',
    }

    for how, work in pairs(WORKS) do
        for primitive in pairs(PRIMITIVES) do
            it("is not in a deadlock with that coroutine: a " .. primitive .. " held " .. how, function ()
                assert.equal("got; got", outcomes(start("scheduler", primitive, (KEEPER:gsub("WORK", work)))))
            end)
        end
    end

    -- Each of two coroutines holds a lock in `with`, and waits for the other's lock.
    local WITHIN = [[
        local function one(mine, other)
            local lock = make { deadlock = DEADLOCK }
            hold(lock, mine, function ()
                steps[mine] = true
                await(other)
                BEFORE
                try(other, TIMEOUT)
            end)
        end
        spawn(function () one("a", "b") end)
        spawn(function () one("b", "a") end)
        run()
    ]]

    local function within(before, deadlock, timeout)
        return (WITHIN:gsub("%u%u%u%u+", { BEFORE = before, DEADLOCK = deadlock, TIMEOUT = timeout }))
    end

    for primitive in pairs(PRIMITIVES) do
        it("keeps its holder if the holder is in with: a " .. primitive, function ()
            assert_deadlock(start("scheduler", primitive, within([[
                local used
                spawn(function () used = lock:valid() and lock:expire() end)
                while not used do sleep(0.002) end
            ]], "nil", 15)))
        end)
    end

    it("is never reported as part of a cycle if the object was created with deadlock = false", function ()
        assert_no_deadlock(start("scheduler", "lock", within("", "false", 0.5)))
    end)

    it("is not handed over when the library renews it", function ()
        assert_deadlock(start("scheduler", "lock", [[
            local function one(mine, other)
                local lock = make { exptime = 0.3, renew = true }
                assert(take(lock, mine))
                local grant = lock:token()
                sleep(0.5)
                assert(lock:token() == grant)
                try(other, 15)
                lock:unlock()
            end
            spawn(function () one("a", "b") end)
            spawn(function () one("b", "a") end)
            run()
        ]]))
    end)
end)


describe("hand_over", function ()
    local dict = fixture.dictionary(NAME)

    local MAKE = {
        lock = function (opts)
            local lock = assert(resty_lock:new(NAME, opts))
            return lock, function (key) return lock:lock(key) end
        end,
        rwlock = function (opts)
            local lock = assert(rwlock:new(NAME, opts))
            return lock, function (key) return lock:rdlock(key) end
        end,
    }

    for primitive, make in pairs(MAKE) do
        describe("of a " .. primitive, function ()
            it("returns true on every call, and changes no lock", function ()
                for _, deadlock in ipairs { "nil", "true", "false" } do
                    local lock, take = make { deadlock = loadstring("return " .. deadlock)() }
                    assert(take "key")
                    local token = lock:token()
                    assert.is_true(lock:hand_over())
                    assert.is_true(lock:hand_over())
                    assert.equal(token, lock:token())
                    assert.is_true(lock:valid())
                    assert.equal(1, lock:unlock())
                end
            end)

            it("returns an error if no lock is held", function ()
                local lock, take = make()
                assert.same({ nil, "unlocked" }, { lock:hand_over() })
                assert(take "key")
                assert(lock:unlock())
                assert.same({ nil, "unlocked" }, { lock:hand_over() })
            end)

            it("returns an error if the lock was lost, and calls on_lost", function ()
                local lost
                local lock, take = make { exptime = 0.01, on_lost = function (_, key, why) lost = key .. why end }
                assert(take "key")
                scheduler.sleep(0.05)
                assert.same({ nil, "not owner" }, { lock:hand_over() })
                assert.equal("keynot owner", lost)
                lock:unlock()
                lock, take = make()
                assert(take "key")
                dict:delete("key")
                assert.same({ nil, "not owner" }, { lock:hand_over() })
            end)
        end)
    end

    it("has a boolean option deadlock", function ()
        for _, module in ipairs { resty_lock, rwlock } do
            assert.equal('bad option "deadlock" to new: expected a boolean, got 1',
                         expect.refusal_of(module, NAME) { deadlock = 1 })
        end
        assert.matches('^unknown option "deadlock" to new',
                       expect.refusal_of(require "resty.semaphore", NAME) { permits = 1, deadlock = true })
    end)
end)
