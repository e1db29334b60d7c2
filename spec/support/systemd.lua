-- Checks systemd units with systemd-analyze.

local command, files, shell = require "spec.support" ("command", "files", "shell")

local _M = {}

_M.missing = not shell.succeeds "command -v systemd-analyze >/dev/null" and "systemd is not installed" or nil


-- Returns what is wrong with the unit in this file. A template needs an instance. Requires systemd-analyze.
function _M.complaints(path, instance)
    local text = files.read(path):gsub("ExecStart=holdfast ", "ExecStart=" .. command.program .. " ")
                                 :gsub("Documentation=[^\n]*\n", "")
    local unit = command.write(path:match "[^/]*$", text)
    if instance then
        local link = unit:gsub("@%.service$", "@" .. instance .. ".service")
        assert(shell.succeeds(("ln -s '%s' '%s'"):format(unit, link)))
        unit = link
    end
    return shell.output("systemd-analyze verify --man=no '" .. unit .. "' 2>&1")
end


return _M
