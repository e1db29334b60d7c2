-- Keeps tracebacks of errors that are caught and raised again: the second error() would make the traceback its own.

local co_running = coroutine.running
local pcall, rawequal, setmetatable = pcall, rawequal, setmetatable
local tostring, traceback, type = tostring, debug.traceback, type

local _M = {}

-- The last noted error of a coroutine: { err =, text = }.
local noted = setmetatable({}, { __mode = "k" })


-- Any error value as a string. An error in its __tostring must not reach the reporter: the text is then luajit's.
local function text_of(err)
    local ok, text = pcall(tostring, err)
    return ok and type(text) == "string" and text or "(error object is a " .. type(err) .. " value)"
end
_M.text_of = text_of


-- A message handler for xpcall: leaves the error as it is. An error that is raised again keeps its first note.
function _M.note(err)
    local co = co_running()
    local last = co and noted[co]
    if co and not (last and rawequal(last.err, err)) then
        noted[co] = { err = err, text = traceback(text_of(err), 2) }
    end
    return err
end


-- The error that has ended this coroutine, with its traceback.
function _M.describe(co, err)
    local last = noted[co]
    if last and rawequal(last.err, err) then
        return last.text
    end
    return traceback(co, text_of(err))
end


return _M
