-- A real nginx as a web server for specs, with a master and workers, Lua in the phases of the locations, and answers
-- over a unix socket. The only setting for holdfast is the path of its modules.
--
--   local here = site.start {
--       workers = 2,                             -- default 1
--       user = "www-data",                       -- runs the workers; default: the spec's user
--       dictionaries = { my_locks = "1m" },      -- lua_shared_dict
--       main = "...", events = "...", http = "...", server = "...",  -- more lines for these parts of the configuration
--       stream = "...",                          -- the lines of stream { }, if there is one
--       listen = { "unix:/path ssl" },           -- in addition to the unix socket here.socket
--       env = { HOLDFAST_DIR = "/dev/shm/x" },   -- if different from the spec
--       locations = {
--           ["/name"] = "ngx.say(1)",            -- content_by_lua, or
--           ["/other"] = { access = "...", content = "...", directives = "..." },
--       },
--   }

local files, http, process, shell, waits = require "spec.support" ("files", "http", "process", "shell", "waits")
local ffi = require "ffi"

local C = ffi.C

local CONFIGURATION = [[
$load
$user
daemon off;
worker_processes $workers;
env HOLDFAST_DIR;
env HOLDFAST_LIB;
$main
pid $folder/nginx.pid;
error_log $folder/error.log info;
events { worker_connections $connections; $events }
$stream
http {
  access_log off;
  client_body_temp_path $folder/body;
  fastcgi_temp_path $folder/fastcgi;
  proxy_temp_path $folder/proxy;
  scgi_temp_path $folder/scgi;
  uwsgi_temp_path $folder/uwsgi;
  lua_package_path "$root/lua/?.lua;$root/?.lua;;";
  $dictionaries
  $http
  server {
    listen unix:$folder/http.sock backlog=4096;
    $listen
    keepalive_requests 1000000;
    keepalive_timeout 60s;
    $server
    location = /worker { return 200 $pid; }
    $locations
  }
}
]]

local _M = { alive = waits.alive }

-- Prepended to a location's code. in_threads(count, fn) runs fn(i) in `count` concurrent light threads, and returns the
-- sum of their results.
_M.IN_THREADS = [[
    local function in_threads(count, fn)
        local threads, sum = {}, 0
        for i = 1, count do
            threads[i] = ngx.thread.spawn(fn, i)
        end
        for i = 1, count do
            local ok, number = ngx.thread.wait(threads[i])
            sum = sum + (ok and number or 0)
        end
        return sum
    end
]]

-- The end of a location's code. Holds "key" with the object `lock` until the key "go" is in `dict`.
_M.HOLD = [[
    assert(lock:lock("key"))
    dict:set("held", true)
    while not dict:get("go") do ngx.sleep(0.005) end
    ngx.print(lock:unlock())
]]

local Site = {}
Site.__index = Site

local running = {}

-- The numbers of signals, for signal().
local SIGNALS = { HUP = 1, KILL = 9, QUIT = 3, TERM = 15, USR1 = 10, WINCH = 28 }

local program, load_modules


-- Returns the path of nginx and its load_module lines, or nil if there is no nginx with Lua.
local function find()
    if not program then
        program, load_modules = shell.output("scripts/find-nginx 2>/dev/null"):match("^([^\n]+)\n?(.*)$")
    end
    return program, load_modules
end


-- Returns nil, or the reason why there is no nginx with Lua.
function _M.missing()
    return not find() and shell.output("scripts/find-nginx 2>&1 >/dev/null") or nil
end


-- Does the same for Lua in stream { }.
function _M.missing_stream()
    local why = _M.missing()
    if not why and not load_modules:find("stream_lua", 1, true)
       and not shell.output(program .. " -V 2>&1"):find("%-%-add%-module=%S*stream%S*lua") then
        return program .. " has no Lua in stream (not in Debian 12)"
    end
    return why
end


-- Returns the first true value of condition(). On a timeout, raises an error, which says that `what` did not happen.
function _M.await(what, condition, seconds)
    return waits.await(condition, seconds) or error("timed out; did not happen: " .. what, 2)
end


