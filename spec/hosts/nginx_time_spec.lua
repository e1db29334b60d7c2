-- Tests the clock that dictionary/registry.lua selects. In nginx, values expire by the loop's clock, as values in
-- ngx.shared do, but locks expire by the system's clock.

local fixture, site = require "spec.support" ("fixture", "site")
local ffi = require "ffi"

local it = fixture.it_unless(site.missing())


describe("time in nginx", function ()
    after_each(site.clean_up)

    it("ends values as ngx.shared does and never late, and locks never early, in 10,000 random rounds", function ()
        local seed = os.getenv("HOLDFAST_SPEC_SEED") or tostring(os.time())
        ffi.C.setenv("HOLDFAST_SPEC_SEED", seed, 1)
        local child = site.start_file("spec/side_by_side/time.lua", { side_by_side_time = "4m" })
        local lines = {}
        repeat
            lines[#lines + 1] = child:hear(200)
        until lines[#lines] == "end" or #lines == 20
        assert.same({ "times\t650", "rounds\t10000", "leases\t400", "end" }, lines, "HOLDFAST_SPEC_SEED=" .. seed)
    end)
end)
