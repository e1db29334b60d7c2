-- Returns the keys of a table, sorted, so that the same seed chooses the same of them in each process.
return function (set)
    local names = {}
    for name in pairs(set) do
        names[#names + 1] = name
    end
    table.sort(names)
    return names
end
