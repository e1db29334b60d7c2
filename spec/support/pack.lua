-- All that a function returns, as { n = ... }: nils count, also those at the end. Lua 5.1 has no table.pack.

return function (...)
    return { n = select("#", ...), ... }
end
