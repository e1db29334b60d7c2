-- The command line of stampede.lua, and the words of a text.

local worker = require "resty.holdfast.worker"

local _M = {}

local USAGE = [[
Usage: stampede.lua [TRACE] [--words N] [--backend-ms N] [--connections N]
                    [--coroutines N] [--no-lock]

  TRACE            the text that all coroutines read; default: the GPL-3 that Debian ships
  --words N        how many of its words they read; default: 200
  --backend-ms N   milliseconds that the backend takes for a word; default: 5
  --connections N  how many calls the backend serves at a time; default: 4
  --coroutines N   coroutines in each worker; default: 25
  --no-lock        run without the lock only
]]


-- Exits. All workers find the same mistake, so only one worker reports it and fails.
function _M.quit(status, ...)
    if worker.id() ~= 0 then
        os.exit(0)
    end
    local out = status == 0 and io.stdout or io.stderr
    out:write(...)
    os.exit(status)
end


local function refuse(message)
    _M.quit(2, "stampede: ", message, "\n", USAGE)
end


local function read_number(option, text, low, high)
    local number = tonumber(text)
    if not (number and number >= low and number <= high) then
        refuse(("%s: expected a number from %d to %d, got %s"):format(option, low, high,
            text and '"' .. text .. '"' or "nothing"))
    end
    return number
end


local function read_count(option, text, high)
    local number = read_number(option, text, 1, high)
    if number % 1 ~= 0 then
        refuse(option .. ": expected a whole number, got " .. text)
    end
    return number
end


function _M.read_options(arguments)
    local options = { backend_ms = 5, connections = 4, coroutines = 25, words = 200 }
    local i = 1
    while i <= #arguments do
        local argument = arguments[i]
        if argument == "--backend-ms" then
            i = i + 1
            options.backend_ms = read_number(argument, arguments[i], 0, 10000)
        elseif argument == "--connections" then
            i = i + 1
            options.connections = read_count(argument, arguments[i], 1000)
        elseif argument == "--coroutines" then
            i = i + 1
            options.coroutines = read_count(argument, arguments[i], 1000)
        elseif argument == "--words" then
            i = i + 1
            options.words = read_count(argument, arguments[i], 1e6)
        elseif argument == "--no-lock" then
            options.no_lock = true
        elseif argument == "--help" or argument == "-h" then
            _M.quit(0, USAGE)
        elseif argument:find("^%-") then
            refuse('unknown option "' .. argument .. '"')
        elseif options.file then
            refuse(('expected one trace, got two: "%s" and "%s"'):format(options.file, argument))
        else
            options.file = argument
        end
        i = i + 1
    end
    return options
end


local function read_file(path)
    local file, err = io.open(path)
    if not file then
        return nil, err
    end
    local text
    text, err = file:read("*a")
    file:close()
    return text, err and path .. ": " .. err
end


-- Returns the first words of the text, in order and in lower case. Bytes above 127 are parts of UTF-8 letters.
function _M.read_words(options, default)
    local path = options.file
    local text, err = read_file(path or "/usr/share/common-licenses/GPL-3")
    if not text and not path then
        text, err = read_file(default)
    end
    if not text then
        _M.quit(1, "stampede: cannot read the trace: ", err, "\n")
    end
    local words = {}
    for word in text:gmatch("[%w\128-\255]+") do
        if #words == options.words then
            break
        end
        words[#words + 1] = word:lower()
    end
    if #words == 0 then
        _M.quit(1, "stampede: there is no word in ", path or default, "\n")
    end
    return words
end


return _M
