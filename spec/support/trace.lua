-- Writes a text of `count` words for examples/stampede.lua, of which `distinct` are different. The words are in an
-- order in which many readers request the same word at the same time. Returns the path.

local command = require "spec.support.command"

return function (count, distinct)
    local words = {}
    for i = 1, count do
        words[i] = "word" .. math.floor(i / 7) % distinct
    end
    return command.write("trace.txt", table.concat(words, " "))
end
