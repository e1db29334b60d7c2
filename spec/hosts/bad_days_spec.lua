-- Tests what happens in every event loop if threads, descriptors or memory are lacking, and if a process exits or forks
-- during a wait.

local new_holder, loops, process, waits = require "spec.support" ("holder", "loops", "process", "waits")

-- Defines functions that limit what the operating system provides from now on.
local LIMITS = [[
    local ffi = require "ffi"
    ffi.cdef "typedef struct { unsigned long now, most; } limits;"
    ffi.cdef "int getrlimit(int, limits *); int setrlimit(int, const limits *);"
    ffi.cdef "int setresuid(unsigned int, unsigned int, unsigned int); unsigned int geteuid(void);"
    ffi.cdef "int capget(unsigned int *, unsigned int *); int capset(unsigned int *, const unsigned int *);"
    local NPROC, NOFILE = 6, 7
    local function limit(what, now)
        local limits = ffi.new("limits")
        assert(ffi.C.getrlimit(what, limits) == 0)
        local before = limits.now
        limits.now = now
        assert(ffi.C.setrlimit(what, limits) == 0)
        return tonumber(before)
    end
    -- The limit on threads does not apply to root, so the process becomes a different user who may still read every
    -- file.
    local function limit_threads()
        limit(NPROC, 1)
        if ffi.C.geteuid() == 0 then
            assert(ffi.C.setresuid(65534, 0, 0) == 0)
            local version = ffi.new("unsigned int[2]", { 0x20080522, 0 })
            local capabilities = ffi.new("unsigned int[6]")
            assert(ffi.C.capget(version, capabilities) == 0)
            local ADMIN, RESOURCE = 2 ^ 21, 2 ^ 24
            capabilities[0] = bit.band(capabilities[0], bit.bnot(ADMIN + RESOURCE))
            assert(ffi.C.capset(version, capabilities) == 0)
        end
    end
]]


for _, name in ipairs(loops.names) do
    describe("in the loop of " .. name, function ()
        local holder = new_holder(loops.COMMON)

        before_each(function () holder:take("key") end)
        after_each(process.clean_up)

        -- Runs with the failure `bad` from the beginning, or from `later` to `again`. Expects that other coroutines run
        -- in the meantime, and that the waiter gets the lock after its release.
        local function assert_waits_continue(bad, later, again)
            local child = loops.start(name, LIMITS .. bad .. [[
                local ticks, over
                spawn(function ()
                    while not over do
                        sleep(0.01)
                        ticks = ticks and ticks + 1
                        if ticks == 3 then say("others continue") end
                    end
                end)
                spawn(function ()
                    local lock = new { timeout = 20 }
                    ]] .. (later or "") .. [[
                    ticks = 0
                    local elapsed, err = lock:lock("key")
                    ]] .. (again or "") .. [[
                    say(elapsed and elapsed > 0, err, lock:unlock())
                    over = true
                end)
                run()
                say("end")
            ]])
            child:expect("others continue")
            waits.sleep(0.1)
            holder:release()
            child:expect_end("true\tnil\t1", "end")
        end

        it("a process that cannot start threads can wait", function ()
            assert_waits_continue [[
                limit_threads()
                assert(not require("resty.holdfast.wait.parker").fd())
            ]]
        end)

        -- Neovim also needs some descriptors when it exits.
        it("a process without free descriptors can wait, and waits as usual once it has some again", function ()
            assert_waits_continue("", [[
                assert(select(2, new({ timeout = 0.02 }):lock("key")) == "timeout")
                local before = limit(NOFILE, 0)
                if "]] .. name .. [[" == "scheduler" then -- the scheduler has not needed a descriptor yet
                    assert(not require("resty.holdfast.wait.parker").fd())
                end
            ]], [[
                limit(NOFILE, before)
                assert(require("resty.holdfast.wait.parker").fd())
            ]])
        end)

        it("a process without free descriptors gets an error at its first wait, and can wait later", function ()
            local child = loops.start(name, LIMITS .. [[
                spawn(function ()
                    local lock = new { timeout = 0.02 }
                    local before = limit(NOFILE, 0)
                    local _, err = lock:lock("key")
                    limit(NOFILE, before)
                    say(err)
                    say(select(2, lock:lock("key")))
                end)
                run()
            ]])
            local err = child:hear()
            if err ~= "timeout" then
                assert.equal("cannot wait here (host " .. loops.hosts[name] .. "): cannot load its adapter: module " ..
                             "'resty.holdfast.host." .. loops.hosts[name] .. "' not found:", err)
            end
            child:expect("timeout")
        end)

        it("a process that exits while its coroutines wait does not delay other processes", function ()
            -- If the Lua state is closed in a callback, luv crashes, even without holdfast.
            local crashes = name == "luv" or name == "neovim"
            for _, close in ipairs(crashes and { "" } or { "", ", true" }) do
                local child = loops.start(name, [[
                    for i = 1, 3 do
                        spawn(function ()
                            if i == 1 then say("begin") end
                            new():lock("key")
                        end)
                    end
                    spawn(function ()
                        sleep(0.05)
                        os.exit(7]] .. close .. [[)
                    end)
                    run()
                ]])
                child:expect("begin")
                assert.is_nil(child:hear())
                assert.equal(7, child:wait())
                holder:release()
                holder:take("key")
            end
        end)

        it("a process that forks while its coroutines wait gets its locks, and so does the child", function ()
            local child = loops.start(name, process.FORK .. [[
                local over
                spawn(function ()
                    local lock = new()
                    local elapsed, err = lock:lock("key")
                    say(elapsed and "parent", err)
                    lock:unlock()
                    over = true
                end)
                spawn(function ()
                    sleep(0.05)
                    for i = 1, 3 do
                        if ffi.C.fork() == 0 then  -- parent and child cannot share a loop, so the child blocks
                            local none = require "resty.holdfast.host.none"
                            hosts.set_host { name = "child", sleep = none.sleep, wait = none.wait }
                            local lock = new()
                            ffi.C._exit(lock:lock("key") and lock:unlock() and 0 or 1)
                        end
                    end
                    say("forked")
                end)
                run()
                local done = 0
                for i = 1, 3 do
                    local status = ffi.new("int[1]", -1)
                    ffi.C.waitpid(-1, status, 0)
                    if status[0] == 0 then done = done + 1 end
                end
                say("end", over, done)
            ]], { stderr = true })
            child:expect("forked")
            waits.sleep(0.05)
            holder:release()
            child:expect("parent\tnil")
            child:expect("end\ttrue\t3")
        end)
    end)
