-- bench/support/plot.lua: pictures of figures, and the files that the figures are kept in.

local files = require "spec.support.files"
local plot = require "bench.support.plot"
local shell = require "spec.support.shell"

local function figure(curves)
    return {
        title = "A < B",
        subtitle = "of a test",
        x = { title = "seconds", label = function (x) return ("x%g"):format(x) end },
        y = { title = "share", unit = " %" },
        curves = curves,
    }
end

local function curve(name, ...)
    return { name = name, points = { ... } }
end

describe("A plot", function ()
    it("shows titles, units, the name of each curve and a mark at each power of ten", function ()
        local svg = assert(plot.draw(figure { curve("mine", { 0.001, 0 }, { 100, 80 }), curve("theirs", { 1, 40 }) }))
        for _, words in ipairs { ">A &lt; B<", ">of a test<", ">seconds<", ">share<", ">80 %<", ">mine<", ">theirs<",
                                 ">x0.001<", ">x1<", ">x100<" } do
            assert.truthy(svg:find(words, 1, true), words .. " is missing")
        end
        assert.equal(2, select(2, svg:gsub("<polyline", "")))
    end)

    it("puts points where they belong: the largest x to the right, the largest y on top", function ()
        local svg = assert(plot.draw(figure { curve("mine", { 1, 0 }, { 10, 50 }, { 100, 100 }) }))
        local x1, y1, x2, y2, x3, y3 = svg:match('points="([%d.]+),([%d.]+) ([%d.]+),([%d.]+) ([%d.]+),([%d.]+)"')
        assert.is_near((x1 + x3) / 2, x2, 0.1)
        assert.is_near((y1 + y3) / 2, y2, 0.1)
        assert.is_true(x1 + 0 < x3 + 0 and y3 + 0 < y1 + 0)
    end)

    it("of a distribution has steps: it rises at its points, and stays to the right end", function ()
        local distribution = figure { curve("mine", { 1, 50 }, { 10, 100 }), curve("theirs", { 100, 100 }) }
        distribution.steps = true
        local svg = assert(plot.draw(distribution))
        local mine, theirs = svg:match('points="([^"]*)".*points="([^"]*)"')
        local _, _, _, last_point, _, right_end =
            mine:match("^([%d.]+),([%d.]+) %1,%2 %1,([%d.]+) ([%d.]+),%3 %4,([%d.]+) ([%d.]+),%5$")
        assert.is_true(last_point and last_point + 0 < right_end + 0, mine)
        assert.equal(right_end, theirs:match("([%d.]+),[%d.]+$"))
    end)

    it("has a logarithmic axis: each power of ten is as high as the other", function ()
        local logarithmic = figure { curve("mine", { 1, 10 }, { 10, 100 }, { 100, 1000 }) }
        logarithmic.y.log = true
        local svg = assert(plot.draw(logarithmic))
        local y1, y2, y3 = svg:match('points="[%d.]+,([%d.]+) [%d.]+,([%d.]+) [%d.]+,([%d.]+)"')
        assert.is_near((y1 + y3) / 2, y2, 0.1)
        assert.is_true(y3 + 0 < y1 + 0)
        for _, words in ipairs { ">10 %<", ">100 %<", ">1000 %<" } do
            assert.truthy(svg:find(words, 1, true), words .. " is missing")
        end
        logarithmic.curves[1].points[2][2] = 0
        assert.same({ nil, 'curve "mine", point 2: x must be a number greater than 0 and y one greater than 0, got '
                           .. "10 and 0" }, { plot.draw(logarithmic) })
    end)

    it("has marks at powers of two where the figure wants it", function ()
        local doubling = figure { curve("mine", { 1, 10 }, { 8, 20 }) }
        doubling.x.doubling = true
        local svg = assert(plot.draw(doubling))
        for _, words in ipairs { ">x1<", ">x2<", ">x4<", ">x8<" } do
            assert.truthy(svg:find(words, 1, true), words .. " is missing")
        end
        assert.is_nil(svg:find(">x5<", 1, true))
    end)

    it("has a form for dark pages", function ()
        local svg = assert(plot.draw(figure { curve("mine", { 1, 1 }) }))
        assert.truthy(svg:find("prefers-color-scheme: dark", 1, true))
    end)

    it("is drawn of a single point, and of nothing but zeros", function ()
        for _, y in ipairs { 0, 5 } do
            local svg = assert(plot.draw(figure { curve("mine", { 3, y }) }))
            assert.is_nil(svg:find("nan", 1, true))
            assert.is_nil(svg:find("inf", 1, true))
        end
    end)

    it("is refused with the reason where data is missing or bad", function ()
        local function refusal(...)
            local svg, err = plot.draw(figure { ... })
            assert.is_nil(svg)
            return err
        end
        assert.equal("there are no curves", refusal())
        assert.equal('curve "mine" has no points', refusal(curve("mine")))
        local expected = 'curve "mine", point 2: x must be a number greater than 0 and y one of at least 0, got '
        assert.equal(expected .. "0 and 1", refusal(curve("mine", { 1, 1 }, { 0, 1 })))
        assert.equal(expected .. "1 and -1", refusal(curve("mine", { 1, 1 }, { 1, -1 })))
        assert.equal(expected .. "inf and 1", refusal(curve("mine", { 1, 1 }, { math.huge, 1 })))
        assert.equal(expected .. "1 and nil", refusal(curve("mine", { 1, 1 }, { 1 })))
        assert.truthy(refusal(curve("mine", { 1, 1 }, { 1, 0 / 0 })):find("got 1 and %-?nan$"))
        assert.equal("there are 5 curves; 4 can be told apart",
                     refusal(curve("a", { 1, 1 }), curve("b"), curve("c"), curve("d"), curve("e")))
    end)
end)

