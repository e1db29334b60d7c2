-- Reads the tables that examples print.

-- Returns the numbers of the row that begins with `name`, as an array.
return function (out, name)
    local numbers = {}
    for number in (out:match("\n" .. name .. " +([%d. ]+)") or ""):gmatch("[%d.]+") do
        numbers[#numbers + 1] = tonumber(number)
    end
    return numbers
end
