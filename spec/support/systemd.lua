-- Judges units with systemd.

local command, files, shell = require "spec.support" ("command", "files", "shell")

local _M = {}

_M.missing = not shell.succeeds "command -v systemd-analyze >/dev/null" and "systemd is not installed" or nil


-- Returns what is wrong with the unit template in that file, for an instance of that name. Needs an installed
-- systemd-analyze.
function _M.complaints(path, instance)
    local text = files.read(path):gsub("ExecStart=holdfast ", "ExecStart=" .. command.program .. " ")
                                 :gsub("Documentation=[^\n]*\n", "")
    local unit = command.write(path:match "[^/]*$", text)
    local link = unit:gsub("@%.service$", "@" .. instance .. ".service")
    assert(shell.succeeds(("ln -s '%s' '%s'"):format(unit, link)))
    return shell.output("systemd-analyze verify --man=no '" .. link .. "' 2>&1")
end


return _M
