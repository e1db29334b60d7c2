-- Runs once, before the first spec file: a world of its own for the whole run, the library of the checkout, and the
-- project's modules as part of the environment that busted goes back to after each file. They have to be: busted's
-- ffi.metatype hands a module that is loaded twice the metatable of its first load.

local ffi = require "ffi"

ffi.cdef [[
int setenv(const char *name, const char *value, int overwrite);
char *mkdtemp(char *path);
char *realpath(const char *path, char *resolved);
int getpid(void);
]]

local C = ffi.C

local function absolute(path)
    local resolved = C.realpath(path, nil)
    return resolved ~= nil and ffi.string(resolved) or path
end

if not os.getenv("HOLDFAST_LIB") then
    C.setenv("HOLDFAST_LIB", absolute("build/libholdfast.so"), 1)
end

if not os.getenv("HOLDFAST_DIR") then
    local folder = ffi.new("char[64]", "/dev/shm/holdfast-spec.XXXXXX")
    assert(C.mkdtemp(folder) ~= nil, "no folder in /dev/shm")
    folder = ffi.string(folder)
    C.setenv("HOLDFAST_DIR", folder, 1)
    local owner = C.getpid()
    require("busted").subscribe({ "exit" }, function ()
        if C.getpid() == owner then
            os.execute("rm -rf -- '" .. folder .. "'")
        end
        return nil, true
    end)
end

-- The name of the spec that runs, for whoever finds this process dead; none at the end.
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

-- Children get the same modules, whatever folder they start in.
C.setenv("LUA_PATH", absolute("lua") .. "/?.lua;" .. absolute(".") .. "/?.lua;;", 1)

require "resty.lock"
require "resty.rwlock"
require "resty.semaphore"
require "resty.shdict"
require "resty.holdfast.scheduler"
require "resty.holdfast.host"
