-- Tests that code for ngx.shared.DICT works with resty.shdict. Makes the same calls to both, in one worker of a real
-- nginx.

local fixture, site = require "spec.support" ("fixture", "site")

local it = fixture.it_unless(site.missing())


describe("shdict compared with ngx.shared", function ()
    after_each(site.clean_up)

    -- Runs a file of spec/side_by_side. Returns the lines that it prints, split into words and indexed
    -- by their first word.
    local function run(name, dictionaries)
        local said = { cases = {}, calls = {}, differs = {}, full = {}, rule = {} }
        local child = site.start_file("spec/side_by_side/" .. name .. ".lua", dictionaries)
        for line in function () return child:hear(200) end do
            local words = {}
            for word in (line .. "\t"):gmatch("(.-)\t") do
                words[#words + 1] = word
            end
            if words[1] == "end" then
                break
            end
            assert(said[words[1]], line)
            table.insert(said[words[1]], words)
        end
        return said
    end

    local function the_first(differences)
        local lines = {}
        for i = 1, math.min(10, #differences) do
            lines[i] = table.concat(differences[i], "\n    ")
        end
        return #differences .. " differ, for instance\n" .. table.concat(lines, "\n")
    end

    it("answers each call in each state as the original does, except for the known differences", function ()
        local dictionaries = {}
        for i = 1, 30 do
            dictionaries["side_by_side_" .. i] = "256k"
        end
        local said = run("compare", dictionaries)
        assert.equal(0, #said.differs, the_first(said.differs))
        assert.is_true(tonumber(said.cases[1][2]) > 10000)
        for _, rule in ipairs(said.rule) do
            assert.is_true(tonumber(rule[2]) > 0, "no longer a difference: " .. rule[3])
        end
    end)

    it("answers a long series of random calls as the original does", function ()
        local seed = os.getenv("HOLDFAST_SPEC_SEED") or tostring(os.time())
        require("ffi").C.setenv("HOLDFAST_SPEC_SEED", seed, 1)
        local said = run("random", { side_by_side = "64m" })
        assert.equal(0, #said.differs, "HOLDFAST_SPEC_SEED=" .. seed .. ": " .. the_first(said.differs))
        assert.equal(1, #said.calls)
    end)

    -- When there is no more room, both return the same messages. The original may lose the key's old value or other
    -- values.
    it("answers as the original does when there is no more room", function ()
        local said = run("full", { side_by_side_small = "256k" })
        assert.equal(9, #said.full)
        for _, words in ipairs(said.full) do
            assert.equal(words[3], words[4], words[2])
        end
    end)
end)
