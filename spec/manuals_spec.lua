-- Tests the manuals of the modules, docs/resty.*.md: their examples must do what the manuals show, and each function
-- must be described.

local command, files, snippets = require "spec.support" ("command", "files", "snippets")

local MANUALS = {
    ["docs/resty.lock.md"] = "resty.lock",
    ["docs/resty.rwlock.md"] = "resty.rwlock",
    ["docs/resty.semaphore.md"] = "resty.semaphore",
    ["docs/resty.shdict.md"] = "resty.shdict",
    ["docs/resty.holdfast.cache.md"] = "resty.holdfast.cache",
    ["docs/resty.holdfast.scheduler.md"] = "resty.holdfast.scheduler",
    ["docs/resty.holdfast.events.md"] = "resty.holdfast.events",
    ["docs/resty.holdfast.prometheus.md"] = "resty.holdfast.prometheus",
    ["docs/resty.holdfast.queue.md"] = "resty.holdfast.queue",
}

-- The functions that only other modules of the project call.
local INTERNAL = {
    ["resty.holdfast.queue"] = { find = true },
    ["resty.shdict"] = { find = true },
    ["resty.holdfast.scheduler"] = { is_yieldable = true, report = true, wait = true },
}

local function assert_describes(path, name)
    local described = files.read(path):find("\n### " .. name .. "\n", 1, true)
    assert(described, path .. " has no heading '### " .. name .. "'")
end


for path, module in pairs(MANUALS) do
    describe(path, function ()
        before_each(command.set_up)
        after_each(command.tear_down)

        it("begins with a synopsis that shows its output", function ()
            local sections = snippets.sections(path)
            assert.equal("Synopsis", sections[1].heading)
            assert.equal("lua", sections[1][1].language)
            assert.matches("^output", sections[1][2].mark)
        end)

        snippets.claims(path, "shows what happens: ", nil, 2)

        it("describes every function of the module", function ()
            local internal = INTERNAL[module] or {}
            for name, value in pairs(require(module)) do
                if type(value) == "function" and not internal[name] then
                    assert_describes(path, name)
                end
            end
        end)
    end)
end


it("docs/resty.shdict.md describes every method of a dictionary", function ()
    local dict = assert(require("resty.shdict").open("spec_locks", { size = "1m" }))
    for name, value in pairs(getmetatable(dict)) do
        if type(value) == "function" then
            assert_describes("docs/resty.shdict.md", name)
        end
    end
end)


it("docs/resty.shdict.md describes every count of stats", function ()
    local described = assert(files.read("docs/resty.shdict.md"):match("\n### stats\n(.-)\n### "))
    local dict = assert(require("resty.shdict").open("spec_locks", { size = "1m" }))
    for name in pairs(dict:stats()) do
        assert(described:find("`" .. name .. "`", 1, true), "stats does not say what " .. name .. " is")
    end
end)
