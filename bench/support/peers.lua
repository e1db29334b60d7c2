-- The other software that `make bench-uses` measures.
--
-- The servers are Debian packages. They run in the benchmark's folder and are ended by their pids. The Lua libraries
-- are not downloaded: for each of them, an environment variable names a folder with its sources.

local clock, process = require "bench.support" ("clock", "process")

local output, quote = process.output, process.quote

-- How long to wait for a server to listen, in seconds.
local PATIENCE = 10

local LIBRARIES = {
    mlcache = { variable = "RESTY_MLCACHE_DIR", file = "resty/mlcache.lua", name = "mlcache" },
    worker_events = { variable = "RESTY_WORKER_EVENTS_DIR", file = "resty/worker/events.lua", name = "worker-events" },
    resty_events = { variable = "RESTY_EVENTS_DIR", file = "resty/events/init.lua", name = "lua-resty-events" },
}

local SERVERS = {
    redis = { program = "redis-server",
              options = "--port 0 --unixsocket %s --save '' --appendonly no --dir %s --daemonize no" },
    beanstalkd = { program = "beanstalkd", options = "-l unix:%s" },
}

local _M = {}


-- --- libraries ------------------------------------------------------------------------------------------

-- Returns a library's name with its version and its folder, or the name, nil and the reason.
function _M.find(key)
    local library = LIBRARIES[key]
    local folder = os.getenv(library.variable) or ""
    local file = folder ~= "" and io.open(folder .. "/" .. library.file, "rb")
    if not file then
        return library.name, nil, "skipped: " .. library.variable
            .. (folder == "" and " names no folder with its sources" or " has no " .. library.file)
    end
    local version = file:read("*a"):match("_VERSION%s*=%s*[\"']([^\"']+)")
    file:close()
    if output([[luajit -e 'require "cjson"; print "there"']]) == "" then
        return library.name, nil, "skipped: it needs lua-cjson"
    end
    return library.name .. (version and " " .. version or ""), folder
end


-- Adds a folder to the module path in a worker of nginx. `lock` is the module that the libraries get as resty.lock.
function _M.use(folder, lock)
    package.path = folder .. "/?.lua;" .. folder .. "/?/init.lua;" .. package.path
    package.loaded["resty.lock"] = lock
end


-- --- servers --------------------------------------------------------------------------------------------

-- Returns the path of a server's socket.
function _M.socket(key, folder)
    return folder .. "/" .. key .. ".sock"
end


-- Starts a server, which bench/run ends if stop() was not called. Returns its name with its version, or nil and the
-- reason.
function _M.start(key, folder)
    local server = SERVERS[key]
    if output("command -v " .. server.program) == "" then
        return nil, "skipped: " .. server.program .. " is not installed"
    end
    local socket = _M.socket(key, folder)
    os.execute(server.program .. " " .. server.options:format(quote(socket), quote(folder)) .. " >"
               .. quote(folder .. "/" .. key .. ".log") .. " 2>&1 & echo $! >" .. quote(folder .. "/" .. key .. ".pid"))
    local deadline = clock.now() + PATIENCE
    while output("[ -S " .. quote(socket) .. " ] && echo there") == "" do
        if clock.now() > deadline then
            return nil, server.program .. " does not start"
        end
        clock.sleep(0.02)
    end
    return key .. " " .. (output(server.program .. " -v"):match("%d[%d.]+") or "")
end


function _M.stop(key, folder)
    local pid = quote(folder .. "/" .. key .. ".pid")
    os.execute("[ ! -s " .. pid .. " ] || { kill $(cat " .. pid .. "); rm " .. pid .. "; } 2>/dev/null")
end


return _M