end


describe("a runtime directory", function ()
    after_each(process.clean_up)

    -- Mounts a new file system, which disappears with the process. Only root may do this, and only on some systems.
    local MOUNTED = [[
        local ffi = require "ffi"
        ffi.cdef "int unshare(int); int mkdir(const char *, unsigned int); int rmdir(const char *);"
        ffi.cdef "int mount(const char *, const char *, const char *, unsigned long, const char *);"
        local NEWNS, RDONLY, REMOUNT, REC_PRIVATE = 0x20000, 1, 32, 0x44000
        local place = os.getenv("HOLDFAST_DIR")
        ffi.C.mkdir(place, 448)  -- 0700
        local function mount(options, flags)
            return ffi.C.mount("holdfast", place, "tmpfs", flags or 0, options) == 0
        end
        -- Makes this process's mounts private. In a chroot, "/" may not be a mount point.
        local function keep_to_oneself()
            return ffi.C.mount("none", "/", nil, REC_PRIVATE, nil) == 0
                or ffi.C.mount("none", "/dev/shm", nil, REC_PRIVATE, nil) == 0
        end
        if ffi.C.unshare(NEWNS) ~= 0 or not keep_to_oneself() or not mount("mode=0700,size=3m") then
            say("cannot mount")
            os.exit(0)
        end
        local shdict = require "resty.shdict"
    ]]

    local place

    before_each(function ()
        place = os.getenv("HOLDFAST_DIR") .. "/mounted"
    end)

    after_each(function ()
        os.remove(place)
    end)

    local function run_in_mounted(source)
        local text, status = process.run(MOUNTED .. source, { env = { HOLDFAST_DIR = place } })
        if text == "cannot mount\n" then
            pending("only root can mount a file system here")
            return
        end
        assert.equal(0, status, text)
        return (text:gsub(place:gsub("%p", "%%%0"), "PLACE"))
    end

    it("that is full does not stop a process that has opened everything, and causes errors in others", function ()
        local text = run_in_mounted [[
            local dict = assert(shdict.open("spec_full", { size = "64k" }))
            local lock = require("resty.lock"):new("spec_full")
            os.execute("head -c 4m /dev/zero 2>/dev/null >" .. place .. "/filler")
            say(shdict.open("spec_more", { size = "64k" }))
            local filled = 0
            repeat
                filled = filled + 1
            until not dict:safe_set("entry" .. filled, ("x"):rep(1000))
            say(filled > 10, lock:lock("key"), lock:unlock())
            local cqueues = require "cqueues"
            local loop = cqueues.new()
            local other = require("resty.lock"):new("spec_full")
            lock:lock("key")
            loop:wrap(function ()
                cqueues.sleep(0.05)
                lock:unlock()
            end)
            loop:wrap(function () say(other:lock("key") > 0, other:unlock()) end)
            assert(loop:loop())
        ]]
        if text then
            assert.matches("^nil\t[^\n]*needs %d+ bytes, but only %d+ bytes are free in PLACE\n"
                           .. "true\t0\t1\ntrue\t1\n$", text)
        end
    end)

    it("that is full from the beginning causes an error", function ()
        local text = run_in_mounted [[
            os.execute("head -c 4m /dev/zero 2>/dev/null >" .. place .. "/filler")
            say(shdict.open("spec_full", { size = "64k" }))
            say(require("resty.holdfast.wait.parker").listen_at())
        ]]
        if text then
            assert.matches("^nil\t[^\n]*PLACE/processes: it needs %d+ bytes, but only 0 bytes are free[^\n]*\n" ..
                           "nil\t[^\n]*bytes are free[^\n]*\n$", text)
        end
    end)

    it("that refuses this user still serves what the process has already opened", function ()
        local text = run_in_mounted [[
            ffi.cdef "int setresuid(unsigned int, unsigned int, unsigned int);"
            local dict = assert(shdict.open("spec_users", { size = "64k" }))
            local parker = require "resty.holdfast.wait.parker"
            require "resty.lock" -- loaded now, because the user below may not have access to the module's folder
            assert(ffi.C.setresuid(65534, 65534, 65534) == 0)
            say((parker.fd() or -1) >= 0, dict:set("value", 1), dict:get("value"))
            say(parker.listen_at())
            local lock = require("resty.lock"):new("spec_users")
            say(lock:lock("key"), lock:unlock())
        ]]
        if text then
            assert.matches("^true\ttrue\t1\nnil\t[^\n]*PLACE[^\n]*uid 65534[^\n]*\n0\t1\n$", text)
        end
    end)
end)
