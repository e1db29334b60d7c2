-- What the driver tells a part, through the environment: "name=value,name=value".

local _M = {}


function _M.read()
    local options = {
        root = assert(os.getenv("HOLDFAST_BENCH_ROOT"), "to be started by bench/run"),
        folder = os.getenv("HOLDFAST_BENCH_FOLDER"),
    }
    for name, value in (os.getenv("HOLDFAST_BENCH_OPTIONS") or ""):gmatch("([%w_]+)=([^,]+)") do
        options[name] = tonumber(value) or value
    end
    return options
end


function _M.write(options)
    local words = {}
    for name, value in pairs(options) do
        words[#words + 1] = name .. "=" .. tostring(value)
    end
    table.sort(words)
    return table.concat(words, ",")
end


-- One line of a part's results.
function _M.emit(...)
    local words = { ... }
    for i, word in ipairs(words) do
        words[i] = type(word) == "number" and ("%.17g"):format(word) or tostring(word)
    end
    io.write(table.concat(words, "\t"), "\n")
    io.flush()
end


return _M