describe("A file of figures", function ()
    local path

    before_each(function () path = os.tmpname() end)
    after_each(function () os.remove(path) end)

    local function write(text)
        files.write(path, text)
    end

    it("is read as it was written", function ()
        local written = plot.points()
        assert.is_true(written:is_empty())
        written:add("waits", "mine", 0.5, 10)
        written:add("waits", "lua-resty-lock", 0.25, 20)
        written:add("waits", "mine", 1, 30.5)
        written:write(path, { "date: today, or so" })
        local read = assert(plot.read(path))
        assert.equal("mine", read.waits[1].name)
        assert.same({ { 0.5, 10 }, { 1, 30.5 } }, read.waits[1].points)
        assert.same({ { 0.25, 20 } }, read.waits[2].points)
    end)

    it("takes no name of a curve that could not be read again", function ()
        assert.has_error(function () plot.points():add("waits", "mine, alone", 1, 2) end,
                         "a curve's name has no comma")
    end)

    it("is refused with the line that is wrong", function ()
        write("figure,curve,x,y\nwaits,mine,1,2\nwaits,mine,one,2\n")
        local read, err = plot.read(path)
        assert.is_nil(read)
        assert.equal(path .. ':3: expected figure,curve,x,y with two numbers, got "waits,mine,one,2"', err)
    end)

    it("is refused with the reason where there is none", function ()
        local read, err = plot.read("/nowhere/at/all.csv")
        assert.is_nil(read)
        assert.truthy(err:find("/nowhere/at/all.csv", 1, true))
    end)
end)

describe("bench/plot", function ()
    local folder

    before_each(function ()
        folder = os.tmpname() .. ".d"
        assert.is_true(shell.succeeds("mkdir " .. folder))
    end)
    after_each(function () shell.succeeds("rm -r " .. folder) end)

    local function run(text)
        return shell.output(("bench/plot %s %s 2>&1; echo status $?"):format(
                            files.write(folder .. "/points.csv", text), folder))
    end

    it("draws the figures that the file has, and no others", function ()
        local out = run("figure,curve,x,y\nown_keys,mine,1,2\nown_keys,mine,2,4\n")
        assert.equal(folder .. "/lock-own-keys.svg\nstatus 0", out)
        assert.truthy(files.read(folder .. "/lock-own-keys.svg"):find("processes (logarithmic)", 1, true))
    end)

    it("fails where the file has none", function ()
        assert.truthy(run("figure,curve,x,y\n"):find("has none of the figures\nstatus 1$"))
    end)
end)
