-- Returns the sorted keys of a table, so that the same random seed leads to the same choices in each process.
return function (set)
    local names = {}
    for name in pairs(set) do
        names[#names + 1] = name
    end
    table.sort(names)
    return names
end
