-- Writes a text for examples/stampede.lua of `count` words, `distinct` of them different, in an order in which many
-- ask for one word at once. Returns its path.

local command = require "spec.support.command"

return function (count, distinct)
    local words = {}
    for i = 1, count do
        words[i] = "word" .. math.floor(i / 7) % distinct
    end
    return command.write("trace.txt", table.concat(words, " "))
end
