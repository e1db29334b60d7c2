-- Tests dictionary/admin.lua and shdict.list, which list the dictionaries and locks of a runtime directory.

local fixture, process = require "spec.support" ("fixture", "process")
local resty_lock = require "resty.lock"
local rwlock = require "resty.rwlock"
local semaphore = require "resty.semaphore"
local shdict = require "resty.shdict"


describe("list", function ()
    it("lists all dictionaries in order, whatever their names and whichever process created them",
       function ()
        local names = { "spec_list_b", "spec list %/\1", "spec_list_a" }
        for _, name in ipairs(names) do
            assert(shdict.open(name, { size = "12k" }))
        end
        local child = process.start [[
            assert(require("resty.shdict").open("spec_list_child", { size = "12k" }))
            say "made"
            hear()
        ]]
        child:expect "made"
        local listed, last, found = assert(shdict.list()), "", 0
        for _, name in ipairs(listed) do
            assert.is_true(last < name)
            last = name
            found = found + (name:find("^spec[_ ]list") and 1 or 0)
        end
        assert.equal(4, found)
        child:say("")
        child:wait()
        for _, name in ipairs { "spec_list_child", unpack(names) } do
            assert(shdict.remove(name))
        end
        for _, name in ipairs(assert(shdict.list())) do
            assert.is_nil((name:find("^spec[_ ]list")))
        end
    end)

    it("lists hundreds of dictionaries", function ()
        for i = 1, 300 do
            assert(shdict.open("spec_list_" .. ("x"):rep(200) .. i, { size = "12k" }))
        end
        local count = 0
        for _, name in ipairs(assert(shdict.list())) do
            count = count + (name:find("^spec_list_") and 1 or 0)
        end
        for i = 1, 300 do
            assert(shdict.remove("spec_list_" .. ("x"):rep(200) .. i))
        end
        assert.equal(300, count)
    end)
end)


describe("locks", function ()
    local dict, new = fixture.locks(resty_lock, "spec_locks")

    local function by_key(prefix)
        local found = {}
        for _, lock in ipairs(assert(dict:locks(prefix))) do
            assert.is_nil(found[lock.key])
            found[lock.key] = lock
        end
        return found
    end

    it("returns locks of each kind with their holders, but no values and no free locks", function ()
        dict:set("value", 1)
        local lock = new()
        assert(lock:lock("free"))
        assert(lock:unlock())
        assert(lock:lock("job", { why = "nightly" }))
        local reader, other = assert(rwlock:new(dict)), assert(rwlock:new(dict))
        assert(reader:rdlock("table"))
        assert(other:rdlock("table"))
        local backend = assert(semaphore:new(dict, { permits = 3 }))
        assert(backend:wait("backend", 2))
        local found = by_key()
        assert.same({ "lock", 0, 1, "nightly" },
                    { found.job.kind, found.job.waiters, #found.job.holders, found.job.holders[1].why })
        assert.same({ "rwlock", 2, "semaphore", 1 },
                    { found.table.kind, #found.table.holders, found.backend.kind, #found.backend.holders })
        assert.equal("semaphore", dict:holder("backend").kind)
        assert.same({ nil, nil }, { found.value, found.free })
        assert(lock:unlock())
        assert.is_nil(by_key().job)
    end)

    it("returns every lock whose key begins with the prefix exactly once, even if there are many", function ()
        local locks = {}
        for i = 1, 250 do
            locks[i] = new()
            assert(locks[i]:lock((i % 2 == 0 and "a:" or "b:") .. i))
        end
        local count = 0
        for key in pairs(by_key("a:")) do
            assert.equal("a:", key:sub(1, 2))
            count = count + 1
        end
        assert.equal(125, count)
        for _, lock in ipairs(locks) do
            assert(lock:unlock())
        end
        assert.same({}, by_key("a:"))
    end)

    it("reports errors", function ()
        assert.has_error(function () dict.locks(5) end,
                         'bad "zone" argument: expected a dictionary, got 5; call it as dict:locks(...)')
        for prefix, shown in pairs { [1] = "1", [true] = "boolean", [{}] = "table" } do
            assert.has_error(function () dict:locks(prefix) end,
                             'bad "prefix" argument: expected a string, got ' .. shown)
        end
        local gone = assert(shdict.open("spec_locks_gone", { size = "12k" }))
        assert(shdict.remove("spec_locks_gone"))
        assert.same({ nil, "dictionary not found" }, { gone:locks() })
    end)
end)
