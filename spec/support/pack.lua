-- Returns all results of a function as { n = ... }, including nils at the end. Lua 5.1 does not have table.pack.

return function (...)
    return { n = select("#", ...), ... }
end
