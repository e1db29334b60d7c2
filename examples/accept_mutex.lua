-- Implements the idea of nginx's accept_mutex: workers share one listening socket, and only the holder of a lock waits
-- for connections.
--
-- Without the lock, every worker sleeps in poll() on the socket. A connection wakes all workers. One of them accepts
-- the connection, and the others were woken for nothing (the thundering herd). With the lock, one worker sleeps in
-- poll(), and the others sleep in lock(). A connection wakes only the worker in poll(), whose unlock() wakes the next
-- worker in the queue.
--
--   luajit examples/accept_mutex.lua [--workers 4] [--connections 200]
--
-- Do not start this program with `holdfast run`: the program opens the socket and then forks its own workers, so that
-- all of them inherit the socket.

dofile((arg[0]:match("^(.*)/") or ".") .. "/checkout.lua")

local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"
local system = require "accept_mutex.system"


-- --- a worker ------------------------------------------------------------------------------------------

-- After this number of seconds, a holder that hangs loses the lock, and a waiter checks whether all connections have
-- been served. If a holder is killed, its lock is free immediately.
local EXPTIME = 2
local POLL_TIME = 0.2

-- Waits for a connection, and returns whether there is one. Counts how often the socket woke this process. The results
-- of poll() do not show all of these wake-ups: if a process is woken but the connection is gone, the process continues
-- to sleep inside poll().
local function wait_for_connection(socket, counts)
    local before = system.count_sleeps()
    local ready = system.wait_readable(socket, POLL_TIME)
    local by_time = ready and 0 or 1
    counts.by_socket = counts.by_socket + system.count_sleeps() - before - by_time
    return ready
end

local function accept(socket, counts)
    local connection = system.accept(socket)
    local outcome = connection and "accepted" or "too_late"
    counts[outcome] = counts[outcome] + 1
    return connection
end

local function work_without_lock(socket, counts, is_over)
    while not is_over() do
        local connection = wait_for_connection(socket, counts) and accept(socket, counts)
        if connection then
            system.answer(connection)
        end
    end
end

local function work_with_lock(socket, counts, is_over, dict_name)
    local lock = assert(resty_lock:new(dict_name, { exptime = EXPTIME, timeout = EXPTIME }))
    while not is_over() do
        local elapsed = lock:lock("accept")
        if elapsed then
            if elapsed > 0 then
                counts.by_lock = counts.by_lock + 1
            end
            -- While no connection arrives, the holder keeps the lock, and extends it before it expires.
            local ready
            repeat
                ready = wait_for_connection(socket, counts)
            until ready or is_over() or not lock:expire(EXPTIME)
            local connection = ready and accept(socket, counts)
            -- Unlock before answering, because workers may answer at the same time. Only accept() needs the lock.
            lock:unlock()
            if connection then
                system.answer(connection)
            end
        end
    end
end


-- --- the master, which is also the client --------------------------------------------------------------

local START_PATIENCE = 10
local ANSWER_PATIENCE = 5
local PAUSE = 0.002  -- seconds between two connections, so that all woken workers fall asleep again

local function start_worker(id, socket, dict_name, use_lock)
    local master = system.pid()
    io.flush()  -- otherwise the child would print the parent's buffer too
    local pid = system.fork()
    if pid ~= 0 then
        assert(pid > 0, "fork has failed")
        return pid
    end
    local dict = shdict.shared[dict_name]
    local counts = { by_socket = 0, by_lock = 0, accepted = 0, too_late = 0 }
    local function is_over()
        return dict:get("over") or system.parent() ~= master
    end
    dict:incr("ready", 1, 0)
    local ok, err = pcall(use_lock and work_with_lock or work_without_lock, socket, counts, is_over, dict_name)
    if not ok then
        io.stderr:write("accept_mutex: worker ", id, ": ", tostring(err), "\n")
        os.exit(1)
    end
    for name, count in pairs(counts) do
        dict:incr(name, count, 0)
    end
    dict:set("accepted by " .. id, counts.accepted)
    os.exit(0)
end

local function fail(message)
    io.stderr:write("accept_mutex: ", message, "\n")
    os.exit(1)
end

local function run(options, use_lock)
    local dict_name = "accept_mutex." .. system.pid() .. (use_lock and ".lock" or ".no_lock")
    local dict = assert(shdict.open(dict_name, { size = "100k" }))
    local socket, address = system.listen()
    local pids = {}
    for id = 1, options.workers do
        pids[id] = start_worker(id, socket, dict_name, use_lock)
    end
    local deadline = scheduler.now() + START_PATIENCE
    while (dict:get("ready") or 0) < options.workers do
        if scheduler.now() > deadline then
            fail("not all workers have started")
        end
        scheduler.sleep(0.01)
    end
    for _ = 1, options.connections do
        if not system.ask(address, ANSWER_PATIENCE) then
            fail("no worker has answered within " .. ANSWER_PATIENCE .. " seconds")
        end
        scheduler.sleep(PAUSE)
    end
    dict:set("over", true)
    for _, pid in ipairs(pids) do
        system.wait_for_child(pid)
    end
    system.close(socket)

    local result = { shares = {} }
    for _, name in ipairs({ "by_socket", "by_lock", "accepted", "too_late" }) do
        result[name] = (dict:get(name) or 0) / options.connections
    end
    for id = 1, options.workers do
        result.shares[id] = dict:get("accepted by " .. id) or "?"
    end
    shdict.remove(dict_name)
    return result
end


-- --- options and the table -----------------------------------------------------------------------------

local USAGE = "Usage: accept_mutex.lua [--workers N] [--connections N]      (N: 1 to 64, 1 to 100000)\n"

local function read_options(arguments)
    local options, limits = { workers = 4, connections = 200 }, { workers = 64, connections = 100000 }
    if arguments[1] == "--help" or arguments[1] == "-h" then
        io.write(USAGE)
        os.exit(0)
    end
    for i = 1, #arguments, 2 do
        local name, value = arguments[i]:match("^%-%-(%l+)$"), tonumber(arguments[i + 1])
        if not limits[name] or not value or not (value >= 1 and value <= limits[name]) or value % 1 ~= 0 then
            io.stderr:write("accept_mutex: bad option: ", arguments[i], " ", arguments[i + 1] or "", "\n", USAGE)
            os.exit(2)
        end
        options[name] = value
    end
    return options
end

local options = read_options(arg)
local without, with = run(options, false), run(options, true)

print(("%d connections, one after the other, to %d workers. Per connection:\n"):format(options.connections,
    options.workers))
print(("%-36s%12s%12s"):format("", "without lock", "with lock"))
for _, row in ipairs({ { "workers woken by the socket", "by_socket" }, { "workers woken by the lock", "by_lock" },
    { "accept() calls that came too late", "too_late" }, { "connections accepted", "accepted" } }) do
    print(("%-36s%12.2f%12.2f"):format(row[1], without[row[2]], with[row[2]]))
end
print(("\nConnections of each worker: without lock %s; with lock %s"):format(table.concat(without.shares, " "),
    table.concat(with.shares, " ")))
