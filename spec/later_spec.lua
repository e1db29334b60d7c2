-- Tests later.lua: modules are compiled at their first use, from texts that are read at the start.

local fixture, process, shell = require "spec.support" ("fixture", "process", "shell")

-- Prepended to the source of each child.
local COMMON = [[
    local PREFIX = "resty.holdfast."
    local resty_lock
    local function start() resty_lock = require "resty.lock" end
    local function new(options) return assert(resty_lock:new("spec_later", options)) end
    local function is_compiled(name) return package.loaded[PREFIX .. name] ~= nil end
]]


describe("later", function ()
    fixture.dictionary("spec_later", { size = "100k" })
    local folder

    before_each(function ()
        folder = shell.output("mktemp -d"):match("[^\n]+")
        assert(shell.succeeds("cp -r lua '" .. folder .. "'"))
    end)

    after_each(function ()
        shell.succeeds("rm -r -- '" .. folder .. "'")
    end)

    -- Starts a child whose Lua files are a copy, which the test may change.
    local function start_child(source)
        return process.start(COMMON .. source, { env = { LUA_PATH = folder .. "/lua/?.lua" }, stderr = true })
    end

    it("compiles no module for waits, options, queries or values when a program takes a free lock", function ()
        start_child([[
            start()
            local lock = new()
            assert(lock:lock("key") and lock:unlock())
            for _, name in ipairs { "dictionary.values", "host", "lock.lock_info", "lock.options", "scheduler",
                                    "wait.wait" } do
                assert(not is_compiled(name), name)
            end
        ]]):expect_end()
    end)

    it("uses the files as they were at the start", function ()
        local child = start_child [[
            start()
            say "started"
            hear()
            local lock, other = new(), new { timeout = 0.01, log_timeouts = function () say "logged" end }
            assert(lock:lock("key"))
            say(other:lock("key"))
            say(lock:holder("key").held >= 0, lock.dict:incr("number", 1, 2), lock:wait("free"))
            say(other:with("free", type, 1))
            say(debug.getinfo(package.loaded["resty.holdfast.lock.lock_info"].find, "S").source)
        ]]
        child:expect("started")
        assert(shell.succeeds("cd '" .. folder .. [[' && for file in $(find * -name '*.lua'); do
            echo 'error "a different version"' > "$file"; done]]))
        child:say("go")
        child:expect_end("logged", "nil\ttimeout", "true\t3\t0", "number",
                         "@" .. folder .. "/lua/resty/holdfast/lock/lock_info.lua")
    end)

    it("knows every module that may be needed after the start", function ()
        local names = shell.output [[cd lua/resty/holdfast && find dictionary host* lock scheduler.lua tasks wait \
            worker.lua -name '*.lua' ! -name 'nginx*' ! -name zones.lua | sed 's/\.lua$//; s,/,.,g']]
        start_child(("start() local NAMES = %q"):format(names) .. [[
            for name in NAMES:gmatch("%S+") do
                assert(is_compiled(name) or package.preload[PREFIX .. name], name)
            end
        ]]):expect_end()
    end)

    it("reads a file at its first use if the read at the start failed, and tries again", function ()
        start_child([[
            local open, path = io.open, package.path
            io.open = function () return nil, "Too many open files" end
            start()
            io.open = open
            local lock = new()
            assert(lock:lock("key"))
            package.path = ""
            local ok, err = pcall(lock.holder, lock, "key")
            say(ok, err:match("module 'resty%.holdfast[%w_.]*' not found"))
            package.path = path
            say(lock:holder("key").held >= 0)
        ]]):expect_end("false\tmodule 'resty.holdfast.lock.lock_info' not found", "true")
    end)

    it("does not let a finaliser interrupt the compilation of a module that it needs", function ()
        start_child([[
            collectgarbage("setpause", 0)
            start()
            local lock, failure = new(), nil
            assert(lock:lock("key"))
            local function make_garbage()
                getmetatable(newproxy(true)).__gc = function ()
                    make_garbage()
                    local ok, err = pcall(lock.holder, lock, "key")
                    failure = failure or not ok and err or nil
                end
            end
            make_garbage()
            say(lock:holder("key").held >= 0, failure)
            os.exit()
        ]]):expect_end("true\tnil")
    end)

    it("reads the files again if a program clears package.loaded", function ()
        local child = start_child [[
            start()
            say "started"
            hear()
            for name in pairs(package.loaded) do
                if name:find("^resty%.") then package.loaded[name] = nil end
            end
            start()
            say(pcall(new().holder, new(), "key"))
        ]]
        child:expect("started")
        assert(shell.succeeds("echo 'error(\"a different version\", 0)' > '" .. folder
                              .. "/lua/resty/holdfast/lock/lock_info.lua'"))
        child:say("go")
        child:expect_end("false\ta different version")
    end)
end)
