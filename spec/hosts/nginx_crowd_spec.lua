-- Tests that many waiters in nginx's workers are served, and leave nothing behind.

local fixture, process, shell, site = require "spec.support" ("fixture", "process", "shell", "site")
local resty_lock = require "resty.lock"

local NAME = "spec_nginx_crowd"

local COMMON = [[
    require("resty.shdict").open("spec_nginx_crowd")
    local function new(options) return assert(require("resty.lock"):new("spec_nginx_crowd", options)) end
]]

-- Runs arg_count light threads, each of which takes a key once. Either all threads take the same key, or each takes a
-- different key. Returns how many threads got their key.
local CROWD = site.IN_THREADS .. COMMON .. [[
    local first = tonumber(ngx.var.arg_first)
    ngx.print(in_threads(tonumber(ngx.var.arg_count), function (i)
        local lock = new { timeout = 120, exptime = 120 }
        assert(lock:lock(first and "key" .. first + i or "key"))
        return lock:unlock()
    end))
]]

local it = fixture.it_unless(site.missing())


describe("in nginx", function ()
    local dict = fixture.site(NAME, { size = "8m" })

    local function waiters(lock, key)
        local holder = lock:holder(key)
        return holder and holder.waiters or 0
    end

    local function list(folder)
        return shell.output("ls -l " .. folder .. " | awk '{ print $5, $9 }'")
    end

    it("2,000 waiters of one key in one worker are all served", function ()
        local here = site.start { locations = { ["/crowd"] = CROWD } }
        local lock = assert(resty_lock:new(NAME, { exptime = 600 }))
        assert(lock:lock("key"))
        local requests = here:send(20, "/crowd?count=100")
        site.await("2,000 wait", function () return waiters(lock, "key") == 2000 end, 60)
        assert.equal(200, select(2, here:get("/worker")))
        assert(lock:unlock())
        for i = 1, 20 do
            assert.equal("100", (requests[i]:receive(120)))
        end
    end)

    it("2,000 waiters of 2,000 keys in one worker are all served", function ()
        local here = site.start { locations = { ["/crowd"] = CROWD } }
        local locks = {}
        for i = 1, 2000 do
            locks[i] = assert(resty_lock:new(NAME, { exptime = 600 }))
            assert(locks[i]:lock("key" .. i))
        end
        local requests = here:send(20, function (i) return "/crowd?count=100&first=" .. 100 * (i - 1) end)
        site.await("2,000 wait", function () return waiters(locks[1901], "key2000") == 1 end, 60)
        for i = 2000, 1, -1 do
            assert(locks[i]:unlock())
        end
        for i = 1, 20 do
            assert.equal("100", (requests[i]:receive(120)))
        end
    end)

    it("400 contended requests and 8 reloads leave no descriptor, thread or shared memory", function ()
        local folder = assert(os.getenv("HOLDFAST_DIR"))
        local here = site.start { workers = 2, locations = { ["/contend"] = COMMON .. [[
            local lock = new { timeout = 120, exptime = 120 }
            local elapsed = assert(lock:lock("key"))
            ngx.sleep(0.001)
            assert(lock:unlock())
            ngx.print(elapsed > 0 and "waited" or "at once")
        ]] } }

        local function contend(count)
            local waited = 0
            local lock = assert(resty_lock:new(NAME, { exptime = 600 }))
            assert(lock:lock("key"))
            local requests = here:send(count, "/contend")
            site.await("all wait", function () return waiters(lock, "key") == count end, 60)
            assert(lock:unlock())
            for i = 1, count do
                waited = waited + (requests[i]:receive(120) == "waited" and 1 or 0)
                requests[i]:close()
            end
            return waited
        end

        -- A worker has more descriptors after its first wait.
        local function contend_in_both()
            local connections = here:connect_to_each(2)
            local lock = assert(resty_lock:new(NAME, { exptime = 600 }))
            assert(lock:lock("key"))
            for _, connection in ipairs(connections) do
                connection:send("/contend")
            end
            site.await("both workers wait", function () return waiters(lock, "key") == 2 end)
            assert(lock:unlock())
            for _, connection in ipairs(connections) do
                assert.equal("waited", (connection:receive(120)))
                connection:close()
            end
        end

        -- Counts the resources after everything temporary is gone.
        local function count()
            local workers = here:workers()
            site.await("the wake threads end", function ()
                return site.count(workers[1], "task") == 1 and site.count(workers[2], "task") == 1
            end)
            return {
                workers = #workers,
                master_descriptors = site.count(here.master.pid, "fd"),
                master_threads = site.count(here.master.pid, "task"),
                worker_descriptors = site.count(workers[1], "fd") + site.count(workers[2], "fd"),
                free_space = dict:free_space(),
                keys = #dict:get_keys(0),
                files = list(folder),
            }
        end

        contend(50)
        here:reload()
        contend_in_both()
        local before = count()
        local waited = 0
        for _ = 1, 8 do
            waited = waited + contend(50)
            here:reload()
        end
        contend_in_both()
        local after
        -- A worker may have been about to close a connection at the first count, so there may now be fewer descriptors.
        site.await("the workers have no more descriptors than before", function ()
            after = count()
            return after.worker_descriptors <= before.worker_descriptors
        end)
        before.worker_descriptors, after.worker_descriptors = nil, nil
        assert.same(before, after)
        assert.equal(400, waited)
        assert.is_nil(here:log():find("%[error%]"))
        assert.is_nil(here:log():find("%[alert%]"))
    end)

    it("a thousand waiters in a killed worker leave the queues, and other processes get the worker's locks", function ()
        local here = site.start { locations = { ["/crowd"] = CROWD, ["/hold"] = COMMON .. [[
            local lock = new { exptime = 600 }
            assert(lock:lock("key"))
            ngx.sleep(600)
            lock:unlock()
        ]] } }
        local lock = assert(resty_lock:new(NAME, { timeout = 60 }))
        here:connect():send("/hold")
        site.await("the key is held", function () return lock:holder("key") end)
        here:send(10, "/crowd?count=100")
        site.await("1,000 wait", function () return waiters(lock, "key") == 1000 end, 60)
        here:signal("KILL", here:workers()[1])
        assert.is_truthy(lock:lock("key"))
        assert(lock:unlock())
        assert.equal("1\n", (process.run([[
            require("resty.shdict").open("spec_nginx_crowd")
            local lock = require("resty.lock"):new("spec_nginx_crowd", { timeout = 60 })
            assert(lock:lock("key"))
            say(lock:unlock())
        ]])))
    end)
end)
