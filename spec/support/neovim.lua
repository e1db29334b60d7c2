-- Real Neovim processes for specs: `nvim --headless` runs a Lua file and ends. They are children as process.lua has
-- them, talked to line by line.

local process = require "spec.support.process"

local _M = {}

-- What each begins with. In Neovim print() writes elsewhere.
local PREAMBLE = [[
os.remove(%q)
io.stdout:setvbuf("line")
local hear = function () return io.read("*l") end
local function say(...)
    local words = { ... }
    for i = 1, select("#", ...) do words[i] = tostring(words[i]) end
    io.stdout:write(table.concat(words, "\t"), "\n")
end
]]

-- Nothing of the user's is read or written.
local START = [[
local ffi = require "ffi"
ffi.cdef "int execvp(const char *file, char *const arguments[]); int setenv(const char *, const char *, int);"
ffi.C.setenv("NVIM_LOG_FILE", "/dev/null", 1)
ffi.C.setenv("TMPDIR", os.getenv "HOLDFAST_DIR" or "/tmp", 1)  -- where it leaves a folder when it is killed
local arguments = ffi.new("const char *[16]", "nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "--cmd", %q,
                          "-c", %q, "-c", "qa!")
ffi.C.execvp("nvim", ffi.cast("char *const *", arguments))
error "nvim does not start"
]]


-- Starts one. options are those of process.start, and: command, an Ex command to be carried out before everything else.
function _M.start(source, options)
    options = options or {}
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(PREAMBLE:format(path), source)
    file:close()
    return process.start(START:format(options.command or "", "luafile " .. path), options)
end


return _M
