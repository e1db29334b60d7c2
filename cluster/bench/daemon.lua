-- Programs that run until they are told to end, and end with this process however that ends.

local clock, process = require "bench.support" ("clock", "process")

local quote = process.quote

-- Seconds from TERM to KILL.
local PATIENCE = 5
local LOOK = 0.01

local _M = {}
local Daemon = {}
Daemon.__index = Daemon
-- All of them. The collector, which would wait for a child before it closes the pipe to it, never finds one here.
local running = {}


-- The first word of the command is a program. What it says goes to the file `log`.
function _M.start(command, log)
    -- The number of the shell is that of all that it becomes.
    local pipe = assert(io.popen("echo $$; exec setpriv --pdeathsig KILL " .. command .. " >" .. quote(log)
                                 .. " 2>&1 </dev/null", "r"))
    local self = setmetatable({ pid = pipe:read("*n"), pipe = pipe, log = log }, Daemon)
    running[self] = true
    return self
end


-- A child that has ended stays a zombie until it is waited for.
function Daemon:runs()
    local file = io.open("/proc/" .. self.pid .. "/stat")
    local stat = file and file:read("*a")
    if file then
        file:close()
    end
    return stat ~= nil and not stat:find("%) Z ")
end


-- The last line of what it said.
function Daemon:last_words()
    return process.output("tail -n 1 " .. quote(self.log))
end


-- Ends it, as a crash does, unless it has ended.
function Daemon:kill()
    if running[self] then
        os.execute("kill -KILL " .. self.pid .. " 2>/dev/null")
        self.pipe:close()
        running[self] = nil
    end
end


-- Ends all of them at the same time.
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


-- After a fault; REQUIRES that a program calls it before it ends by an error.
function _M.stop_all()
    local daemons = {}
    for daemon in pairs(running) do
        daemons[#daemons + 1] = daemon
    end
    _M.stop(daemons)
end


return _M
