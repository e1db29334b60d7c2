-- Starts and ends tasks in a worker of nginx. A task runs in a timer, where it may sleep. For the spec, prints lines of
-- words that are separated by tabs: the lines of the task; on failure, "failed" and the reason; and finally "end".

local ngx = ngx  -- luacheck: ignore 113

local _M = {}


function _M.say(...)
    local words = { ... }
    for i, word in ipairs(words) do
        words[i] = tostring(word)
    end
    io.stdout:write(table.concat(words, "\t"), "\n")
    io.stdout:flush()
end


function _M.run(task)
    assert(ngx.timer.at(0, function ()
        local ok, err = xpcall(task, debug.traceback)
        if not ok then
            _M.say("failed", (tostring(err):gsub("\n", " ")))
        end
        _M.say("end")
    end))
end


-- Runs the task in `count` light threads, each with its number as its argument. Returns when all of them have ended.
function _M.in_threads(count, task)
    local threads = {}
    for i = 1, count do
        threads[i] = ngx.thread.spawn(task, i)
    end
    for i = 1, count do
        assert(ngx.thread.wait(threads[i]))
    end
end


-- Formats a value for a line.
function _M.show(value)
    if type(value) == "string" then
        return #value > 200 and ("%q.. of %d bytes"):format(value:sub(1, 10), #value) or ("%q"):format(value)
    elseif type(value) == "table" then
        local words = {}
        for i, element in ipairs(value) do
            words[i] = _M.show(element)
        end
        return "{" .. table.concat(words, ",") .. "}"
    end
    return (tostring(value):gsub("0x%x+", "0x"))
end


function _M.show_all(values)
    local words = {}
    for i = 1, values.n do
        words[i] = _M.show(values[i])
    end
    return table.concat(words, ", ")
end


return _M
