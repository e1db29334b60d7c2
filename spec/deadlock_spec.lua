-- Tests tasks/task_ids.lua with waits that would never end, in real processes and coroutines: which waiter gets the
-- error, which keys the error names, and which waits are not a deadlock.

local command, loops, process = require "spec.support" ("command", "loops", "process")
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"

local DICT = "spec_deadlock"

local COMMON = [[
local scheduler = require "resty.holdfast.scheduler"
local resty_lock = require "resty.lock"
local dict = assert(require("resty.shdict").open("spec_deadlock", { size = "1m" }))
]]


local function dictionary()
    local shdict = require "resty.shdict"
    local dict = assert(shdict.open(DICT, { size = "1m" }))
    dict:flush_all()
    return dict
end


-- --- cycles --------------------------------------------------------------------------------------------

-- Runs the members MEMBERS of a cycle of COUNT members. Each member takes a lock. When all members have their locks,
-- each waits for the next member's lock.
local CYCLE = COMMON .. [[
local function member(number, round)
    local mine = resty_lock:new("spec_deadlock")
    local other = resty_lock:new("spec_deadlock", { timeout = 15 })
    assert(mine:lock(round .. ":" .. number) == 0)
    dict:incr(round, 1, 0)
    while dict:get(round) < COUNT do scheduler.sleep(0.001) end
    scheduler.sleep(math.random() * 0.02)
    local elapsed, err, keys = other:lock(round .. ":" .. number % COUNT + 1)
    say(("%d %d %s %s"):format(round, number, elapsed and "got" or err, keys and table.concat(keys, ",") or "-"))
    if elapsed then other:unlock() end
    mine:unlock()
end

hear()
for round = 1, ROUNDS do
    if TASKS then
        local tasks = {}
        for _, number in ipairs(MEMBERS) do tasks[#tasks + 1] = scheduler.spawn(member, number, round) end
        assert(scheduler.run())
    else
        member(MEMBERS[1], round)
    end
end
]]


-- Runs processes with these members. Without `tasks`, each process has one member. Returns the lines that they report,
-- indexed by round and member.
local function run_cycle(processes, rounds, tasks)
    dictionary()
    local count = 0
    for _, members in ipairs(processes) do
        count = count + #members
    end
    local children = {}
    for i, members in ipairs(processes) do
        local constants = ("local MEMBERS, COUNT, ROUNDS, TASKS = { %s }, %d, %d, %s\n"):format(
            table.concat(members, ","), count, rounds, tostring(tasks))
        children[i] = process.start(constants .. CYCLE)
    end
    for _, child in ipairs(children) do
        child:say("go")
    end
    local said = {}
    for _, child in ipairs(children) do
        for line in child:hear_all(60):gmatch("[^\n]+") do
            local round, number, outcome, keys = line:match("^(%d+) (%d+) (%S+) (%S+)$")
            assert(round, line)
            said[tonumber(round)] = said[tonumber(round)] or {}
            said[tonumber(round)][tonumber(number)] = { outcome = outcome, keys = keys }
        end
    end
    return said, count
end


-- Returns the keys of the cycle, beginning with the key for which member `number` waits.
local function keys_for(round, number, count)
    local keys = {}
    for i = 1, count do
        keys[i] = round .. ":" .. (number + i - 1) % count + 1
    end
    return table.concat(keys, ",")
end


-- Checks that exactly one member gets the error, with the right keys, and that the remaining members continue.
local function check_cycle(processes, rounds, tasks)
    local said, count = run_cycle(processes, rounds, tasks)
    for round = 1, rounds do
        local told
        for number = 1, count do
            local one = assert(said[round][number], "member " .. number .. " said nothing in round " .. round)
            if one.outcome == "deadlock" then
                assert.is_nil(told, "two members got the error in round " .. round)
                told = one
                assert.equal(keys_for(round, number, count), one.keys)
            else
                assert.equal("got", one.outcome)
            end
        end
        assert.is_truthy(told, "no member got the error in round " .. round)
    end
end


describe("a cycle of waits", function ()
    after_each(process.clean_up)

    local SHAPES = {
        ["of 2 processes"] = { { 1 }, { 2 } },
        ["of 3 processes"] = { { 1 }, { 2 }, { 3 } },
        ["of 5 processes"] = { { 1 }, { 2 }, { 3 }, { 4 }, { 5 } },
        ["of 2 coroutines"] = { { 1, 2 } },
        ["of 3 coroutines"] = { { 1, 2, 3 } },
        ["of 5 coroutines"] = { { 1, 2, 3, 4, 5 } },
        ["of 3 in 2 processes"] = { { 1, 3 }, { 2 } },
        ["of 5 in 2 processes"] = { { 1, 3, 5 }, { 2, 4 } },
        ["of 5 in 3 processes"] = { { 1, 2 }, { 3, 5 }, { 4 } },
    }

    for name, processes in pairs(SHAPES) do
        it(name .. " is reported to one member, and the others continue", function ()
            check_cycle(processes, 5, true)
        end)
    end

    for _, count in ipairs { 2, 3, 5 } do
        it("of " .. count .. " processes without tasks is reported to one member, and the others continue", function ()
            local processes = {}
            for i = 1, count do
                processes[i] = { i }
            end
            check_cycle(processes, 5, false)
        end)
    end

    it("is reported under a host that the program defines", function ()
        dictionary()
        local child = process.start(COMMON .. [[
            local ready = {}
            local host = { name = "mine", sleep = function () coroutine.yield() end }
            require("resty.holdfast.host").set_host(host)
            local function member(mine, other)
                local first, second = resty_lock:new("spec_deadlock"), resty_lock:new("spec_deadlock")
                assert(first:lock(mine))
                coroutine.yield()
                local elapsed, err, keys = second:lock(other)
                say(mine, elapsed and "got" or err, keys and table.concat(keys, ",") or "-")
                if elapsed then second:unlock() end
                first:unlock()
            end
            local members = { coroutine.create(member), coroutine.create(member) }
            assert(coroutine.resume(members[1], "a", "b"))
            assert(coroutine.resume(members[2], "b", "a"))
            while coroutine.status(members[1]) ~= "dead" or coroutine.status(members[2]) ~= "dead" do
                for _, co in ipairs(members) do
                    if coroutine.status(co) ~= "dead" then assert(coroutine.resume(co)) end
                end
            end
        ]])
        assert.equal("b\tdeadlock\ta,b", child:hear())
        assert.equal("a\tgot\t-", child:hear())
    end)
end)


-- --- waits that are not a cycle ---------------------------------------------------------------------------------

-- Obeys the orders take KEY [EXPTIME], release KEY and wait KEY TIMEOUT.
local OBEDIENT = COMMON .. [[
local held = {}
for line in hear do
    local what, key, number = line:match("^(%S+) (%S+) ?(%S*)$")
    if what == "release" then
        say(tostring(held[key]:unlock()))
    else
        local exptime = what == "take" and tonumber(number) or 30
        held[key] = resty_lock:new("spec_deadlock", { exptime = exptime })
        local elapsed, err = held[key]:lock(key, { timeout = what == "wait" and tonumber(number) or 0 })
        say(elapsed and "got" or err)
    end
end
]]


local function ask(member, line)
    member:say(line)
    return member:hear()
end


-- Waits until `count` processes wait for the lock.
local function await_waiters(key, count)
    local lock = assert(resty_lock:new(DICT))
    assert.is_truthy(command.await(function ()
        local holder = lock:holder(key)
        return holder and holder.waiters == count
    end), "nobody waits for " .. key)
end


-- Starts a process for each key, which takes the key.
local function start_holders(...)
    dictionary()
    local holders = {}
    for i, key in ipairs { ... } do
        holders[i] = process.start(OBEDIENT)
        assert.equal("got", ask(holders[i], "take " .. key))
    end
    return unpack(holders)
end


-- Starts holders of "a", "b" and "c". The first process waits for the second process's key, and the second for the
-- third's.
local function start_chain()
    local a, b, c = start_holders("a", "b", "c")
    a:say("wait b 10")
    b:say("wait c 10")
    await_waiters("b", 1)
    await_waiters("c", 1)
    return a, b, c
end


-- Checks that the other processes of the chain get their locks after the third holder was killed.
local function assert_served(a, b)
    assert.equal("got", b:hear())
    assert.equal("1", ask(b, "release b"))
    assert.equal("got", a:hear())
end


-- Returns the first of the two processes that sends a line, the line, and the other process.
local function first_of(a, b)
    local speaker, line
    assert.is_truthy(command.await(function ()
        for _, member in ipairs { a, b } do
            local ok, heard = pcall(member.hear, member, 0.01)
            if ok then
                speaker, line = member, heard
                return true
            end
        end
    end), "neither process sends a line")
    return speaker, line, speaker == a and b or a
end


describe("a coroutine that waits for a lock that it holds with another object", function ()
    before_each(dictionary)
    after_each(process.clean_up)

    local function wait_for_itself(module, take, options)
        local first = assert(require(module):new(DICT, options))
        local second = assert(require(module):new(DICT, options))
        local results
        scheduler.spawn(function ()
            assert(first[take](first, "key"))
            results = { second[take](second, "key") }
            assert(first:unlock())
        end)
        assert(scheduler.run())
        return results
    end

    for module, take in pairs { ["resty.lock"] = "lock", ["resty.rwlock"] = "wrlock" } do
        it("gets an error if its object has deadlock = true: " .. module, function ()
            local options = { timeout = 30, deadlock = true }
            assert.same({ nil, "deadlock", { "key" } }, wait_for_itself(module, take, options))
        end)
    end

    it("otherwise waits until its timeout, as with lua-resty-lock", function ()
        assert.same({ nil, "timeout" }, wait_for_itself("resty.lock", "lock", { timeout = 0.1 }))
        assert.same({ nil, "timeout" }, wait_for_itself("resty.lock", "lock", { timeout = 0.1, deadlock = false }))
    end)

    it("gets no error if another coroutine holds the lock", function ()
        local first = assert(resty_lock:new(DICT, { deadlock = true }))
        local second = assert(resty_lock:new(DICT, { timeout = 30, deadlock = true }))
        local elapsed, err
        scheduler.spawn(function ()
            assert(first:lock("key"))
            scheduler.sleep(0.1)
            assert(first:unlock())
        end)
        scheduler.spawn(function () elapsed, err = second:lock("key") end)
        assert(scheduler.run())
        assert.is_number(elapsed, err)
    end)
end)


describe("waits that are not a cycle", function ()
    after_each(process.clean_up)

    for _, name in ipairs(loops.names) do
        it("the loop of " .. name .. ": one coroutine waits for another, which will release the lock", function ()
            require("resty.shdict").open("spec_hosts", { size = "1m" }):flush_all()
            local child = loops.start(name, [[
                spawn(function ()
                    local a = new()
                    assert(a:lock("a"))
                    say "a"
                    -- The other process holds b and waits for a. Below, this process waits for b.
                    local function waiters(key)
                        local holder = a:holder(key)
                        return holder and holder.waiters or 0
                    end
                    repeat sleep(0.005) until waiters("a") == 1 and waiters("b") == 1
                    sleep(0.05)
                    a:unlock()
                end)
                spawn(function ()
                    local b = new { timeout = 15 }
                    repeat sleep(0.005) until b:holder("b")
                    local elapsed, err = b:lock("b")
                    say(elapsed and "got" or err)
                end)
                run()
            ]])
            assert.equal("a", child:hear())
            local other = process.start(loops.COMMON .. [[
                local b, a = new(), new { timeout = 15 }
                assert(b:lock("b"))
                local elapsed, err = a:lock("a")
                say(elapsed and "got" or err)
            ]])
            assert.equal("got", other:hear())
            assert.equal("got", child:hear())
        end)
    end

    it("when the waiter that would get the error is killed, the others continue without an error", function ()
        for _ = 1, 5 do
            local a, b, c = start_chain()
            scheduler.sleep(0.1)
            c:say("wait a 10")
            scheduler.sleep(0.005)
            c:kill()
            assert_served(a, b)
            process.clean_up()
        end
    end)

    it("a stopped process joins a cycle when it continues", function ()
        local a, b = start_holders("a", "b")
        a:kill(process.STOP)
        assert.equal("timeout", ask(b, "wait a 0.2"))
        a:kill(process.CONT)
        a:say("wait b 10")
        await_waiters("b", 1)
        b:say("wait a 10")
        local told, line, other = first_of(a, b) -- usually this is b, which begins to wait last
        assert.equal("deadlock", line)
        assert.equal("1", ask(told, told == a and "release a" or "release b"))
        assert.equal("got", other:hear())
    end)
end)


describe("with an rwlock", function ()
    after_each(process.clean_up)

    -- One process holds a lock and waits to become the writer of an rwlock. READERS processes hold the rwlock as
    -- readers, and one of them waits for the lock. The other reader keeps its share for HELD seconds, or until the end.
    local RWLOCK = COMMON .. [[
        local resty_rwlock = require "resty.rwlock"
        local over
        local function writer()
            local lock = resty_lock:new("spec_deadlock")
            local rwlock = resty_rwlock:new("spec_deadlock", { timeout = TIMEOUT })
            assert(lock:lock("lock"))
            scheduler.sleep(0.02)
            local _, err, keys = rwlock:wrlock("rwlock")
            say("writer", err or "got", keys and table.concat(keys, ",") or "-")
            lock:unlock()
        end
        local function holder(method)
            local lock = resty_lock:new("spec_deadlock", { timeout = 10 })
            local rwlock = resty_rwlock:new("spec_deadlock")
            assert(rwlock[method](rwlock, "rwlock"))
            scheduler.sleep(0.05)
            local _, err, keys = lock:lock("lock")
            say("holder", err or "got", keys and table.concat(keys, ",") or "-")
            rwlock:unlock()
            over = true
        end
        scheduler.spawn(writer)
        scheduler.spawn(holder, METHOD)
        if READERS == 2 then
            scheduler.spawn(function ()
                local rwlock = resty_rwlock:new("spec_deadlock")
                assert(rwlock:rdlock("rwlock"))
                if HELD then
                    scheduler.sleep(HELD)
                else
                    repeat scheduler.sleep(0.005) until over
                end
                rwlock:unlock()
            end)
        end
        assert(scheduler.run())
    ]]

    local function said(method, readers, timeout, held)
        dictionary()
        local constants = ("local METHOD, READERS, TIMEOUT, HELD = %q, %d, %s, %s\n"):format(
            method, readers, timeout, tostring(held))
        local child = process.start(constants .. RWLOCK)
        return child:hear(), child:hear()
    end

    -- Expects the error in one of the two members of the cycle. Usually, this is the holder, which begins to wait last.
    local function assert_one_gets_error(first, second)
        if first:find("^writer") then
            assert.equal("writer\tdeadlock\trwlock,lock", first)
            assert.equal("holder\tgot\t-", second)
        else
            assert.equal("holder\tdeadlock\tlock,rwlock", first)
            assert.equal("writer\tgot\t-", second)
        end
    end

    for _, method in ipairs { "wrlock", "rdlock" } do
        it("a cycle through a single holder by " .. method .. " is reported", function ()
            assert_one_gets_error(said(method, 1, 10))
        end)
    end

    it("a cycle of a reader and a writer that wait for each other's locks is reported", function ()
        dictionary()
        local child = process.start(COMMON .. [[
            for _, task in ipairs { { "a", "b", "rdlock" }, { "b", "a", "wrlock" } } do
                scheduler.spawn(function ()
                    local lock = resty_lock:new("spec_deadlock")
                    local rwlock = require("resty.rwlock"):new("spec_deadlock", { timeout = 10 })
                    assert(lock:lock(task[1]))
                    scheduler.sleep(0.02)
                    local _, err = rwlock[task[3] ](rwlock, task[2])
                    say(err or "got")
                    lock:unlock()
                end)
            end
            assert(scheduler.run())
        ]])
        local first, second = child:hear(), child:hear()
        assert.same({ "deadlock", "got" }, { first, second })
    end)

    it("a cycle that remains when an unrelated reader leaves is reported", function ()
        assert_one_gets_error(said("rdlock", 2, 10, 0.6))
    end)

    it("two readers are not in a cycle", function ()
        local first, second = said("rdlock", 2, 0.3)
        assert.equal("writer\ttimeout\t-", first)
        assert.equal("holder\tgot\t-", second)
    end)

    it("a semaphore is not in a cycle, because another coroutine may post", function ()
        dictionary()
        local child = process.start(COMMON .. [[
            local semaphore = require("resty.semaphore"):new("spec_deadlock", { permits = 1, timeout = 10 })
            scheduler.spawn(function ()
                local lock = resty_lock:new("spec_deadlock")
                assert(semaphore:wait("permit"))
                scheduler.sleep(0.05)
                say(lock:lock("lock") and "got")
                lock:unlock()
            end)
            scheduler.spawn(function ()
                local lock = resty_lock:new("spec_deadlock")
                assert(lock:lock("lock"))
                say(semaphore:wait("permit"))
                lock:unlock()
            end)
            scheduler.spawn(function ()
                scheduler.sleep(0.3)
                semaphore:post("permit")
            end)
            assert(scheduler.run())
        ]])
        assert.equal("true", child:hear())
        assert.equal("got", child:hear())
    end)
end)


-- --- a storm -------------------------------------------------------------------------------------------

-- Runs tasks that take two of a few locks, in any order. A dictionary shows what each task waits for, and which task
-- holds each lock. The task that gets the error can check the cycle, because nothing changes for the members of a
-- cycle.
local STORM = COMMON .. [[
math.randomseed(SEED)
local finish = scheduler.now() + SECONDS
local entered, told = 0, 0

local function take(lock, key, me)
    dict:set("waits:" .. me, key)
    local elapsed, err, keys = lock:lock(key)
    if elapsed then
        if dict:incr("inside:" .. key, 1, 0) ~= 1 then say("two tasks hold " .. key) end
        dict:set("owner:" .. key, me)
        dict:delete("waits:" .. me)
        entered = entered + 1
    end
    return elapsed, err, keys
end

local function give_back(lock, key)
    dict:delete("owner:" .. key)
    dict:incr("inside:" .. key, -1)
    assert(lock:unlock())
end

local function check(keys, me)
    for i, key in ipairs(keys) do
        local owner = dict:get("owner:" .. key)
        local expected = i < #keys and keys[i + 1] or keys[1]
        if (i == #keys) ~= (owner == me) then
            say("cycle of " .. me .. ": " .. table.concat(keys, ",") .. ": " .. key .. " has " .. tostring(owner))
        elseif dict:get("waits:" .. tostring(owner)) ~= expected then
            say("cycle of " .. me .. ": " .. tostring(owner) .. " does not wait for " .. expected)
        end
    end
end

local function philosopher(me)
    local first = resty_lock:new("spec_deadlock", { timeout = 20, exptime = 60 })
    local second = resty_lock:new("spec_deadlock", { timeout = 20, exptime = 60 })
    while scheduler.now() < finish do
        local a = math.random(KEYS)
        local b = (a + math.random(KEYS - 1) - 1) % KEYS + 1
        local elapsed, err = take(first, "key" .. a, me)
        if not elapsed then
            say("without a lock: " .. err)
            return
        end
        scheduler.sleep(math.random() * 0.003)
        local keys
        elapsed, err, keys = take(second, "key" .. b, me)
        if elapsed then
            scheduler.sleep(math.random() * 0.002)
            give_back(second, "key" .. b)
        elseif err == "deadlock" then
            told = told + 1
            check(keys, me)
        else
            say("with a lock: " .. err)
        end
        give_back(first, "key" .. a)
    end
end

for i = 1, 5 do scheduler.spawn(philosopher, NAME .. ":" .. i) end
if not scheduler.run() then say("a task failed") end
say("done", entered, told)
]]


describe("a storm of philosophers", function ()
    after_each(process.clean_up)

    it("ends; no lock has two holders, and each reported cycle is real", function ()
        dictionary()
        local seed = os.time()
        print("\nseed " .. seed)
        local children = {}
        for i = 1, 5 do
            local constants = ("local SEED, SECONDS, KEYS, NAME = %d, 4, 12, 'p%d'\n"):format(seed + i, i)
            children[i] = process.start(constants .. STORM, { stderr = true })
        end
        local entered, told = 0, 0
        for _, child in ipairs(children) do
            local text = child:hear_all(60)
            local entries, cycles = text:match("^done\t(%d+)\t(%d+)\n$")
            assert.is_truthy(entries, text)
            entered, told = entered + entries, told + cycles
        end
        print(("%d locks taken, %d cycles reported"):format(entered, told))
        assert.is_true(told > 0)
    end)
end)
