-- The tasks that can run, in order of becoming ready. They run in batches: a task that becomes ready meanwhile waits
-- for the next turn.
--
-- The hook of a time limit may raise an error between any two steps. So a task stays in a list until its turn is over,
-- and is in its place before it is counted.

local _M = {}

-- `batch` runs or has run; finished turns leave false in their places. `spare` holds only such places.
local ready, count = {}, 0
local batch, spare = {}, {}


function _M.add(task)
    local place = count + 1
    ready[place] = task
    task.state = "ready"
    count = place
end


function _M.is_empty()
    return count == 0
end


-- Gives each ready task a turn: resume(task).
function _M.run(resume)
    local last = count
    batch = ready
    count = 0
    ready = spare
    local tasks = batch
    for place = 1, last do
        local task = tasks[place]
        if task and task.co then
            resume(task)
        end
        tasks[place] = false
    end
    spare = tasks
end


local function take_all(from, to, known)
    for place = 1, #from do
        local task = from[place]
        if task and not known[task] then
            known[task] = true
            to[#to + 1] = task
        end
    end
end


-- Recovers from an error that has left run(): the rest of the batch comes first, then the other ready tasks. Returns
-- the task of the interrupted turn, if the error came from outside of it; it is in no list.
function _M.recover()
    local tasks, known = {}, {}
    take_all(batch, tasks, known)
    take_all(ready, tasks, known)
    batch, spare = {}, {}
    ready, count = {}, 0
    local broken
    for place = 1, #tasks do
        local task = tasks[place]
        if task.state == "ready" then
            _M.add(task)
        elseif task.state == "running" and task.co then
            broken = task
        end
    end
    return broken
end


return _M
