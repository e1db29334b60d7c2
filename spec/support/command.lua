-- Runs the holdfast command as a user would: in a new process and process group, with a new folder and a new runtime
-- directory.

local ffi = require "ffi"
local files, process, shell, waits = require "spec.support" ("files", "process", "shell", "waits")

ffi.cdef [[
int setpgid(int pid, int group);
int open(const char *path, int flags, ...);
void (*signal(int number, void (*handler)(int)))(int);
char *mkdtemp(char *path);
char *realpath(const char *path, char *resolved);
]]

local C = ffi.C

local O_WRITE_NEW = 577  -- O_WRONLY | O_CREAT | O_TRUNC
local WNOHANG = 1
local KILL = 9

local _M = {
    HUP = 1, INT = 2, QUIT = 3, KILL = KILL, TERM = 15,
    now = waits.now, sleep = waits.sleep, await = waits.await, alive = waits.alive,
}

local folder
local running = {}

local function absolute(path)
    local resolved = C.realpath(path, nil)
    return resolved ~= nil and ffi.string(resolved) or path
end

_M.program = absolute(os.getenv("HOLDFAST_BIN") or "build/holdfast")
_M.repository = absolute "."

function _M.kill(pid, signal)
    C.kill(pid, signal)
end

-- Names of files are relative to the test's folder unless they begin with a slash.
function _M.path(name)
    return name:sub(1, 1) == "/" and name or folder .. "/" .. name
end

function _M.read(name)
    return files.find(_M.path(name))
end

function _M.write(name, text)
    return files.write(_M.path(name), text)
end

-- Returns the names of the files that match the Lua pattern, sorted.
function _M.files(pattern)
    local names = {}
    local listing = assert(io.popen("ls -1 '" .. folder .. "'"))
    for name in listing:lines() do
        if name:match(pattern) then
            names[#names + 1] = name
        end
    end
    listing:close()
    return names
end

-- Creates the folder, which exists from before_each to after_each.
function _M.set_up()
    local template = ffi.new("char[64]", "/tmp/holdfast-spec.XXXXXX")
    assert(C.mkdtemp(template) ~= nil, "no temporary folder")
    folder = ffi.string(template)
    assert(shell.succeeds("mkdir -m 700 " .. _M.world()))
end

function _M.world()
    return "/dev/shm/" .. folder:match("[^/]*$")
end

-- Kills every process of the groups that start() created, and removes the folder.
function _M.tear_down()
    for _, one in ipairs(running) do
        C.kill(-one.pid, KILL)
        if not one.status then
            C.waitpid(one.pid, nil, 0)
        end
    end
    running = {}
    os.execute("rm -rf '" .. folder .. "' " .. _M.world())
end

-- Gives each test a new folder and a new runtime directory. Call this in the body of a describe.
function _M.fixture()
    local busted = require "busted"
    busted.before_each(_M.set_up)
    busted.after_each(_M.tear_down)
end

local Process = {}
Process.__index = Process

local status = ffi.new("int[1]")

-- Returns { code = n } or { signal = n }, or nil if the process has not ended in time.
function Process:wait(seconds)
    return _M.await(function()
        if not self.status and C.waitpid(self.pid, status, WNOHANG) == self.pid then
            local signal = status[0] % 128
            self.status = signal == 0 and { code = math.floor(status[0] / 256) } or { signal = signal }
        end
        return self.status
    end, seconds)
end

function Process:signal(number)
    assert(not self.status, "the process has ended")
    C.kill(self.pid, number)
end

-- Sends a signal to every process of the group, as a terminal does.
function Process:signal_group(number)
    C.kill(-self.pid, number)
end

function Process:out()
    return _M.read(self.name .. ".out")
end

function Process:err()
    return _M.read(self.name .. ".err")
end

-- A process ignores the signals that its parent ignores. For example, a background job of a shell ignores INT and QUIT.
local function stop_ignoring()
    for _, number in ipairs { _M.HUP, _M.INT, _M.QUIT } do
        C.signal(number, nil)
    end
end

local started = 0

-- start("run", "--workers", "2", path [, environment]) starts the command with these unchanged arguments, without a
-- shell.
function _M.start(...)
    local arguments = { ... }
    local environment = type(arguments[#arguments]) == "table" and table.remove(arguments) or {}
    started = started + 1
    local name = "process" .. started
    local env = { HOLDFAST_DIR = _M.world(), HOLDFAST_DICTS = false }
    for key, value in pairs(environment) do
        env[key] = value
    end
    local pid = process.spawn({ environment.PROGRAM or _M.program, unpack(arguments) }, env, function ()
        C.setpgid(0, 0)
        stop_ignoring()
        C.dup2(C.open("/dev/null", 0), 0)
        C.dup2(C.open(_M.path(name .. ".out"), O_WRITE_NEW, ffi.cast("int", 384)), 1)
        C.dup2(C.open(_M.path(name .. ".err"), O_WRITE_NEW, ffi.cast("int", 384)), 2)
    end)
    C.setpgid(pid, pid) -- both parent and child do this, because either may be first
    running[#running + 1] = setmetatable({ pid = pid, name = name }, Process)
    return running[#running]
end

-- Runs the command to its end. Returns its status, standard output and standard error.
function _M.run(...)
    local one = _M.start(...)
    local ended = assert(one:wait(), "the command did not end")
    return ended, one:out(), one:err()
end

return _M
