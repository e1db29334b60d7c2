-- Runs in a worker of nginx. Checks each row of the table in docs/migration.md, also with the original if it is
-- installed. Prints a line for each row: "row", its name, and "true" or the reason why it is not true.

local ffi = require "ffi"
local now = require("resty.holdfast.core").C.holdfast_now
local pack = require "spec.support.pack"
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"
local worker = require "spec.side_by_side.worker"

local ngx = ngx  -- luacheck: ignore 113

pcall(ffi.cdef, "int fork(void); void _exit(int code); int waitpid(int pid, int *status, int options);")
local C = ffi.C

-- Debian has no package of lua-resty-lock. This module behaves like it.
local original_lock = assert(loadfile("bench/support/peer_lock.lua"))()

local ECHILD = 10
local KEY = "key"

local theirs, ours -- dictionaries of values, empty at the beginning of each row
local rows = {}


local function row(name, check)
    rows[#rows + 1] = { name = name, check = check }
end


local function equal(expected, given, what)
    if expected ~= given then
        error((what or "") .. " expected " .. worker.show(expected) .. ", got " .. worker.show(given), 2)
    end
end


local function only_ours(check)
    equal(true, check(ours))
    equal(false, check(theirs))
end


local function same(expected, ...)
    local given = worker.show_all(pack(...))
    if expected ~= given then
        error("expected " .. expected .. ", got " .. given, 2)
    end
end


local function refused(expected, fn, ...)
    local ok, err = pcall(fn, ...)
    equal(false, ok)
    if not tostring(err):find(expected, 1, true) then
        error("expected an error that has " .. expected .. ", got " .. tostring(err), 2)
    end
end


-- Acts like a slow handler, while nginx's clock stands still.
local function compute(seconds)
    local over = now() + seconds
    repeat until now() >= over
end


local function lock_of(opts)
    return assert(resty_lock:new("rows_locks", opts))
end


-- Forks a process that takes the lock and is killed while it holds the lock.
local function take_and_die(module, key)
    local child = C.fork()
    if child == 0 then
        local lock = module:new("rows_locks", { exptime = 100 })
        lock:lock(key)
        C._exit(0)
    end
    -- The result is negative if nginx has already waited for the child.
    repeat local ended = C.waitpid(child, nil, 0) until ended == child or ended < 0 and ffi.errno() == ECHILD
end


local function fill(dict, count)
    for i = 1, count do
        dict:set("key " .. i, i)
    end
end


-- Stores values until a value is evicted.
local function overflow(dict, prefix, value)
    for i = 1, 100000 do
        local _, _, forcible = dict:set(prefix .. i, value)
        if forcible then
            break
        end
    end
end


-- Makes the first object take the lock for less than 15 ms, and then makes the second object take it.
local function lose(first, second)
    first:lock(KEY)
    ngx.sleep(0.015)
    equal(0, second:lock(KEY))
end


-- Returns the output of a script that runs in the same runtime directory.
local function run_script(code)
    local pipe = assert(io.popen("LUA_PATH='lua/?.lua;;' luajit -e '" .. code .. "' 2>&1"))
    local text = pipe:read("*a")
    pipe:close()
    return text
end


-- --- locks ---------------------------------------------------------------------------------------------

row("waiting", function ()
    local held, waiting = lock_of(), lock_of { timeout = 10, step = 5, max_step = 5 }
    held:lock(KEY)
    local thread = ngx.thread.spawn(function () return waiting:lock(KEY) end)
    ngx.sleep(0.01)
    held:unlock()
    local _, elapsed = ngx.thread.wait(thread)
    waiting:unlock()
    equal(true, elapsed < 4, "it is not the step that ends the wait, which")
end)

row("next holder", function ()
    local held = lock_of()
    held:lock(KEY)
    local order, threads = {}, {}
    for i = 1, 5 do
        threads[i] = ngx.thread.spawn(function ()
            local lock = lock_of { timeout = 10 }
            assert(lock:lock(KEY))
            order[#order + 1] = i
            ngx.sleep(0.002)
            lock:unlock()
        end)
        ngx.sleep(0.002)
    end
    held:unlock()
    for i = 1, 5 do
        ngx.thread.wait(threads[i])
    end
    equal("1 2 3 4 5", table.concat(order, " "))
end)

row("elapsed time", function ()
    local function elapsed(module)
        assert(module:new("rows_locks", { exptime = 0.02 }):lock(KEY))
        return (module:new("rows_locks", { step = 1, max_step = 1 }):lock(KEY))
    end
    equal(true, elapsed(resty_lock) < 0.9, "a sum of steps")
    equal(1, elapsed(original_lock))
end)

-- Tests a phase that can wait. spec/hosts/nginx_phases_spec.lua tests the other phases.
row("`ngx.sleep` replaced by your own function", function ()
    local native, calls = ngx.sleep, 0
    ngx.sleep = function (seconds)
        calls = calls + 1
        native(seconds)
    end
    local theirs_then = assert(loadfile("bench/support/peer_lock.lua"))()
    local ours_then = require("resty.holdfast.host.nginx").new_sleeping_host(ngx.sleep)
    ngx.sleep = native

    local held = theirs_then:new("rows_locks")
    held:lock(KEY)
    theirs_then:new("rows_locks", { timeout = 0.002 }):lock(KEY)
    held:unlock()
    equal(true, calls > 0)
    equal(false, ours_then.is_yieldable())
end)

row("`unlock` after exptime", function ()
    local first, second = lock_of { exptime = 0.01 }, lock_of()
    lose(first, second)
    same('nil, "not owner"', first:unlock())
    equal(true, second:valid())
    second:unlock()

    first, second = lock_of { exptime = 0.5, renew = true }, lock_of { timeout = 0 }
    first:lock(KEY)
    ngx.sleep(0.6)
    same('nil, "timeout"', second:lock(KEY))
    equal(1, first:unlock())

    first, second = original_lock:new("rows_locks", { exptime = 0.01 }), original_lock:new("rows_locks")
    lose(first, second)
    equal(1, first:unlock())
    equal(nil, ngx.shared.rows_locks:get(KEY))
end)

row("`expire` after exptime", function ()
    local first, second = lock_of { exptime = 0.01 }, lock_of()
    lose(first, second)
    same('nil, "not owner"', first:expire(10))
    second:unlock()
end)

row("end of a lock", function ()
    -- Returns whether a second object gets the lock immediately.
    local function is_over(module)
        ngx.update_time()
        compute(0.05)
        assert(module:new("rows_locks", { exptime = 0.03 }):lock(KEY))
        ngx.update_time()
        return module:new("rows_locks", { timeout = 0 }):lock(KEY) ~= nil
    end
    equal(false, is_over(resty_lock))
    equal(true, is_over(original_lock))
end)

row("garbage-collected lock object", function ()
    local function is_left(module, is_held)
        local first, second = module:new("rows_locks", { exptime = 0.01 }), module:new("rows_locks")
        first:lock(KEY)
        ngx.sleep(0.015)
        equal(0, second:lock(KEY))
        first = nil  -- luacheck: ignore 311
        collectgarbage()
        collectgarbage()
        local left = is_held()
        second:unlock()
        return left
    end
    equal(true, is_left(resty_lock, function () return shdict.shared.rows_locks:get(KEY) end))
    equal(nil, is_left(original_lock, function () return ngx.shared.rows_locks:get(KEY) end))
end)

row("death of the holder", function ()
    take_and_die(resty_lock, KEY)
    equal(false, lock_of():holder(KEY).alive)
    local elapsed, err = lock_of { timeout = 5 }:lock(KEY)
    equal(nil, err)
    equal(true, elapsed < 5, "the wait")

    take_and_die(original_lock, KEY)
    same('nil, "timeout"', original_lock:new("rows_locks", { timeout = 0.01 }):lock(KEY))
end)

row("dictionary full of locks", function ()
    local function key_of(i)
        return ("x"):rep(90) .. i
    end
    local function take_many(module, dict)
        local locks = {}
        for i = 1, 3000 do
            local lock = module:new(dict, { timeout = 0 })
            local elapsed, err = lock:lock(key_of(i))
            if not elapsed then
                return locks, err
            end
            locks[i] = lock
        end
        return locks
    end
    local locks, err = take_many(resty_lock, "rows_small")
    equal("no memory", err)
    equal(true, locks[1]:valid())
    locks, err = take_many(original_lock, "rows_small")
    equal(nil, err)
    equal(3000, #locks)
    equal(nil, ngx.shared.rows_small:get(key_of(1)), "the first lock")
end)

row("sharing", function ()
    local lock = lock_of()
    lock:lock(KEY)
    equal("held\n", run_script([[print(select(2, require("resty.lock"):new("rows_locks"):trylock("key")))]]))
    lock:unlock()
end)

row("reading a lock", function ()
    local lock = lock_of()
    lock:lock(KEY)
    equal(nil, ngx.shared.rows_locks:get(KEY))
    equal(true, shdict.shared.rows_locks:get(KEY))
    lock:unlock()
end)

row("breaking a lock", function ()
    local lock = lock_of()
    lock:lock(KEY)
    ngx.shared.rows_locks:delete(KEY)
    equal(true, lock:valid())
    shdict.shared.rows_locks:delete(KEY)
    equal(false, lock:valid())
    lock:unlock()
end)

row("memory of locks", function ()
    local dict = shdict.shared.rows_locks
    local held, waiting = lock_of(), lock_of { timeout = 10 }
    held:lock(KEY)
    local before = dict:free_space()
    local thread = ngx.thread.spawn(function () return waiting:lock(KEY) end)
    equal(true, dict:free_space() < before, "less memory")
    held:unlock()
    ngx.thread.wait(thread)
    waiting:unlock()
end)

row("tables and functions as keys", function ()
    same('nil, "bad key type"', lock_of():lock({}))
    same('nil, "bad key type"', ours:set(print, 1))
    same("true, nil, false", theirs:set(print, 1))
end)

row("options of the wrong type", function ()
    refused('bad option "timeout" to new', resty_lock.new, resty_lock, "rows_locks", { timeout = {} })
end)

row("unknown options", function ()
    equal(0, lock_of { expire = 5 }:lock("unknown option"))
end)


-- --- dictionaries --------------------------------------------------------------------------------------

row("`pairs(ngx.shared)`", function ()
    local found = false
    for name in pairs(ngx.shared) do
        found = found or name == "rows_opened"
    end
    equal(false, found)
    assert(shdict.open("rows_opened", { size = "100k", persist = false }))
    equal(nil, ngx.shared.rows_opened)
    assert(require("resty.holdfast.shared").install("rows_opened"))
    equal(shdict.shared.rows_opened, ngx.shared.rows_opened)
    ngx.shared.rows_opened = nil
end)

row("names", function ()
    local name = ("n"):rep(251)
    equal(true, ngx.shared[name] ~= nil)
    local dict, err = shdict.open(name, { size = "100k", persist = false })
    equal(nil, dict)
    equal(true, err:find("251", 1, true) ~= nil, "the length")
end)

row("opening", function ()
    local bytes = 1024 * 1024
    local file = os.getenv("HOLDFAST_DIR") .. "/rows_later.dict"
    equal(bytes, ngx.shared.rows_later:capacity())
    equal(nil, io.open(file))
    assert(resty_lock:new("rows_later")):trylock(KEY)
    local pipe = assert(io.popen("stat -c '%b %B' '" .. file .. "'"))
    local blocks, size = pipe:read("*n", "*n")
    pipe:close()
    equal(true, blocks * size >= bytes, "its memory")
end)

-- spec/hosts/nginx_values_spec.lua tests the reload itself.
row("changed size of a zone", function ()
    local handle = assert(shdict.open("rows_sized", { size = "200k" })) -- as before a reload
    assert(resty_lock:new("rows_sized")):trylock(KEY)
    equal(handle, shdict.find("rows_sized"))
    equal(204800, handle:capacity())
    equal(102400, ngx.shared.rows_sized:capacity())
end)

row("methods stored in local variables", function ()
    refused('bad "zone" argument', theirs.get, ours, KEY)
end)

row("evicted value", function ()
    -- Returns whether values that were read often, but less recently than all other values, still exist.
    local function has_often_read(dict)
        fill(dict, 1000)
        for _ = 1, 20 do
            dict:get("key 500")
        end
        for i = 1, 1000 do
            dict:get(i ~= 500 and "key " .. i or "nothing")
        end
        overflow(dict, "new ", 1)
        return dict:get("key 500") ~= nil
    end
    only_ours(has_often_read)
end)

row("order of `get_keys`", function ()
    local function order(dict)
        fill(dict, 100)
        return table.concat(dict:get_keys(), ",")
    end
    local oldest_first = {}
    for i = 1, 100 do
        oldest_first[i] = "key " .. i
    end
    equal(table.concat(oldest_first, ","), order(theirs))
    equal(false, order(ours) == table.concat(oldest_first, ","))
end)

row("number of evictions", function ()
    local function try(dict)
        overflow(dict, "key ", ("x"):rep(20))
        return (dict:set("large", ("x"):rep(60000)))
    end
    only_ours(try)
end)

row("size limit of a value", function ()
    local large = ("x"):rep(2 * 1024 * 1024)
    equal(true, (ngx.shared.rows_large:set(KEY, large)))
    local dict = assert(shdict.open("rows_large", { size = "8m", persist = false }))
    local ok, err, forcible, why = dict:set(KEY, large)
    same('false, "no memory", false', ok, err, forcible)
    equal("key and value are too large", why:match("^[^:]+"))
    equal(true, (dict:set(KEY, large:sub(1, 900 * 1024))))
end)

row("old value, if the new value does not fit", function ()
    local large = ("x"):rep(300 * 1024)
    ours:set(KEY, 1)
    local ok, err, forcible = ours:set(KEY, large)
    same('false, "no memory", false', ok, err, forcible)
    equal(1, ours:get(KEY))
    theirs:set(KEY, 1)
    equal(false, (theirs:set(KEY, large)))
    equal(nil, theirs:get(KEY))
end)

row("`free_space`", function ()
    theirs:set(KEY, 1)
    local before = theirs:free_space()
    theirs:set("another", 1)
    equal(before, theirs:free_space())
    ours:set(KEY, 1)
    before = ours:free_space()
    ours:set("another", 1)
    equal(true, ours:free_space() < before, "less memory")
end)

row("`flush_all`", function ()
    equal(true, ours:flush_all())
    equal(0, select("#", theirs:flush_all()))
    local function count(dict)
        dict:set(KEY, 1)
        dict:flush_all()
        return dict:flush_expired()
    end
    equal(1, count(ours))
    equal(0, count(theirs))
end)

row("memory of expired values", function ()
    local function remains(dict)
        dict:set(KEY, 1, 0.001)
        ngx.sleep(0.003)
        for i = 1, 10 do
            dict:set("other " .. i, 1)
        end
        return dict:get_stale(KEY) ~= nil
    end
    only_ours(remains)
end)

row("value at its exptime", function ()
    -- Returns the best result of many concurrent sleepers, because a loop with only one sleeper wakes up late.
    local function count_late(dict)
        local threads, late = {}, 0
        for i = 1, 200 do
            threads[i] = ngx.thread.spawn(function ()
                local exptime = i % 20 / 1000 + 0.001
                dict:set(KEY .. i, 1, exptime)
                ngx.sleep(exptime)
                late = late + (dict:get(KEY .. i) and 1 or 0)
            end)
        end
        for i = 1, #threads do
            ngx.thread.wait(threads[i])
        end
        return late
    end
    local late = 0
    for _ = 1, 20 do
        equal(0, count_late(ours))
        late = late + count_late(theirs)
    end
    equal(true, late > 0)
end)

row("exptime below 1 ms", function ()
    ours:set(KEY, 1, 0.0005)
    equal(nil, ours:get(KEY))
    theirs:set(KEY, 1, 0.0005)
    equal(0, theirs:ttl(KEY))
end)

row("exptime above 10^10 s", function ()
    ours:set(KEY, 1, 2e10)
    equal(0, ours:ttl(KEY))
    theirs:set(KEY, 1, 2e10)
    equal(2e10, theirs:ttl(KEY))
end)

row("`expire` on an expired value", function ()
    local function bring_back(dict)
        dict:set(KEY, 1, 0.001)
        ngx.sleep(0.005)
        return dict:expire(KEY, 10)
    end
    same('nil, "not found"', bring_back(ours))
    same("true", bring_back(theirs))
end)

row("flags of 2^31 or more", function ()
    ours:set(KEY, 1, 0, 2 ^ 31)
    theirs:set(KEY, 1, 0, 2 ^ 31)
    equal(2 ^ 31, (select(2, ours:get(KEY))))
    equal(-2 ^ 31, (select(2, theirs:get(KEY))))
end)

row("longest list", function ()
    local dict = assert(shdict.open("rows_large", { size = "8m", persist = false }))
    local function push(into, count)
        into:flush_all()
        for i = 1, count do
            local length, err = into:rpush(KEY, i)
            if not length then
                return err
            end
        end
        return "never full"
    end
    equal("no memory", push(dict, 40000))
    equal("never full", push(ngx.shared.rows_large, 40000))
end)

row("wording of errors", function ()
    local function words(dict)
        local _, err = pcall(dict.set, dict, KEY, 1, -1)
        return (err:gsub("^[^ ]*:%d+: ", ""))
    end
    local longer, shorter = words(ours), words(theirs)
    equal(shorter, longer:sub(1, #shorter))
    equal(true, #longer > #shorter, "longer words")
end)

row("keys of lists", function ()
    same("1, nil", ours:lpush(true, 1), nil)
    refused("bad argument #2", theirs.lpush, theirs, true, 1)
end)

row("surplus arguments", function ()
    same("0", ours:llen(KEY, 1))
    refused("expecting ", theirs.llen, theirs, KEY, 1)
end)


-- --- the run of all rows -------------------------------------------------------------------------------

local function clear(dict)
    dict:flush_all()
    dict:flush_expired()
end


worker.run(function ()
    theirs, ours = ngx.shared.rows_values, assert(shdict.open("rows_values", { size = "256k", persist = false }))
    local locks = assert(shdict.open("rows_locks", { size = "1m", persist = false }))
    for _, one in ipairs(rows) do
        clear(theirs)
        clear(ours)
        clear(ngx.shared.rows_locks)
        clear(locks)
        local ok, err = xpcall(one.check, debug.traceback)
        worker.say("row", one.name, ok and "true" or (tostring(err):gsub("%s*\n%s*", " | ")))
    end
end)
