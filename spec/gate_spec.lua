-- Tests the behaviour of dictionary/gate.lua that does not depend on cluster/.

local files, process, shell = require "spec.support" ("files", "process", "shell")

-- Without cluster/, the library itself refuses a dictionary that belongs to a cluster.
local HAS_CLUSTERS = files.find "cluster/src/gate/gate.cc" ~= nil


describe("the gate of a dictionary", function ()
    local folder

    -- Copies only the Lua files of the library, as an installation without cluster/ does.
    setup(function ()
        folder = shell.output("mktemp -d"):match("%S+")
        assert(shell.succeeds("cp -r lua/resty " .. folder))
    end)
    teardown(function () shell.succeeds("rm -rf " .. folder) end)
    after_each(process.clean_up)

    local function run(source)
        return process.run(source, { env = { LUA_PATH = folder .. "/?.lua" } })
    end

    it("reports what to do if it cannot be loaded because the files of cluster/ are missing", function ()
        local refusal = HAS_CLUSTERS
            and 'cannot load the Lua files for the cluster "main": module \'resty.holdfast.cluster.gate\' not found; '
                .. 'install '
                .. "the Lua files of cluster/ beside those of the library"
            or 'dictionary "spec_gate" belongs to the cluster "main", but this library was built without '
               .. "cluster support; install one with cluster support"
        -- The second run finds the dictionary that the first run created, and loads the gate again.
        assert.equal(("nil\t%s\n"):format(refusal):rep(2), run [[
            local shdict = require "resty.shdict"
            for _ = 1, 2 do
                print(shdict.open("spec_gate", { size = "64k", cluster = "main" }))
            end
            shdict.remove "spec_gate"
        ]])
    end)

    it("does not exist for a plain dictionary, whose locks need no file from cluster/", function ()
        assert.equal("0\ttrue\tlock\t1\n" .. ('nil\tdictionary "spec_gate" belongs to no cluster\n'):rep(2), run [[
            local dict = require("resty.shdict").open("spec_gate", { size = "64k" })
            local lock = require("resty.lock"):new(dict)
            print(lock:lock("key"), lock:verify(), lock:holder("key").kind, lock:unlock())
            print(dict:cluster())
            print(require("resty.lock"):new(dict, { cluster = true }))
            require("resty.shdict").remove "spec_gate"
        ]])
    end)
end)
