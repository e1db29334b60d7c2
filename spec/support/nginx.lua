-- An nginx of one process, in the foreground, without a socket, that runs one Lua file and is ended by its pid.

local process = require "spec.support.process"

local MODULES = "/usr/lib/nginx/modules/"

local CONFIGURATION = [[
$load
$user
daemon off;
master_process off;
env HOLDFAST_DIR;
env HOLDFAST_LIB;
env HOLDFAST_SPEC_SEED;
pid $folder/nginx.pid;
error_log $folder/error.log warn;
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
  init_worker_by_lua_file $file;
}
]]

local _M = {}


local function output(command)
    local pipe = assert(io.popen(command))
    local text = pipe:read("*a")
    pipe:close()
    return (text:gsub("%s+$", ""))
end


local function load_modules()
    local lines = {}
    for _, name in ipairs { "ndk_http_module.so", "ngx_http_lua_module.so" } do
        if os.execute("test -f " .. MODULES .. name) == 0 then
            lines[#lines + 1] = "load_module " .. MODULES .. name .. ";"
        end
    end
    return table.concat(lines, "\n")
end


-- Nil, or why there is no nginx with Lua to compare with.
function _M.missing()
    if output("command -v nginx || ls /usr/sbin/nginx 2>/dev/null") == "" then
        return "nginx is not installed"
    end
    if output("nginx -V 2>&1") == "" or load_modules() == "" and not output("nginx -V 2>&1"):find("lua", 1, true) then
        return "nginx has no Lua module"
    end
end


-- Starts one in `folder` with the shared dictionaries { name = size }. What the Lua file prints is heard from it.
function _M.start(folder, file, dictionaries)
    local root = output("pwd")
    local declared = {}
    for name, size in pairs(dictionaries) do
        declared[#declared + 1] = "lua_shared_dict " .. name .. " " .. size .. ";"
    end
    local values = {
        folder = folder,
        root = root,
        file = root .. "/" .. file,
        load = load_modules(),
        user = output("id -u") == "0" and "user root;" or "",
        dictionaries = table.concat(declared, "\n  "),
    }
    local configuration = assert(io.open(folder .. "/nginx.conf", "w"))
    configuration:write((CONFIGURATION:gsub("%$(%w+)", values)))
    configuration:close()
    return process.start(([[
        local ffi = require "ffi"
        ffi.cdef "int execvp(const char *file, char *const arguments[]);"
        local arguments = ffi.new("const char *[6]", "nginx", "-p", %q, "-c", %q, nil)
        ffi.C.execvp("nginx", ffi.cast("char *const *", arguments))
        ffi.C.execvp("/usr/sbin/nginx", ffi.cast("char *const *", arguments))
        error "nginx does not start"
    ]]):format(folder, folder .. "/nginx.conf"), { stderr = true })
end


return _M
