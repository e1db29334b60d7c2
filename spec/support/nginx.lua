-- An nginx in the foreground, without a socket, that runs Lua files and is ended by its pid.

local files, process, shell = require "spec.support" ("files", "process", "shell")


local CONFIGURATION = [[
$load
$user
daemon off;
$processes
env HOLDFAST_DIR;
env HOLDFAST_LIB;
env HOLDFAST_SPEC_SEED;
pid $folder/nginx.pid;
error_log $folder/error.log warn;
events { worker_connections 64; }
http {
  access_log off;
  $temporary
  lua_package_path "$root/?.lua;$root/lua/?.lua;;";
  $dictionaries
  $init
  init_worker_by_lua_file $file;
}
]]

-- Where it may write, in http { }.
local TEMPORARY = [[
  client_body_temp_path $folder/body;
  proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi;
  scgi_temp_path $folder/scgi;
]]

local _M = {}

local running, made
local program, load_modules


-- Its path and its load_module lines; nil if there is none with Lua.
local function find()
    if not program then
        program, load_modules = shell.output("scripts/find-nginx 2>/dev/null"):match("^([^\n]+)\n?(.*)$")
    end
    return program, load_modules
end


-- Nil, or why there is no nginx with Lua to compare with.
function _M.missing()
    return not find() and shell.output("scripts/find-nginx 2>&1 >/dev/null") or nil
end


-- The same of Lua in stream { }.
function _M.missing_stream()
    local why = _M.missing()
    if not why and not load_modules:find("stream_lua", 1, true)
       and not shell.output(program .. " -V 2>&1"):find("%-%-add%-module=%S*stream%S*lua") then
        return program .. " has no Lua in stream (not in Debian 12)"
    end
    return why
end


-- The configuration with its $names filled in: those given, `load`, `temporary`, and `root` where it is not given. What
-- is no name stays as it is.
function _M.fill(configuration, values)
    values.load = select(2, find())
    values.temporary = TEMPORARY:gsub("%$folder", values.folder)
    values.root = values.root or shell.output("pwd")
    return (configuration:gsub("%$(%w+)", values))
end


-- The directive for the user of the workers: root, where the spec runs as root and names no other.
function _M.user(name)
    return shell.output("id -u") == "0" and "user " .. (name or "root") .. ";" or ""
end


-- The process that runs nginx with nginx.conf of that folder; options of process.start. Until it has read where its log
-- is, nginx may look for logs/error.log, and says so when there is none.
function _M.launch(folder, options)
    shell.output("mkdir -p '" .. folder .. "/logs'")
    return process.start({ find(), "-p", folder, "-c", folder .. "/nginx.conf" }, options)
end


-- Starts one in a new folder, with the shared dictionaries { name = size }: one process that runs the Lua file. The
-- spec hears what the file says. options.workers: a master and so many workers instead, each of which runs the file;
-- they outlive a master that is killed, so it has to be stopped. options.init: a Lua file that the master runs before
-- it forks.
function _M.start(file, dictionaries, options)
    options = options or {}
    local folder = shell.output("mktemp -d /dev/shm/holdfast-spec.XXXXXX")
    local root = shell.output("pwd")
    local declared = {}
    for name, size in pairs(dictionaries) do
        declared[#declared + 1] = "lua_shared_dict " .. name .. " " .. size .. ";"
    end
    files.write(folder .. "/nginx.conf", _M.fill(CONFIGURATION, {
        folder = folder,
        file = root .. "/" .. file,
        user = _M.user(),
        dictionaries = table.concat(declared, "\n  "),
        init = options.init and "init_by_lua_file " .. root .. "/" .. options.init .. ";" or "",
        processes = options.workers and "worker_processes " .. options.workers .. ";" or "master_process off;",
    }))
    made = folder
    running = _M.launch(folder, { stderr = true })
    return running
end


-- To be called after each test: ends the nginx that was started, with its workers, and removes its folder.
function _M.stop()
    if running then
        running:kill(process.TERM)
        pcall(running.wait, running)
        running = nil
    end
    if made then
        os.execute("rm -rf -- '" .. made .. "'")
        made = nil
    end
    process.clean_up()
end


return _M
