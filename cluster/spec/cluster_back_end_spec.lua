-- Runs the specs of resty.lock again, with a dictionary that belongs to a cluster. If HOLDFAST_CLUSTER is set, programs
-- need no change. Tests with the tag #local are not run, because they apply only to local locks: a deleted or flushed
-- lock is free immediately, a lease may last forever, and rwlocks and semaphores exist.

local agents, fixture, process, shell = require "spec.support" ("cluster/agent", "fixture", "process", "shell")

local it = fixture.it_unless(agents.missing())

-- The specs, and the dictionary that each spec uses.
local SPECS = {
    lock = "spec_locks",
    lock_holder = "spec_holder",
    lock_renew = "spec_renew",
    lock_with = "spec_with",
}

local PATIENCE = 150 -- seconds; only limits how long a spec can hang


describe("with a dictionary of a cluster", function ()
    local folder

    before_each(function ()
        folder = shell.output("mktemp -d /dev/shm/holdfast-spec.XXXXXX")
    end)

    after_each(function ()
        process.clean_up()
        os.execute("rm -rf -- '" .. folder .. "'")
    end)


    for spec, name in pairs(SPECS) do
        it("spec/" .. spec .. "_spec.lua passes", function ()
            agents.start({ name }, { env = { HOLDFAST_DIR = folder } })
            local said = shell.output(("env -u HOLDFAST_SPEC_RUNNING HOLDFAST_DIR='%s' HOLDFAST_CLUSTER=%s=main "
                .. "HOLDFAST_SPEC_STANDING='key first second other 1 5 true' timeout %d busted --output=TAP "
                .. "--exclude-tags=local spec/%s_spec.lua 2>&1"):format(folder, name, PATIENCE, spec))
            local count = tonumber(said:match("1%.%.(%d+)"))
            assert.is_true(count and count > 5, said)
            assert.is_nil(said:find("not ok", 1, true), said)
        end)
    end
end)