-- Keeps 12 requests in flight until `count` requests have been answered, all with "1". Calls `hear` for each.
function _M.storm(connect, path, count, hear)
    local under_way, sent, answered = {}, 0, 0
    local deadline = waits.now() + waits.PATIENCE
    while answered < count do
        assert(waits.now() < deadline, answered .. " of " .. count .. " requests are answered")
        while #under_way < 12 and sent < count do
            local connection = connect(sent)
            connection:send(path)
            under_way[#under_way + 1] = connection
            sent = sent + 1
        end
        for i = #under_way, 1, -1 do
            if under_way[i]:answered() then
                local connection = table.remove(under_way, i)
                local body, status = connection:receive()
                connection:close()
                assert(body == "1" and status == 200, ("answer %s: %s"):format(status, body))
                answered = answered + 1
                if hear then
                    hear(answered)
                end
            end
        end
        waits.sleep(0.0002)
    end
end


local function phases(location)
    if type(location) == "string" then
        location = { content = location }
    end
    local lines = {}
    for phase, source in pairs(location) do
        if phase == "directives" then
            lines[#lines + 1] = source
        else
            lines[#lines + 1] = phase .. "_by_lua_block {\n" .. source .. "\n}"
        end
    end
    return table.concat(lines, "\n")
end


-- Returns the locations with `common` prepended to each source.
function _M.with_common(common, locations)
    local all = {}
    for path, location in pairs(locations) do
        if type(location) == "string" then
            location = { content = location }
        end
        for phase, source in pairs(location) do
            location[phase] = common .. source
        end
        all[path] = location
    end
    return all
end


-- Calls `line_of` for each pair of a table, and returns the resulting lines of the configuration.
local function lines_of(pairs_of, line_of)
    local lines = {}
    for key, value in pairs(pairs_of or {}) do
        lines[#lines + 1] = line_of(key, value)
    end
    return table.concat(lines, "\n  ")
end


local function location_line(path, location)
    return "location = " .. path .. " {\n" .. phases(location) .. "\n}"
end


local function dictionary_line(name, size)
    return ('lua_shared_dict "%s" %s;'):format(name:gsub('[\\"]', "\\%0"), size)
end


local function listen_line(_, address)
    return "listen " .. address .. ";"
end


-- Returns the configuration file, filled in for this site, at the start and before a reload. Leaves unknown names
-- unchanged.
local function configuration(self, options)
    local root = self.copy or shell.output("pwd")
    return (CONFIGURATION:gsub("%$(%w+)", {
        load = select(2, find()),
        folder = self.folder,
        root = root,
        user = shell.output("id -u") == "0" and "user " .. (options.user or "root") .. ";" or "",
        workers = tostring(options.workers or 1),
        connections = tostring(options.connections or 512),
        main = options.main or "",
        events = options.events or "",
        http = options.http or "",
        stream = options.stream and ('stream {\n  lua_package_path "%s/lua/?.lua;;";\n  %s\n}'):format(
            root, options.stream) or "",
        server = options.server or "",
        listen = lines_of(options.listen, listen_line),
        dictionaries = lines_of(options.dictionaries, dictionary_line),
        locations = lines_of(options.locations, location_line),
    }))
end


function Site:log()
    return files.find(self.folder .. "/error.log") or ""
end


-- Writes the configuration again, for the next reload.
function Site:configure(options)
    self.count = options.workers or 1
    files.write(self.folder .. "/nginx.conf", configuration(self, options))
end


-- A different user may have no access to the project's folder, so this function makes a copy. The copy is not in
-- /dev/shm, because some systems do not load libraries from there.
local function copy_for_others(env)
    local copy = shell.output("mktemp -d /tmp/holdfast-site.XXXXXX")
    env.HOLDFAST_LIB = copy .. "/libholdfast.so"
    assert(shell.succeeds(("cp -r lua %s && cp '%s' %s && chmod -R a+rX %s")
           :format(copy, os.getenv("HOLDFAST_LIB"), env.HOLDFAST_LIB, copy)))
    return copy
end


-- Starts a site, and waits until it answers.
function _M.start(options)
    local self = setmetatable({ folder = shell.output("mktemp -d /dev/shm/holdfast-site.XXXXXX") }, Site)
    os.execute("chmod 755 " .. self.folder) -- the workers' user may differ
    self.socket = self.folder .. "/http.sock"
    running[self] = true
    local env = { LUA_PATH = false, LUA_CPATH = false }
    for name, value in pairs(options.env or {}) do
        env[name] = value
    end
    self.copy = options.user and copy_for_others(env)
    self:configure(options)
    shell.output("mkdir -p '" .. self.folder .. "/logs'") -- where nginx logs until it has read the log's path
    self.master = process.start({ find(), "-p", self.folder, "-c", self.folder .. "/nginx.conf" },
                                { stderr = true, env = env })
    local ok, err = pcall(_M.await, "nginx answers", function ()
        assert(_M.alive(self.master.pid), "nginx does not start")
        return pcall(self.get, self, "/worker") and #self:workers() == self.count
    end)
    if not ok then
        error(err .. "; its log:\n" .. self:log() .. (select(2, pcall(self.master.hear, self.master, 1)) or ""), 2)
    end
    return self
end


-- Starts a site with a single process, which runs a Lua file of the project and has these dictionaries. Returns the
-- child.
function _M.start_file(file, dictionaries)
    return _M.start({
        workers = 0,
        main = "master_process off; env HOLDFAST_SPEC_SEED;",
        dictionaries = dictionaries,
        http = ("init_worker_by_lua_file %s/%s;"):format(shell.output("pwd"), file),
    }).master
end


-- Returns a connection from spec/support/http.lua, with the methods send, receive, get, answered and close.
function Site:connect()
    return http.connect(self.socket)
end


-- Sends this many requests, each on a new connection, without waiting for the answers. `path` may be a function of the
-- request's number.
function Site:send(count, path)
    local connections = {}
    for i = 1, count do
        connections[i] = self:connect()
        connections[i]:send(type(path) == "function" and path(i) or path)
    end
    return connections
end


-- Returns the body and the status of the answer to one request.
function Site:get(path, seconds)
    local connection = self:connect()
    local body, status = connection:get(path, seconds)
    connection:close()
    return body, status
end


-- Returns the process ids of the master's children, including children that are exiting, but no zombies. The master's
-- `children` file in /proc cannot be used, because it may omit some children while others exit.
function Site:workers()
    local pids = {}
    local master = tostring(self.master.pid)
    local listing = assert(io.popen("cat /proc/[0-9]*/stat 2>/dev/null"))
    for line in listing:lines() do
        local pid, state, parent = line:match("^(%d+) %(.*%) (%S) (%d+)")
        if parent == master and not state:find("[ZX]") then
            pids[#pids + 1] = tonumber(pid)
        end
    end
    listing:close()
    return pids
end


local function is_stopped(pid)
    local stat = files.find("/proc/" .. pid .. "/stat")
    return stat ~= nil and stat:match("^%d+ %(.*%) T") ~= nil
end


-- Opens a connection to each of the `count` workers. Returns the connections as a list, and indexed by the worker's
-- process id. One worker may accept all connections for a long time, so this function stops each worker that has a
-- connection until the remaining workers have answered.
function Site:connect_to_each(count)
    local of, all = {}, {}
    local ok, err = pcall(_M.await, "each worker answers", function ()
        local connection = self:connect()
        local pid = tonumber((connection:get("/worker")))
        assert(not of[pid], "a worker answers twice")
        of[pid] = connection
        all[#all + 1] = connection
        if #all == count then
            return true
        end
        C.kill(pid, process.STOP)
        _M.await("the worker is stopped", function () return is_stopped(pid) end)
    end)
    for pid in pairs(of) do
        C.kill(pid, process.CONT)
    end
    if not ok then
        error(err, 2)
    end
    return all, of
end


-- Sends the named signal to the master, or to the worker with this process id.
function Site:signal(name, pid)
    local signal = assert(SIGNALS[name], name)
    C.kill(pid or self.master.pid, signal)
end


-- Returns the number of entries in /proc/<pid>/<what>, where `what` is "fd" or "task".
function _M.count(pid, what)
    return tonumber(shell.output("ls /proc/" .. pid .. "/" .. what .. " 2>/dev/null | wc -l"))
end


-- Reloads the site, and waits until the old workers are gone and all new workers have started.
function Site:reload(seconds)
    local old = {}
    for _, pid in ipairs(self:workers()) do
        old[pid] = true
    end
    self:signal("HUP")
    _M.await("the old workers exit", function ()
        local pids = self:workers()
        for _, pid in ipairs(pids) do
            if old[pid] then
                return false
            end
        end
        return #pids == self.count
    end, seconds)
end


-- Ends the site immediately, with all its workers.
function Site:stop()
    running[self] = nil
    local pids = self:workers()
    self.master:kill(process.TERM)
    if not pcall(self.master.wait, self.master, 5) then
        for _, pid in ipairs(self:workers()) do
            pids[#pids + 1] = pid
        end
        self.master:kill()
        pcall(self.master.wait, self.master)
    end
    for _, pid in ipairs(pids) do
        if _M.alive(pid) then
            self:signal("KILL", pid)
        end
    end
    os.execute("rm -rf -- '" .. self.folder .. "' '" .. (self.copy or self.folder) .. "'")
end


-- Closes open connections and ends every site. Call this after each test.
function _M.clean_up()
    http.clean_up()
    for here in pairs(running) do
        here:stop()
    end
    process.clean_up()
end


return _M
