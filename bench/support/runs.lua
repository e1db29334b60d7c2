-- Runs parts for the files of bench/tables: in LuaJIT processes, or in a private nginx. The nginx runs in the
-- foreground, in a new folder, and is ended by its pid. If the option `serve` names a module, nginx listens on the Unix
-- socket "socket" in its folder, and each request calls serve() of the module.

local process, sides = require "bench.support" ("process", "sides")

local quote = process.quote

local CONFIGURATION = [[
$load
$user
daemon off;
worker_processes $workers;
worker_cpu_affinity auto;
pid $folder/nginx.pid;
error_log $folder/error.log warn;
env HOLDFAST_DIR;
env HOLDFAST_LIB;
env HOLDFAST_DICTS;
env HOLDFAST_BENCH_ROOT;
env HOLDFAST_BENCH_FOLDER;
env HOLDFAST_BENCH_OPTIONS;
env HOLDFAST_BENCH_PART;
env RESTY_LOCK_DIR;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path $folder/body;
  proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi;
  scgi_temp_path $folder/scgi;
  lua_package_path "$root/?.lua;$root/lua/?.lua;;";
  $dictionaries
  init_worker_by_lua_file $root/bench/in_nginx.lua;
  $server
}
]]

local _M = {}

-- The path of nginx, and the lines for its configuration that load its modules.
local program, load_modules


local function declare_dictionaries()
    local lines = {}
    for name, size in pairs(sides.SIZES) do
        lines[#lines + 1] = "lua_shared_dict " .. name .. " " .. size .. ";"
    end
    return table.concat(lines, "\n  ")
end


local SERVER = 'server { listen unix:%s/socket; location / { content_by_lua_block { require("%s").serve() } } }'


local function write_configuration(folder, root, workers, served)
    local values = {
        folder = folder,
        root = root,
        workers = workers,
        load = load_modules or "",
        dictionaries = declare_dictionaries(),
        server = served and SERVER:format(folder, served) or "",
        user = process.output("id -u") == "0" and "user root;" or "",
    }
    os.execute("mkdir -p " .. quote(folder))
    local path = folder .. "/nginx.conf"
    local file = assert(io.open(path, "w"))
    file:write((CONFIGURATION:gsub("%$(%w+)", values)))
    file:close()
    return path
end


-- Returns "nginx/1.22.1", or nil and the reason if there is no nginx with Lua.
function _M.find_nginx(folder, root)
    local find = quote(root .. "/scripts/find-nginx")
    local found, modules = process.output(find .. " 2>/dev/null"):match("^([^\n]+)\n?(.*)$")
    if not found then
        return nil, process.output(find .. " 2>&1 >/dev/null")
    end
    program, load_modules = found, modules
    local configuration = write_configuration(folder, root, 1)
    local answer = process.output(quote(program) .. " -t -p " .. quote(folder) .. " -c " .. quote(configuration)
                                  .. " 2>&1")
    if not answer:find("test is successful", 1, true) then
        return nil, "does not start: " .. answer:gsub("\n.*", "")
    end
    return process.output(quote(program) .. " -v 2>&1"):match("%S+$")
end


-- Runs a part in `workers` workers of nginx. Returns their lines of results, or nil and the error.
local function run_nginx(part, options, folder, root, workers)
    local configuration = write_configuration(folder, root, workers, options.serve)
    local command = quote(program) .. " -p " .. quote(folder) .. " -c " .. quote(configuration)
    local child = process.start(command, part, options)
    local lines, left = {}, workers
    for words in child.lines() do
        if words[1] == "end" then
            left = left - 1
            if left == 0 then
                os.execute("kill -TERM $(cat " .. quote(folder .. "/nginx.pid") .. ")")
            end
        else
            lines[#lines + 1] = words
        end
    end
    child.close()
    if left > 0 then
        return nil, "nginx ended early: " .. process.output("tail -n 1 " .. quote(folder .. "/error.log"))
    end
    return process.check(lines)
end


-- --- parts ----------------------------------------------------------------------------------------------

-- The number of failed parts. A missing nginx is not a failure.
_M.failures = 0


-- Returns the text of a table cell for a failed part.
function _M.failed(err)
    _M.failures = _M.failures + 1
    return "failed: " .. (err or "no result")
end


-- Runs a part in `count` LuaJIT processes. Returns the lines of its results, or nil and the error.
function _M.here(context, part, options, count, hosts)
    options.root = context.root
    return process.run(part, options, count or 1, hosts)
end


-- Runs a part in `workers` workers of nginx. Returns the same as here().
function _M.in_nginx(context, part, options, workers)
    if not context.nginx then
        return nil, context.why_not
    end
    return run_nginx(part, options, context.nginx, context.root, workers or 1)
end


-- Runs a part in turn with holdfast's dictionary and, if nginx is installed, with ngx.shared. Returns for each side a
-- list with the lines of its runs and, if there are none, a text for the table.
function _M.both(context, part, told, count, rounds)
    local here, there, err, why_not = {}, {}
    for _ = 1, rounds do
        told.only = nil
        here[#here + 1], err = _M.here(context, part, told, count)
        told.only = "peer"
        if context.nginx then
            there[#there + 1], why_not = _M.in_nginx(context, part, told, count)
        end
    end
    return here, there, not here[1] and _M.failed(err),
        not there[1] and (context.why_not or _M.failed(why_not))
end


-- Returns the first line that begins with `name` and, if it is given, `second`.
function _M.find(lines, name, second)
    for _, words in ipairs(lines or {}) do
        if words[1] == name and (not second or words[2] == second) then
            return words
        end
    end
end


-- Adds the numbers of each line that begins with `name` to the list whose key is the next two words.
function _M.collect(lists, lines, name)
    for _, words in ipairs(lines or {}) do
        if words[1] == name then
            local key = words[2] .. " " .. words[3]
            lists[key] = lists[key] or {}
            for i = 4, #words do
                table.insert(lists[key], words[i])
            end
        end
    end
end


return _M
