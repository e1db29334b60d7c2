-- Kills a process that uses a queue before each of its calls to the library, and checks what is left:
--   luajit tests/queue/every_call.lua
-- Prints the number of deaths for each story. Fails if a job is lost or is taken again with attempts 1, if a key or
-- anything else is left behind, or if the queue no longer works. Needs HOLDFAST_LIB and HOLDFAST_DIR.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

ffi.cdef [[
int fork(void);
int kill(int pid, int signal);
int waitpid(int pid, int *status, int options);
int getpid(void);
void _exit(int status);
]]

local library, system = core.C, ffi.C
local left  -- number of calls until this process dies, or nil if it does not die

-- The modules get this table instead of the library.
core.C = setmetatable({}, { __index = function (calls, name)
    local real = library[name]
    calls[name] = function (...)
        if left then
            left = left - 1
            if left == 0 then
                system.kill(system.getpid(), 9)
            end
        end
        return real(...)
    end
    return calls[name]
end })

local claims = require "resty.holdfast.queue.claims"
local queue = require "resty.holdfast.queue"
local shdict = require "resty.shdict"

local name = "calls" .. system.getpid()
local seen = assert(shdict.open(name .. ".seen", { size = "64k", persist = false }))
local jobs, deaths


local function in_child(fn, dies_at)
    local pid = system.fork()
    if pid == 0 then
        left = dies_at
        local ok, err = pcall(fn)
        left = nil
        if not ok then
            seen:set("error", tostring(err))
        end
        system._exit(ok and 0 or 1)
    end
    local status = ffi.new("int[1]")
    system.waitpid(pid, status, 0)
    return status[0]
end


-- Stores a record for the check. Its calls to the library do not count.
local function record(what)
    local calls = left
    left = nil
    seen:set(what, true)
    left = calls
end


local pushed  -- the number of the last job


local function push(value, opts)
    pushed = assert(jobs:push(value, opts))
    record("pushed " .. value)
end


local function take(timeout)
    local job = assert(jobs:take(timeout or 1))
    record("begun " .. job.value)
    return job
end


local function done(job)
    assert(job:done())
    record("done " .. job.value)
end


-- Ends the last job that was pushed, unless its lease has expired.
local function end_by_number(token)
    local job = jobs:job(pushed, token)
    if job then
        record("ended " .. job.value)
        done(job)
    end
end


local function die_with(n)
    in_child(function ()
        for _ = 1, n do
            take()
        end
        system.kill(system.getpid(), 9)
    end)
end


-- A story consists of its name, a preparation, in which no process dies, and an act, in which the process dies.
local STORIES = {
    { "push", function () end, function () push("a") end },
    { "push behind other jobs", function () push("a") push("b") end, function () push("c") push("d") end },
    { "push with a key", function () end, function () push("a", { key = "k" }) end },
    { "push with a delay", function () end, function () push("a", { delay = 0.001 }) end },
    { "push with a priority", function () push("a") end, function () push("b", { priority = 3 }) end },
    { "push below a limit", function () push("a") end, function () jobs.max = 5 push("b") end },
    { "take and done", function () push("a") push("b") end, function () done(take()) done(take()) end },
    { "take and done with a key", function () push("a", { key = "k" }) end, function () done(take()) end },
    { "take and done with a priority", function () push("a", { priority = 1 }) push("b") end,
      function () done(take()) done(take()) end },
    { "take with a lease", function () push("a") end, function () jobs.lease = 60 done(take()) end },
    { "retry", function () push("a") end, function () assert(take():retry()) done(take()) end },
    { "retry with a delay", function () push("a") end, function () assert(take():retry(0.001)) done(take()) end },
    { "take of a dead worker's jobs", function () push("a") push("b", { key = "k" }) die_with(2) end,
      function () done(take()) done(take()) end },
    { "give up", function () push("a") die_with(1) end, function () jobs.max_attempts = 2 assert(take():retry()) end },
    { "put back", function () push("a") jobs.max_attempts = 1 assert(take():retry()) end,
      function () assert(jobs:dead()[1]:retry()) done(take()) end },
    { "delete a dead job", function () push("a") jobs.max_attempts = 1 assert(take():retry()) end,
      function () done(jobs:dead()[1]) end },
    { "detach", function () push("a") end, function () assert(take():detach(0.001)) end },
    { "end a detached job", function () push("a", { key = "k" }) assert(take():detach(0.3)) end,
      function () end_by_number(1) end },
    { "end a job that nobody has", function () push("b", { key = "k" }) push("a") end,
      function () end_by_number() end },
    { "void", function () claims.new_number(jobs.store) push("a") end, function () done(take()) push("b") end },
    { "wait", function () end, function () jobs:take(0.05) end },
}


