-- Prints the results of stampede.lua: the numbers of both phases side by side, and whether they are correct.

local ffi = require "ffi"

local _M = {}

local DOUBLE = ffi.sizeof("double")


-- A dictionary stores strings, so arrays are stored as their bytes.
function _M.pack(numbers)
    local array = ffi.new("double[?]", #numbers)
    for i, number in ipairs(numbers) do
        array[i - 1] = number
    end
    return ffi.string(array, #numbers * DOUBLE)
end


local function append(numbers, packed)
    local array = ffi.new("double[?]", #packed / DOUBLE)
    ffi.copy(array, packed, #packed)
    for i = 0, #packed / DOUBLE - 1 do
        numbers[#numbers + 1] = array[i]
    end
end


-- Returns the numbers of a phase, which all workers have stored in the cache. Removes the answers from the cache.
function _M.collect(cache, prefix, name, words, workers, readers, seconds)
    local result = {
        name = name, requests = #words * readers, distinct = 0, calls = cache:get(prefix .. "calls") or 0,
        repeated = 0, most_calls = 0, waits = {}, seconds = seconds,
    }
    for id = 0, workers - 1 do
        append(result.waits, cache:get(prefix .. "waits:" .. id))
    end
    table.sort(result.waits)

    -- Count the distinct words in the text, not in the cache, because this count is used to check the number of backend
    -- calls.
    local seen = {}
    for _, word in ipairs(words) do
        if not seen[word] then
            seen[word] = true
            local calls = cache:get(prefix .. "calls for:" .. word) or 0
            result.distinct = result.distinct + 1
            result.repeated = result.repeated + (calls > 1 and 1 or 0)
            result.most_calls = math.max(result.most_calls, calls)
            cache:delete(prefix .. "calls for:" .. word)
            cache:delete(prefix .. "word:" .. word)
        end
    end
    cache:delete(prefix .. "calls")
    return result
end


local function percentile(sorted, share)
    if #sorted == 0 then
        return "-"
    end
    return ("%.1f ms"):format(sorted[math.max(1, math.ceil(#sorted * share))] * 1000)
end


local ROWS = {
    { "requests", function (r) return r.requests end },
    { "distinct words", function (r) return r.distinct end },
    { "backend calls", function (r) return r.calls end },
    { "words computed more than once", function (r) return r.repeated end },
    { "calls for one word, mean", function (r) return ("%.1f"):format(r.calls / r.distinct) end },
    { "  most", function (r) return r.most_calls end },
    { "waits for another's call", function (r) return #r.waits end },
    { "  median", function (r) return percentile(r.waits, 0.5) end },
    { "  99th percentile", function (r) return percentile(r.waits, 0.99) end },
    { "  longest", function (r) return percentile(r.waits, 1) end },
    { "seconds", function (r) return ("%.2f"):format(r.seconds) end },
}


local BAR = 56

-- Draws the backend calls of each phase as bars.
local function print_bars(results)
    print("\nbackend calls")
    local most = math.max(results[1].calls, results[2].calls)
    for i = #results, 1, -1 do
        local length = math.max(1, math.floor(BAR * results[i].calls / most + 0.5))
        print(("  %-16s %s %d"):format(results[i].name, ("#"):rep(length), results[i].calls))
    end
end


-- Prints the numbers, and returns whether all of them are correct.
function _M.print(results, options, workers)
    print(("%d coroutines in %d %s read the same text. A word that is not in the cache takes a backend call\n"
           .. "of %g ms, and the backend serves %d at a time.\n")
        :format(options.coroutines * workers, workers, workers == 1 and "process" or "processes", options.backend_ms,
                options.connections))
    local heads = (" "):rep(31)
    for _, result in ipairs(results) do
        heads = heads .. ("%17s"):format(result.name)
    end
    print(heads)
    for _, row in ipairs(ROWS) do
        local line = ("%-31s"):format(row[1])
        for _, result in ipairs(results) do
            line = line .. ("%17s"):format(row[2](result))
        end
        print(line)
    end
    local locked = results[2] and results[1]
    if not locked then
        return true
    end
    print_bars(results)
    if locked.calls ~= locked.distinct then
        io.stderr:write(("\nstampede: with the lock there were %d backend calls for %d distinct words\n"):format(
            locked.calls, locked.distinct))
        return false
    end
    print(("\nWith the lock each of the %d words was computed once: %d calls -> %d, %.1f s -> %.1f s."):format(
        locked.distinct, results[2].calls, locked.calls, results[2].seconds, locked.seconds))
    return true
end


return _M
