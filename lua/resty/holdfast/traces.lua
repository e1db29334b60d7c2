-- Where errors come from that are caught and raised again: the second error() would make the traceback its own.

local co_running = coroutine.running
local rawequal = rawequal
local setmetatable = setmetatable
local tostring = tostring
local traceback = debug.traceback

local _M = {}

-- The last error of a coroutine that was noted: { err =, text = }.
local noted = setmetatable({}, { __mode = "k" })


-- A message handler for xpcall: leaves the error as it is. Of one that is raised again the first note stays.
function _M.note(err)
    local co = co_running()
    local last = co and noted[co]
    if co and not (last and rawequal(last.err, err)) then
        noted[co] = { err = err, text = traceback(tostring(err), 2) }
    end
    return err
end


-- The error that has ended this coroutine, with its traceback.
function _M.describe(co, err)
    local last = noted[co]
    if last and rawequal(last.err, err) then
        return last.text
    end
    return traceback(co, tostring(err))
end


return _M
