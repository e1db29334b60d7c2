-- Tests cluster/docs/cluster.md: its examples run, with their own etcd instead of an etcd at port 2379, and it lists
-- each counter. Also tests that tools/docs/holdfast.md lists each option of the agent and each field of its
-- configuration.

local command, etcd, files, fixture, shell, snippets =
    require "spec.support" ("command", "cluster/etcd", "files", "fixture", "shell", "snippets")

local PATH = "cluster/docs/cluster.md"
local MANUAL = "tools/docs/holdfast.md"
local missing = etcd.missing() or not shell.succeeds("command -v etcdctl >/dev/null") and "etcdctl is not installed"
                or nil
local it = fixture.it_unless(missing)


describe(PATH, function ()
    local server

    before_each(command.set_up)

    after_each(function ()
        command.tear_down()
        if server then
            server:stop()
        end
        server = nil
    end)

    -- Starts an etcd unless the section starts its own.
    local function prepare(section)
        local shown = {}
        for _, block in ipairs(section) do
            local is_run = not (block.mark and block.mark:find("not run", 1, true))
            shown[#shown + 1] = is_run and block.text or nil
        end
        shown = "\n" .. table.concat(shown)
        local at, peer
        if shown:find("\netcd ", 1, true) then
            at, peer = "127.0.0.1:" .. etcd.free_port(), "127.0.0.1:" .. etcd.free_port()
        elseif shown:find("127.0.0.1:2379", 1, true) then
            server = etcd.start()
            at = server.url:match "//(.*)"
        end
        for _, block in ipairs(section) do
            block.text = block.text:gsub("127%.0%.0%.1:2379", at or "%0"):gsub("127%.0%.0%.1:2380", peer or "%0")
                              :gsub("host amber", "host " .. shell.output "hostname")
        end
        section.forgives = "holdfast: still waiting for [^\n]*\n"  -- may be printed on a slow machine
        section.env = { ETCDCTL_ENDPOINTS = at, ETCDCTL_API = "3" }
    end

    if missing then
        it("shows what happens", function () end)
    else
        snippets.claims(PATH, "shows what happens: ", prepare)
    end


    -- Returns the names in backticks in the tables under this heading.
    local function names(path, heading)
        local found = {}
        local section = assert(files.read(path):match("\n##+ " .. heading .. "\n(.-)\n##+ "), heading)
        for row in section:gmatch("\n(| [^\n]+)") do
            for name in row:gmatch("`([%w_-]+)") do
                found[name] = true
            end
        end
        return found
    end

    it("does not list the agent's options, because the manual has all of them", function ()
        local _, help = command.run("agent", "--help")
        local described = names(MANUAL, "Agent")
        for option in help:gmatch("%-%-(%a+)") do
            assert.is_true(described["--" .. option] or option == "help" or option == "version", option)
        end
    end)

    it("does not list the fields of the agent's configuration, because the manual has all of them", function ()
        local path = command.write("main.json", '{"walk": 1}')
        assert(shell.succeeds("chmod 600 '" .. path .. "'"))
        local _, _, err = command.run("agent", "main", "--config", path)
        local described = names(MANUAL, "Agent")
        local accepted = assert(err:match "expected one of ([^\n]+)", err)
        for field in accepted:gmatch("[%w_]+") do
            assert.is_true(described[field], field)
        end
    end)

    it("lists each number that `holdfast cluster status --json` prints", function ()
        server = etcd.start()
        local machine = etcd.machine "m"
        etcd.agent(machine, "--etcd", server.url)
        local _, out = command.run("lock", "--cluster", "main", "key", "--", command.program, "cluster", "status",
                                   "--json", { HOLDFAST_DIR = machine })
        local described = names(PATH, "What to watch")
        local found = 0
        for name in out:gmatch('"(%l[%l_%d]*)":') do
            found = found + 1
            assert.is_true(described[name] or name == "dictionaries" or name == "agents" or name == "main", name)
        end
        assert.is_true(found > 20, out)
    end)
end)
