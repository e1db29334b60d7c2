-- Tests bench/support/points.lua, which stores the points of curves, and bench/plot, which draws the curves.

local files, fixture, shell = require "spec.support" ("files", "fixture", "shell")
local points = require "bench.support.points"

local missing = not shell.succeeds("command -v gnuplot >/dev/null") and "gnuplot is not installed" or nil

local folder

local function run(text)
    return shell.output(("bench/plot %s %s 2>&1; echo status $?"):format(files.write(folder .. "/data", text), folder))
end

describe("A file of points", function ()
    it("has a line for the source of the points, then one for each point", function ()
        local written, path = points.new(), os.tmpname()
        assert.is_true(written:is_empty())
        written:add("waits", "mine", 0.5, 10)
        written:add("waits", "lua-resty-lock", 0.25, 20.5)
        written:write(path, { "date: today, or so" })
        assert.equal("# date: today, or so\nfigure,curve,x,y\nwaits,mine,0.5,10\nwaits,lua-resty-lock,0.25,20.5\n",
                     files.read(path))
        assert.is_false(written:is_empty())
        os.remove(path)
    end)

    it("refuses a curve's name that it could not read back", function ()
        assert.has_error(function () points.new():add("waits", "mine, alone", 1, 2) end,
                         "a curve's name must not contain a comma")
    end)
end)

describe("bench/plot", function ()
    local it = fixture.it_unless(missing)

    before_each(function ()
        folder = os.tmpname() .. ".d"
        assert.is_true(shell.succeeds("mkdir " .. folder))
    end)
    after_each(function () shell.succeeds("rm -r " .. folder) end)

    it("draws only the figures that the file has", function ()
        local out = run("# of a test\nfigure,curve,x,y\nown_keys,mine,1,2\nown_keys,mine,2,4\n"
                        .. "own_keys,theirs & co,2,1\n")
        assert.equal(folder .. "/lock-own-keys.svg\nstatus 0", out)
        assert.equal("data\nlock-own-keys.svg", shell.output("ls " .. folder))
        local svg = files.read(folder .. "/lock-own-keys.svg")
        for _, words in ipairs { "Locks of different keys", "processes (logarithmic)", ">mine<",
                                 "theirs &amp; co<", ">1<", ">2<", "prefers-color-scheme: dark" } do
            assert.truthy(svg:find(words, 1, true), words .. " is missing")
        end
    end)

    it("draws every figure, even with a single point", function ()
        local text, count = "figure,curve,x,y\n", 0
        local names = shell.output("ls bench/figures/*.gp cluster/bench/figures/*.gp 2>/dev/null")
        for name in names:gmatch("([%w_]+)%.gp") do
            text = text .. name .. ",mine,1,2\n"
            count = count + 1
        end
        assert.matches("status 0$", run(text))
        assert.equal(tostring(count), shell.output("ls " .. folder .. "/*.svg | wc -l"))
    end)

    it("fails if the file has no points, is not a file of points, or cannot be read", function ()
        assert.matches("has none of the figures\nstatus 1$", run("figure,curve,x,y\n"))
        assert.matches("data:2: expected figure,curve,x,y .*, got \"waits,mine,one,2\"\nstatus 1$",
                       run("figure,curve,x,y\nwaits,mine,one,2\n"))
        assert.matches("data:1: .*got \"waits,mine,0,2\"\nstatus 1$", run("waits,mine,0,2\n"))
        assert.matches("/nowhere.csv cannot be read\nstatus 1$",
                       shell.output("bench/plot /nowhere.csv 2>&1; echo status $?"))
    end)
end)
