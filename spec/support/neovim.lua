-- Real Neovim processes for specs, in which `nvim --headless` runs a Lua file and ends. They are children of
-- process.lua, and exchange lines with the spec.

local process = require "spec.support.process"

local _M = {}


-- Starts a Neovim that neither reads nor writes the user's files. `options` are the options of process.start, and
-- `command`, an Ex command that runs first.
function _M.start(source, options)
    options = options or {}
    local env = { NVIM_LOG_FILE = "/dev/null", TMPDIR = os.getenv "HOLDFAST_DIR" } -- where a killed Neovim leaves files
    for name, value in pairs(options.env or {}) do
        env[name] = value
    end
    return process.start({ "nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "--cmd", options.command or "",
                           "-c", "luafile " .. process.script(source), "-c", "qa!" },
                         { env = env, stderr = options.stderr })
end


return _M
