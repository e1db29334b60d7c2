-- Returns a set of the words that bash completion offers for the last word of a line.

local command, world = require "spec.support" ("command", "tools/world")

local COMPLETION = "tools/share/holdfast.bash"


return function (...)
    local words = { ... }
    for i, word in ipairs(words) do
        words[i] = "'" .. word .. "'"
    end
    local script = command.write("complete.sh", ([[
        PATH=%s:$PATH
        compopt() { :; }
        . %s
        COMP_WORDS=(holdfast %s)
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _holdfast
        printf '%%s\n' "${COMPREPLY[@]}"
    ]]):format(command.program:gsub("/holdfast$", ""), command.repository .. "/" .. COMPLETION,
               table.concat(words, " ")))
    local found = {}
    for line in world.output(script, { PROGRAM = "/bin/bash" }):gmatch "[^\n]+" do
        found[line] = true
    end
    return found
end
