-- Random calls against a model. The seed is in the name; HOLDFAST_SPEC_SEED sets it.

local Run, process = require "spec.support" ("model_run", "process")
local shdict = require "resty.shdict"

local SEED = tonumber(os.getenv("HOLDFAST_SPEC_SEED")) or os.time() % 1000000


describe("shdict against its model, seed " .. SEED .. ":", function ()
    after_each(function ()
        process.clean_up()
        shdict.remove("spec_model")
    end)


    local function alone(size, exact, keys, calls)
        local dict = assert(shdict.open("spec_model", { size = size }))
        local run = Run.new({ dict = dict, exact = exact, alone = true, keys = keys, seed = SEED })
        run:steps(calls)
        return run, run:compare_keys(), dict:stats()
    end

    it("with room for everything every answer is the model's", function ()
        local _, keys, stats = alone("8m", true, 1000, 300000)
        assert.is_true(keys > 0)
        assert.equal(0, stats.evictions)
    end)

    it("in a small dictionary what is missing was evicted, and what is there is right", function ()
        local run, keys, stats = alone("256k", false, 4000, 1000000)
        assert.is_true(keys > 0)
        assert.is_true(stats.evictions > 0)
        assert.is_true(run.gone <= stats.evictions, run.gone .. " missing, evicted " .. stats.evictions)
    end)


    -- Each on keys of its own, and all at once; how many entries were missing.
    local function together(size, exact, keys, calls)
        assert(shdict.open("spec_model", { size = size }))
        local children = {}
        for i = 1, 4 do
            children[i] = process.start(([[
                local Run = require "spec.support.model_run"
                local run = Run.new({
                    dict = require("resty.shdict").shared.spec_model, exact = %s, keys = %d, seed = %d, prefix = "%d:",
                })
                say "ready"
                hear()
                run:steps(%d)
                say "at rest"
                hear()
                local keys = run:compare_keys()
                say(keys .. " " .. run.gone)
            ]]):format(exact, keys, SEED + i, i, calls), { stderr = true })
        end
        local function all_hear(expected)
            for _, child in ipairs(children) do
                assert.matches(expected, child:hear(60))
            end
        end
        all_hear("^ready$")
        for _, child in ipairs(children) do
            child:say("go")
        end
        all_hear("^at rest$")
        local gone = 0
        for _, child in ipairs(children) do
            child:say("compare")
        end
        for _, child in ipairs(children) do
            local line = child:hear()
            assert.matches("^%d+ %d+$", line)
            gone = gone + tonumber(line:match("%d+$"))
        end
        return gone, shdict.shared.spec_model:stats()
    end

    it("four processes on keys of their own get the answers of the model", function ()
        local gone, stats = together("8m", true, 300, 75000)
        assert.equal(0, gone)
        assert.equal(0, stats.evictions)
    end)

    it("four processes in a small dictionary miss nothing but what was evicted", function ()
        local gone, stats = together("256k", false, 1000, 75000)
        assert.is_true(stats.evictions > 0)
        assert.is_true(gone <= stats.evictions, gone .. " missing, evicted " .. stats.evictions)
    end)
end)
