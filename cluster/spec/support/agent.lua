-- An agent without a store (cluster/tests/local_agent.cc). It gives this machine every lock that the machine wants,
-- unless a spec tells it otherwise.

local files, process, shell = require "spec.support" ("files", "process", "shell")

local PROGRAM = shell.output("dirname -- \"$HOLDFAST_LIB\"") .. "/cluster/tests/local_agent"

local Agent = {}
Agent.__index = Agent

local _M = {}


-- Returns nil, or the reason why there is no agent.
function _M.missing()
    return not files.find(PROGRAM) and PROGRAM .. " is not built" or nil
end


-- Starts an agent that serves these dictionaries when they exist. Accepts the options of process.start.
function _M.start(names, options)
    local child = process.start(([[
        local ffi = require "ffi"
        ffi.cdef "int execv(const char *path, char *const arguments[]);"
        local names = %s
        local arguments = ffi.new("const char *[?]", #names + 2)
        arguments[0] = "local_agent"
        for i, name in ipairs(names) do arguments[i] = name end
        ffi.C.execv(%q, ffi.cast("char *const *", arguments))
        error "the agent does not start"
    ]]):format("{ '" .. table.concat(names, "', '") .. "' }", PROGRAM), options)
    local self = setmetatable({ child = child, pid = child.pid }, Agent)
    self:does "attend"
    return self
end


-- Makes the agent execute a command of local_agent.cc.
function Agent:does(command)
    self.child:say(command)
    self.child:expect "done"
end


-- Kills the agent, as if it had crashed.
function Agent:kill()
    self.child:kill()
    self.child:wait()
end


return _M
