-- The keys of a table, sorted: the same seed draws the same of them in each process.
return function (set)
    local names = {}
    for name in pairs(set) do
        names[#names + 1] = name
    end
    table.sort(names)
    return names
end
