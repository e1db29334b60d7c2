-- Tests host/none.lua.

local hosts = require "resty.holdfast.host"
local none = require "resty.holdfast.host.none"
local parker = require "resty.holdfast.wait.parker"
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"


describe("host", function ()
    after_each(function ()
        hosts.set_host(nil)
        scheduler.run()
    end)

    local function current_name()
        return hosts.current().name
    end

    describe("of the caller", function ()
        it("is the scheduler in one of its tasks, and nil elsewhere", function ()
            assert.equal("none", current_name())
            assert.equal("none", coroutine.wrap(current_name)())
            local inside, nested, unyieldable
            scheduler.spawn(function ()
                inside = current_name()
                nested = coroutine.wrap(current_name)()
                table.sort({ 1, 2 }, function (a, b)
                    unyieldable = current_name()
                    return a < b
                end)
            end)
            scheduler.run()
            assert.same({ "scheduler", "none", "none" }, { inside, nested, unyieldable })
        end)

        it("is the host that was set with set_host, until it is reset", function ()
            hosts.set_host { name = "mine", sleep = none.sleep }
            assert.equal("mine", current_name())
            local inside
            scheduler.spawn(function () inside = current_name() end)
            scheduler.run()
            assert.equal("mine", inside)
            hosts.set_host(nil)
            assert.equal("none", current_name())
        end)

        it("is nil, with a reason, if the caller must not wait", function ()
            local function say_no() return false, "in a callback" end
            hosts.set_host { name = "mine", sleep = none.sleep, is_yieldable = say_no }
            assert.same({ nil, "cannot wait here (host mine): in a callback" }, { hosts.current() })
            hosts.set_host { name = "mine", sleep = none.sleep, is_yieldable = function () return false end }
            assert.same({ nil, "cannot wait here (host mine): is_yieldable() returned false" }, { hosts.current() })
            hosts.set_host { name = "mine", sleep = none.sleep, is_yieldable = function () return false, 5 end }
            assert.same({ nil, "cannot wait here (host mine): is_yieldable() returned false and 5" },
                        { hosts.current() })
        end)
    end)

    it("has the whole interface, whichever host is used", function ()
        local of_task
        scheduler.spawn(function () of_task = hosts.current() end)
        scheduler.run()
        assert.equal("scheduler", of_task.name)
        hosts.set_host { name = "mine", sleep = none.sleep }
        for _, host in ipairs { none, of_task, (hosts.current()) } do
            assert.is_string(host.name)
            for _, field in ipairs { "now", "sleep", "is_yieldable", "wait" } do
                assert.is_function(host[field], host.name .. "." .. field)
            end
        end
    end)

    describe("set_host", function ()
        it("refuses anything but a host, and reports the caller's line", function ()
            local function message(host)
                local ok, err = pcall(function ()
                    hosts.set_host(host)
                    return true
                end)
                assert.is_false(ok)
                return (err:gsub("^[^:]*host_spec.lua:%d+: ", ">"))
            end
            local function sleep() end
            assert.equal(">bad host: expected a table or nil, got string", message("nginx"))
            assert.equal('>bad host: field "name": expected a string, got nil', message { sleep = sleep })
            assert.equal('>bad host: field "sleep": expected a function, got nil', message { name = "x" })
            for _, field in ipairs { "now", "is_yieldable", "wait", "wait_fd" } do
                assert.equal('>bad host: field "' .. field .. '": expected a function, got number',
                             message { name = "x", sleep = sleep, [field] = 1 })
            end
            assert.equal("none", current_name())
        end)

        it("ignores an invalid clock, and reports it", function ()
            assert(shdict.open("spec_locks", { size = "1m" })):flush_all()
            local holder, lock = resty_lock:new("spec_locks"), resty_lock:new("spec_locks")
            holder:lock("key")
            for shown, time in pairs { ["nil"] = false, ['"noon"'] = "noon", ["inf"] = 1 / 0, ["nan"] = 0 / 0 } do
                hosts.set_host { name = "mine", sleep = none.sleep, now = function () return time or nil end }
                local ok, err = pcall(lock.lock, lock, "key")
                assert.is_false(ok)
                assert.equal("bad host mine: expected seconds from now(), got " .. shown, (err:gsub("-nan", "nan")))
            end
            hosts.set_host { name = "mine", sleep = none.sleep }
            assert.equal(0, lock:holder("key").waiters)
            assert.is_false(parker.has_listeners())
            holder:unlock()
        end)
    end)

    describe("none", function ()
        it("sleeps for the given time", function ()
            local start = none.now()
            none.sleep(0.02)
            assert.is_true(none.now() - start >= 0.02)
            none.sleep(0)
        end)

        it("waits for the given time, and returns a timeout", function ()
            local waiter = require("resty.holdfast.core").C.holdfast_waiter_open(parker.get())
            local start = none.now()
            assert.same({ nil, "timeout" }, { none.wait(waiter, 0.02) })
            assert.is_true(none.now() - start >= 0.02)
            require("resty.holdfast.core").C.holdfast_waiter_close(parker.get(), waiter)
        end)
    end)
end)
