-- Runs programs until they are stopped. They also end with this process, however it ends.

local clock, process = require "bench.support" ("clock", "process")

local quote = process.quote

-- Seconds from TERM to KILL.
local PATIENCE = 5
local LOOK = 0.01

local _M = {}
local Daemon = {}
Daemon.__index = Daemon
-- References all running programs so that they are never collected: the collector would wait for a child before closing
-- the child's pipe.
local running = {}


-- The first word of the command is a program. Its output goes to the file `log`.
function _M.start(command, log)
    -- The program keeps the process id of the shell.
    local pipe = assert(io.popen("echo $$; exec setpriv --pdeathsig KILL " .. command .. " >" .. quote(log)
                                 .. " 2>&1 </dev/null", "r"))
    local self = setmetatable({ pid = pipe:read("*n"), pipe = pipe, log = log }, Daemon)
    running[self] = true
    return self
end


-- An ended child stays a zombie until it is waited for.
function Daemon:runs()
    local file = io.open("/proc/" .. self.pid .. "/stat")
    local stat = file and file:read("*a")
    if file then
        file:close()
    end
    return stat ~= nil and not stat:find("%) Z ")
end


-- Returns the last line of the program's output.
function Daemon:last_words()
    return process.output("tail -n 1 " .. quote(self.log))
end


-- Kills the program, like a crash, unless it has ended.
function Daemon:kill()
    if running[self] then
        os.execute("kill -KILL " .. self.pid .. " 2>/dev/null")
        self.pipe:close()
        running[self] = nil
    end
end


-- Ends all these programs at the same time.
function _M.stop(daemons)
    for _, daemon in ipairs(daemons) do
        os.execute("kill -TERM " .. daemon.pid .. " 2>/dev/null")
    end
    local patience = clock.now() + PATIENCE
    for _, daemon in ipairs(daemons) do
        while daemon:runs() and clock.now() < patience do
            clock.sleep(LOOK)
        end
        daemon:kill()
    end
end


-- Ends all programs after a fault. REQUIRES: a program calls this before it exits with an error.
function _M.stop_all()
    local daemons = {}
    for daemon in pairs(running) do
        daemons[#daemons + 1] = daemon
    end
    _M.stop(daemons)
end


return _M
