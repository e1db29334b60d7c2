-- Runs once, before the first spec file. Creates a new runtime directory for the whole run, selects the library of the
-- checkout, and adds the project's modules to the environment that busted restores after each file. Otherwise, modules
-- would be loaded twice, and the second time, busted's ffi.metatype would return the metatable of the first load.

local ffi = require "ffi"

ffi.cdef [[
int setenv(const char *name, const char *value, int overwrite);
char *mkdtemp(char *path);
char *realpath(const char *path, char *resolved);
int getpid(void);
int symlink(const char *target, const char *path);
]]

local C = ffi.C

local function absolute(path)
    local resolved = C.realpath(path, nil)
    return resolved ~= nil and ffi.string(resolved) or path
end

-- Creates a folder that is removed after the specs.
local function make_folder(template)
    local folder = ffi.new("char[64]", template)
    assert(C.mkdtemp(folder) ~= nil, "no folder " .. template)
    folder = ffi.string(folder)
    local owner = C.getpid()
    require("busted").subscribe({ "exit" }, function ()
        if C.getpid() == owner then
            os.execute("rm -rf -- '" .. folder .. "'")
        end
        return nil, true
    end)
    return folder
end

-- HOLDFAST_LUAJIT names the program that specs and documents start as `luajit`. All users must be able to start this
-- program.
local luajit = os.getenv("HOLDFAST_LUAJIT")
if luajit then
    local folder = make_folder("/tmp/holdfast-spec.XXXXXX")
    os.execute("chmod 755 '" .. folder .. "'")
    assert(C.symlink(absolute(luajit), folder .. "/luajit") == 0, "no link to " .. luajit)
    C.setenv("PATH", folder .. ":" .. os.getenv("PATH"), 1)
end

if not os.getenv("HOLDFAST_LIB") then
    C.setenv("HOLDFAST_LIB", absolute("build/libholdfast.so"), 1)
end

if not os.getenv("HOLDFAST_DIR") then
    C.setenv("HOLDFAST_DIR", make_folder("/dev/shm/holdfast-spec.XXXXXX"), 1)
end

-- This file contains the name of the current spec, for a parent that finds this process dead. At the end, the file is
-- empty.
local running = os.getenv("HOLDFAST_SPEC_RUNNING")
if running then
    local busted = require "busted"
    local function note(text)
        local file = assert(io.open(running, "w"))
        file:write(text)
        file:close()
        return nil, true
    end
    busted.subscribe({ "test", "start" }, function (test, parent)
        return note(("%s @ %d: %s %s"):format(test.trace.short_src, test.trace.currentline, parent.name, test.name))
    end)
    busted.subscribe({ "suite", "end" }, function ()
        return note("")
    end)
end

-- Child processes find the same modules, in whatever folder they start.
C.setenv("LUA_PATH", absolute("lua") .. "/?.lua;" .. absolute(".") .. "/?.lua;;", 1)

require "resty.lock"
require "resty.rwlock"
require "resty.semaphore"
require "resty.shdict"
require "resty.holdfast.scheduler"
require "resty.holdfast.host"
