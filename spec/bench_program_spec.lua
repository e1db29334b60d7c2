-- Tests bench/support/program.lua and bench/program. The timed programs are ordinary user programs, which also run
-- alone.

local command = require "spec.support.command"
local files = require "spec.support.files"
local program = require "bench.support.program"
local shdict = require "resty.shdict"
local shell = require "spec.support.shell"
local sides = require "bench.support.sides"
local cases = require "bench.cases"

local function program_of(name, side, rounds)
    for _, case in ipairs(cases) do
        if case.name == name then
            return (program.alone(case, side or "holdfast", sides.LOCKS, sides.SIZES, rounds))
        end
    end
end

describe("The program of a case", function ()
    before_each(command.set_up)
    after_each(command.tear_down)

    it("consists of the ten lines that docs/benchmarks.md shows", function ()
        local text = files.read("docs/benchmarks.md")
        assert.truthy(text:find("```lua\n" .. program_of("lock_unlock") .. "```", 1, true),
                      "docs/benchmarks.md does not show what bench/program lock_unlock prints")
        assert.equal(program_of("lock_unlock"), shell.output("bench/program lock_unlock") .. "\n")
    end)

    it("runs alone and prints a time for each round, for every case", function ()
        for _, case in ipairs(cases) do
            shdict.remove("bench_hot") -- left by the previous case, because this process keeps it
            local path = files.write(command.path("case.lua"), program_of(case.name, "holdfast", 3))
            local out = shell.output("LUA_PATH='lua/?.lua;?.lua;;' luajit " .. path)
            assert.truthy((out .. "\n"):find("^%d+%.%d ns\n%d+%.%d ns\n%d+%.%d ns\n$"), case.name .. ": " .. out)
        end
    end)

    it("differs between the two sides only in the lines that name the sides", function ()
        local ours, theirs = program_of("get_hot"), program_of("get_hot", "ngx.shared")
        assert.equal("local dict = ngx.shared.bench_hot", theirs:match("^[^\n]*"))
        assert.equal(ours:match("\n(.*)"), theirs:match("\n(.*)"))
    end)
end)

describe("bench/program", function ()
    it("lists the cases if the name is unknown", function ()
        local out = shell.output("bench/program nothing 2>&1; echo status $?")
        assert.truthy(out:find("the cases are lock_unlock, new_lock_unlock", 1, true), out)
        assert.truthy(out:find("status 2$"), out)
    end)
end)
