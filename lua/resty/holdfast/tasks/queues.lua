-- The work of a process: the ready tasks, the timers, and the background jobs.
--
-- A debug hook, for example one that enforces a time limit, may raise an error between any two steps. The order of the
-- steps ensures that such an error loses no task and no item.

local floor, ipairs, setmetatable = math.floor, ipairs, setmetatable

local INFINITY = math.huge


-- --- the tasks that can run, in the order in which they became ready ---
--
-- Tasks run in batches: a task that becomes ready during a batch waits for the next batch. A task remains in a list
-- until it has run, and is stored in its position before it is counted.

local ready = {}

-- `batch` is the batch that is running or ran last. A task that has run leaves false in its position. `spare` contains
-- only false.
local queue, queued = {}, 0
local batch, spare = {}, {}


function ready.add(task)
    local position = queued + 1
    queue[position] = task
    task.state = "ready"
    queued = position
end


function ready.is_empty()
    return queued == 0
end


-- Calls resume(task) once for each ready task.
function ready.run(resume)
    local last = queued
    batch = queue
    queued = 0
    queue = spare
    local tasks = batch
    for position = 1, last do
        local task = tasks[position]
        if task and task.co then
            resume(task)
        end
        tasks[position] = false
    end
    spare = tasks
end


local function take_all(from, to, known)
    for position = 1, #from do
        local task = from[position]
        if task and not known[task] then
            known[task] = true
            to[#to + 1] = task
        end
    end
end


-- Recovers from an error that run() has raised. Puts the rest of the batch first, followed by the other ready tasks. If
-- the error came from outside the running task, returns the task, which is then in no list.
function ready.recover()
    local tasks, known = {}, {}
    take_all(batch, tasks, known)
    take_all(queue, tasks, known)
    batch, spare = {}, {}
    queue, queued = {}, 0
    local broken
    for position = 1, #tasks do
        local task = tasks[position]
        if task.state == "ready" then
            ready.add(task)
        elseif task.state == "running" and task.co then
            broken = task
        end
    end
    return broken
end


-- --- timers: a binary heap of tables, ordered by deadline ---
--
-- A table is in at most one heap and stores its position, so it can be removed without a search. Items with equal
-- deadlines keep the order in which they were added. An error from a debug hook may leave an item in the heap twice, or
-- after the end of the heap. remove and take_first allow for this.

local timers = {}
timers.__index = timers


function timers.new()
    return setmetatable({ count = 0, added = 0 }, timers)
end


local function before(a, b)
    local a_deadline, b_deadline = a.deadline, b.deadline
    return a_deadline < b_deadline or (a_deadline == b_deadline and a.timer_order < b.timer_order)
end


local function put(heap, position, item)
    heap[position] = item
    item.timer_position = position
end


local function rise(heap, position, item)
    local above = floor(position / 2)
    while position > 1 and before(item, heap[above]) do
        put(heap, position, heap[above])
        position, above = above, floor(above / 2)
    end
    put(heap, position, item)
end


local function sink(heap, position, item, count)
    while true do
        local below = 2 * position
        if below > count then
            break
        end
        if below < count and before(heap[below + 1], heap[below]) then
            below = below + 1
        end
        if not before(heap[below], item) then
            break
        end
        put(heap, position, heap[below])
        position = below
    end
    put(heap, position, item)
end


local function clear(heap, position)
    local count = heap.count
    if position > count then
        heap[position] = nil
        return
    end
    if position < count then
        local last = heap[count]
        if before(last, heap[position]) then
            rise(heap, position, last)
        else
            sink(heap, position, last, count - 1)
        end
    end
    heap.count = count - 1
    heap[count] = nil
end


-- Removes the item if it is in the heap.
local function remove(heap, item)
    local position = item.timer_position
    if not position then
        return
    end
    item.timer_position = nil
    if heap[position] == item then
        clear(heap, position)
    end
end
timers.remove = remove


-- Adds an item, or changes the deadline of an item that is already in this heap.
function timers.add(heap, item, deadline)
    if item.timer_position then
        remove(heap, item)
    end
    item.deadline = deadline
    item.timer_order = heap.added
    heap.added = heap.added + 1
    local position = heap.count + 1
    put(heap, position, item)
    heap.count = position
    rise(heap, position, item)
end


-- Removes and returns the item with the earliest deadline, whatever position the item has recorded.
function timers.take_first(heap)
    local item = heap[1]
    item.timer_position = nil
    clear(heap, 1)
    return item
end


-- Returns the item with the earliest deadline, or nil.
function timers.first(heap)
    return heap[1]
end


-- --- background jobs ---
--
-- A job is a table with a method run, which the loop of the job's list calls once, some time after the job's deadline.
-- Jobs do not keep a loop from ending. A job must not wait; if it has to wait for an event, it starts a coroutine.

-- Creates a list of jobs, which calls changed() when its first deadline may have changed.
local function new_jobs(changed)
    local deadlines = timers.new()
    local list = {}

    -- Adds a job, which must not be in any list.
    function list.add(job, deadline)
        deadlines:add(job, deadline)
        changed()
    end

    function list.remove(job)
        deadlines:remove(job)
        changed()
    end

    -- Returns the first deadline; math.huge if there is none.
    function list.next()
        local job = deadlines:first()
        return job and job.deadline or INFINITY
    end

    -- Runs the jobs that are due at this time.
    function list.run(time)
        local job = deadlines:first()
        while job and job.deadline <= time do
            deadlines:take_first()
            job:run()
            job = deadlines:first()
        end
    end

    -- Removes the jobs whose method is_over() returns true.
    function list.drop_over()
        local over = {}
        for i = 1, deadlines.count do
            local job = deadlines[i]
            if job:is_over() then
                over[#over + 1] = job
            end
        end
        for _, job in ipairs(over) do
            deadlines:remove(job)
        end
    end

    return list
end


-- The list of the scheduler or, in nginx, of the worker's timers (host/nginx_jobs.lua). Other loops have their own
-- lists.
local background_jobs
background_jobs = new_jobs(function ()
    if background_jobs.runner then
        background_jobs.runner.changed()
    end
end)

-- `looping`: true while the scheduler is running and thus runs the jobs. `runner`: the object that runs the jobs
-- instead of the scheduler, or false if the scheduler runs them.
background_jobs.looping = false
background_jobs.runner = false


return { background_jobs = background_jobs, new_jobs = new_jobs, ready = ready, timers = timers }
