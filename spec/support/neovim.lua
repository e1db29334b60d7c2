-- Real Neovim processes for specs: `nvim --headless` runs a Lua file and ends. They are children of process.lua, which
-- talk line by line.

local process = require "spec.support.process"

local _M = {}


-- Starts one, which reads and writes none of the user's files. options are those of process.start, and: command, an Ex
-- command to be run before everything else.
function _M.start(source, options)
    options = options or {}
    local env = { NVIM_LOG_FILE = "/dev/null", TMPDIR = os.getenv "HOLDFAST_DIR" }  -- a killed one leaves a folder
    for name, value in pairs(options.env or {}) do
        env[name] = value
    end
    return process.start({ "nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "--cmd", options.command or "",
                           "-c", "luafile " .. process.script(source), "-c", "qa!" },
                         { env = env, stderr = options.stderr })
end


return _M
