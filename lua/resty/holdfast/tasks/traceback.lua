-- Keeps the tracebacks of errors that are caught and raised again. Otherwise, a traceback would begin at the second
-- error().

local co_running = coroutine.running
local pcall, rawequal, setmetatable = pcall, rawequal, setmetatable
local tostring, traceback, type = tostring, debug.traceback, type

local _M = {}

-- The last recorded error of each coroutine: { err =, text = }.
local noted = setmetatable({}, { __mode = "k" })


-- Converts any error value to a string. If its __tostring raises an error, returns the text that luajit prints in this
-- case.
local function text_of(err)
    local ok, text = pcall(tostring, err)
    return ok and type(text) == "string" and text or "(error object is a " .. type(err) .. " value)"
end
_M.text_of = text_of


-- A message handler for xpcall: records the traceback and returns the error unchanged. An error that is raised again
-- keeps its first traceback.
function _M.note(err)
    local co = co_running()
    local last = co and noted[co]
    if co and not (last and rawequal(last.err, err)) then
        noted[co] = { err = err, text = traceback(text_of(err), 2) }
    end
    return err
end


-- Returns the error that ended this coroutine, with its traceback.
function _M.describe(co, err)
    local last = noted[co]
    if last and rawequal(last.err, err) then
        return last.text
    end
    return traceback(co, text_of(err))
end


return _M
