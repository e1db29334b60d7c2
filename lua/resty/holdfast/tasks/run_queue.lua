-- The tasks that can run, in the order in which they became so. They run in batches: those that become ready meanwhile
-- have to wait for the next turn.
--
-- An error may come from anywhere: the hook of a time limit raises it between any two steps. So a task stays in a list
-- until its turn is over, and nothing is counted before it is in its place.

local _M = {}

-- `batch` is what runs or has run; the places of those whose turn is over hold false. `spare` holds nothing else.
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


-- A turn of each task that is ready now: resume(task).
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


-- After an error has left run(): what was to run stays to be run, and the rest of the batch comes first. Gives the task
-- whose turn the error has cut off outside of the task, if there is one: it is in no list any more.
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
