-- Finds and loads libholdfast, checks that the library matches these Lua files, and declares its functions to the FFI.

local ffi = require "ffi"
local getenv = require("resty.holdfast.program").getenv
local header = require "resty.holdfast.ffi.header"

local error, ipairs, pcall, rawget, tonumber, type = error, ipairs, pcall, rawget, tonumber, type
local ffi_load, open = ffi.load, io.open
local getinfo = debug and debug.getinfo

local ABI = header.constants.ABI

-- The declarations of libc's functions and of nginx's clock. Their names are specific to holdfast, so that they do not
-- conflict with other declarations.
local OTHERS = [[
int getpid(void);
struct holdfast_pollfd { int fd; short events, revents; };
struct holdfast_timespec { long sec, nsec; };
int holdfast_ppoll(struct holdfast_pollfd *set, unsigned long count, const struct holdfast_timespec *timeout,
                   const void *signals) __asm__("ppoll");
int holdfast_close(int fd) __asm__("close");
int holdfast_gethostname(char *name, size_t size) __asm__("gethostname");
int holdfast_clock_gettime(int clock, struct holdfast_timespec *time) __asm__("clock_gettime");
extern volatile uintptr_t holdfast_nginx_msec[1] __asm__("ngx_current_msec");
]]

-- If package.loaded was cleared and this file is loaded again in one Lua state, the types are already declared.
local declared, problem = pcall(ffi.cdef, header.declarations .. OTHERS)
if not declared and not pcall(ffi.typeof, "holdfast_lease") then
    error(problem, 0)
end


local function readable(path)
    local file = open(path, "rb")
    if file then
        file:close()
    end
    return file ~= nil
end


-- Raises an error unless the library matches these Lua files.
local function check_abi(library, path)
    local known, abi = pcall(function ()
        return tonumber(library.holdfast_abi())
    end)
    if not known then
        error("holdfast: " .. path .. " is not libholdfast: it has no holdfast_abi", 0)
    end
    if abi ~= ABI then
        error("holdfast: these Lua files need libholdfast with ABI " .. ABI .. ", but " .. path .. " has ABI " .. abi,
              0)
    end
end


local function load_named(path)
    local loaded, library = pcall(ffi_load, path)
    if not loaded then
        error("holdfast: cannot load the library that HOLDFAST_LIB names: " .. library, 0)
    end
    return library, path
end


-- Adds the paths of libholdfast that package.cpath implies. Skips templates without "?" (…/loadall.so).
local function add_templates(found)
    for template in package.cpath:gmatch("[^;]+") do
        if template:find("?", 1, true) then
            local name = template:gsub("?", "libholdfast")
            -- Without a slash in the name, the dynamic loader would search the system's folders for it.
            found[#found + 1] = name:find("/", 1, true) and name or "./" .. name
        end
    end
end


-- Adds the paths of the library relative to these Lua files, in an installation or a checkout, so that LUA_PATH alone
-- is enough. If these files were compiled and stripped, their paths are unknown.
local function add_neighbours(found)
    local folder = getinfo and getinfo(1, "S").source:match("^@(.*)resty/holdfast/ffi/library%.lua$")
    local prefix = folder and folder:match("^(.*)share/lua/5%.1/$")
    if prefix then
        found[#found + 1] = prefix .. "lib/lua/5.1/libholdfast.so"
    elseif folder then
        found[#found + 1] = folder .. "../build/libholdfast.so"
    end
end


local function candidates()
    local found = {}
    add_templates(found)
    add_neighbours(found)
    return found
end


local function search()
    local looked_at = {}
    for _, path in ipairs(candidates()) do
        if readable(path) then
            local loaded, library = pcall(ffi_load, path)
            if loaded then
                return library, path
            end
            looked_at[#looked_at + 1] = library
        else
            looked_at[#looked_at + 1] = path .. ": no such file"
        end
    end

    -- With this name, the dynamic loader finds a library with the same ABI, or a library that this process has already
    -- loaded.
    local name = "libholdfast.so." .. ABI
    local loaded, library = pcall(ffi_load, name)
    if loaded then
        return library, name
    end
    looked_at[#looked_at + 1] = library
    error("holdfast: cannot find libholdfast: HOLDFAST_LIB is not set, and these places were searched:\n\t"
          .. table.concat(looked_at, "\n\t"), 0)
end


local function load_library()
    local named = getenv("HOLDFAST_LIB")
    local library, path
    if named and named ~= "" then
        library, path = load_named(named)
    else
        library, path = search()
    end
    check_abi(library, path)
    return library, path
end


local C, path = load_library()


-- Names the process after its script, because otherwise every script would have the interpreter's name. Does not rename
-- nginx, Neovim, or a program that has set its own name.
local function name_program()
    local script = not (rawget(_G, "ngx") or rawget(_G, "vim")) and rawget(_G, "arg")
    script = type(script) == "table" and rawget(script, 0)
    local name = type(script) == "string" and script:match("[^/]+$")
    if name and name ~= "-" then
        C.holdfast_name_program(name, #name)
    end
end
name_program()


return {
    C = C,
    path = path,  -- where the library was found
    version = ffi.string(C.holdfast_version()),
}
