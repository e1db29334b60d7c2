-- Tests resty/holdfast/queue.lua in every event loop and in nginx: only the coroutine that takes a job waits for it,
-- and the job of a killed process is given to another process.

local fixture, loops, process, site = require "spec.support" ("fixture", "loops", "process", "site")
local queue = require "resty.holdfast.queue"
local shdict = require "resty.shdict"

local NAME = "spec_queue_hosts"

local OPEN = [[
    local jobs = assert(require("resty.holdfast.queue").open("spec_queue_hosts", { size = "100k", persist = false }))
]]


-- Gives each test an empty queue.
local function open()
    for _, suffix in ipairs { "", ".claims", ".workers" } do
        shdict.remove(NAME .. suffix)
    end
    return assert(queue.open(NAME, { size = "100k", persist = false }))
end


-- Starts a process that takes a job and keeps it.
local function start_worker()
    local child = process.start(OPEN .. [[ jobs:take(20) say("taken") hear() ]])
    child:expect("taken")
    return child
end


for _, name in ipairs(loops.names) do
    describe("a queue in the loop of " .. name, function ()
        local jobs

        before_each(function () jobs = open() end)
        after_each(process.clean_up)

        local start = loops.starter(name)

        it("only the coroutine that takes a job waits for it", function ()
            local child = start(OPEN .. [[
                tell_after(10, "ticks")
                spawn(function ()
                    local job, err = jobs:take(30)
                    say(job and job.value or err, job and job:done())
                    say(jobs:take(0.02))
                    over = true
                end)
                run()
                say("end")
            ]])
            child:expect("ticks")
            assert(jobs:push("a"))
            child:expect_end("a\ttrue", "nil\ttimeout", "end")
        end)

        it("a coroutine that waits gets the job of a killed process", function ()
            assert(jobs:push("a"))
            local worker = start_worker()
            local child = start(OPEN .. [[
                spawn(function ()
                    say("begin")
                    local job, err = jobs:take(30)
                    say(job and job.value or err, job and job.attempts)
                end)
                run()
            ]])
            child:expect("begin")
            worker:kill()
            child:expect("a\t2")
        end)

        it("a coroutine waits until a full queue has room", function ()
            local child = start(OPEN:gsub("false }", "false, max = 1 }") .. [[
                assert(jobs:push("a"))
                spawn(function ()
                    say("begin")
                    say(jobs:push("b", { timeout = 30 }) ~= nil)
                end)
                run()
            ]])
            child:expect("begin")
            assert.equal("a", assert(jobs:take(20)).value)
            child:expect_end("true")
        end)
    end)
end


local it = fixture.it_unless(site.missing())


describe("a queue in nginx", function ()
    fixture.site("spec_nginx", { size = "1m" })
    local jobs

    before_each(function () jobs = open() end)

    local function start(source, options)
        options = options or {}
        options.locations = { ["/"] = OPEN .. site.IN_THREADS .. source }
        return site.start(options)
    end

    it("only the light thread that takes a job waits, and each of fifty in two workers gets a job", function ()
        local here = start([[
            ngx.print(in_threads(50, function ()
                local job = jobs:take(60)
                return job and job:done() and 1
            end))
        ]], { workers = 2 })
        local connections = here:connect_to_each(2)
        for _, connection in ipairs(connections) do
            connection:send("/")
        end
        for i = 1, 100 do
            assert(jobs:push(i))
        end
        for _, connection in ipairs(connections) do
            assert.equal("50", (connection:receive(60)))
        end
    end)

    it("a light thread gets the job of a killed worker process", function ()
        local here = start [[
            local job, err = jobs:take(60)
            ngx.print(job and job.value .. " " .. job.attempts or err)
        ]]
        assert(jobs:push("a"))
        local worker = start_worker()
        local connection = here:connect()
        connection:send("/")
        worker:kill()
        assert.equal("a 2", (connection:receive(60)))
    end)

    it("a reload takes no job from a running request, and gives back jobs that the old worker still has", function ()
        local here = site.start { locations = { ["/keep"] = OPEN .. "ngx.print(jobs:take(0).value)",
            ["/take"] = OPEN .. [[
                local job, err = jobs:take(60)
                ngx.print(job and job.value .. " " .. job.attempts or err, " ", job and job:done())
            ]],
            ["/hold"] = OPEN .. [[
                local dict = require("resty.shdict").find("spec_nginx")
                local job = jobs:take(60)
                dict:set("held", true)
                while not dict:get("go") do ngx.sleep(0.005) end
                ngx.print(job.value, " ", job:done())
            ]] } }
        local dict = shdict.find("spec_nginx")
        assert(jobs:push("left") and jobs:push("held"))
        assert.equal("left", (here:get("/keep")))
        local held, waits = here:connect(), here:connect()
        held:send("/hold")
        site.await("the request has the job", function () return dict:get("held") end)
        waits:send("/take")
        site.await("the other worker waits", function () return shdict.find(NAME .. ".workers"):get("turn") end)
        local before = here:workers()[1]
        here:signal("HUP")
        site.await("the old worker is closing", function () return here:log():find "gracefully shutting" end)
        assert(jobs:push("new"))
        assert.equal("new 1 true", (waits:receive(60)))
        assert.is_true(site.alive(before))
        dict:set("go", true)
        assert.equal("held true", (held:receive(60)))
        assert.equal("left 2 true", (here:get("/take", 60)))
    end)

    it("take and push work in a phase that cannot yield, and return an error if they would have to wait", function ()
        local here = site.start { locations = { ["/"] = {
            directives = "set_by_lua_block $said {" .. OPEN:gsub("false }", "false, max = 1 }") .. [[
                local function text(call, ...)
                    local ok, value, err = pcall(call, jobs, ...)
                    return tostring(ok and value and true) .. " " .. tostring(ok and err or value)
                end
                local pushed, full = text(jobs.push, "a"), text(jobs.push, "b", { timeout = 0 })
                local waits = text(jobs.push, "b")
                local job = jobs:take(1)
                return table.concat({ pushed:match("^true"), full, waits, tostring(job:done()), text(jobs.take, 1),
                                      text(jobs.take, 0) }, "; ")
            }]],
            content = "ngx.print(ngx.var.said)",
        } } }
        local refusal = "false API disabled in the context of set_by_lua%*"
        assert.matches("^true; nil full; " .. refusal .. "; true; " .. refusal .. "; nil timeout$", (here:get("/")))
    end)
end)