local function remove()
    for _, suffix in ipairs { "", ".claims", ".workers" } do
        shdict.remove(name .. suffix)
    end
end


local function fail(story, at, what)
    io.stderr:write(("%s, killed before call %d: %s\n"):format(story, at, what))
    os.exit(1)
end


local function count_keys(handle, unwanted)
    local count = 0
    claims.each(handle, library.holdfast_scan, 0, math.huge, function (kind)
        if unwanted(kind) then
            count = count + 1
        end
    end, jobs.store)
    return count
end


-- Empties the queue and checks what was left in it. Returns an error, or nil.
local function check()
    jobs.store.full_at = math.huge  -- the process must find out without a scan what has happened
    local came = {}
    while true do
        jobs.store.look_at = 0
        local stats = jobs:stats()
        local job, err = jobs:take(stats.ready + stats.delayed + stats.taken > 0 and 1 or 0.02)
        if not job then
            if err ~= "timeout" then
                return err
            end
            stats = jobs:stats()
            if stats.ready + stats.taken + stats.delayed == 0 then
                break
            end
            return "a job cannot be taken"
        end
        if came[job.value] or seen:get("done " .. job.value) then
            return job.value .. " comes again"
        elseif seen:get("begun " .. job.value) and job.attempts < 2 then
            return job.value .. " is taken again with attempts 1"
        end
        came[job.value] = true
        if not job:done() then
            return job.value .. " cannot be ended"
        end
    end
    for _, job in ipairs(jobs:dead()) do
        came[job.value] = true
        job:done()
    end
    for _, key in ipairs(seen:get_keys(0)) do
        local value = key:match("^pushed (.*)")
        if value and not (came[value] or seen:get("done " .. value) or seen:get("begun " .. value)
                          or seen:get("ended " .. value)) then
            return value .. " is lost"
        end
    end
    if not jobs:push("last", { key = "k" }) then
        return "the key is not free"
    end
    local job = jobs:take(1)
    if not job or job.value ~= "last" or not job:done() then
        return "the queue does not work"
    end
    -- A scan finds garbage. The only garbage that may be left is the marks of numbers whose producers have died.
    jobs.store.full_at, jobs.store.look_at = 0, 0
    jobs:take(0)
    jobs.store.full_at, jobs.store.look_at = 0, 0
    jobs:take(0)
    local rest = count_keys(jobs.store.jobs, function () return true end)
                 + count_keys(jobs.store.claims, function (kind) return kind == claims.DUE end)
    if rest > 0 or #jobs.store.dict:get_keys(0) > 0 then
        return "garbage is left"
    end
end


for _, story in ipairs(STORIES) do
    deaths = 0
    local at, status = 0
    repeat
        at = at + 1
        remove()
        jobs = assert(queue.open(name, { size = "100k", persist = false }))
        seen:flush_all()
        story[2]()
        jobs.max_attempts = 5
        status = in_child(story[3], at)
        if seen:get("error") then
            fail(story[1], at, seen:get("error"))
        end
        jobs.max_attempts = 5
        local err = check()
        if err then
            fail(story[1], at, err)
        end
        if status ~= 0 then
            deaths = deaths + 1
        end
    until status == 0
    print(story[1] .. ": " .. deaths .. " deaths")
end
remove()
shdict.remove(name .. ".seen")
