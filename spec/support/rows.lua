-- Reads the tables that examples print.

-- Returns an array of the numbers in the row that begins with `name`.
return function (out, name)
    local numbers = {}
    for number in (out:match("\n" .. name .. " +([%d. ]+)") or ""):gmatch("[%d.]+") do
        numbers[#numbers + 1] = tonumber(number)
    end
    return numbers
end
