-- An HTTP server that runs in the scheduler. It fetches pages from a slow upstream server, and fetches each page only
-- once for all workers.
--
--   luajit examples/http_cache.lua --slow 0.5 --listen 9000          # a slow server to try it with, in one terminal
--   holdfast run --workers 2 --dict http_pages=10m --dict http_locks=1m
--       examples/http_cache.lua --upstream 127.0.0.1:9000 --listen 8080
--   curl -i http://127.0.0.1:8080/any/page
--
-- Each connection is a task, which waits for its socket with wait_fd. A missing page is fetched under the lock of its
-- address. In all workers, other tasks that want the page wait for this lock, while each worker serves other pages. All
-- workers listen on one port. After TERM or QUIT, they first answer the requests that have begun, and then exit.
--
-- The server needs LuaSocket (Debian: lua-socket). LuaSocket does not know about the scheduler, so no call to LuaSocket
-- may block.

local ffi = require "ffi"
local resty_lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
local shdict = require "resty.shdict"
local socket = require "socket"
local worker = require "resty.holdfast.worker"

local FETCH_TIME = 5      -- the limit for fetching a page from the upstream server, in seconds
local REQUEST_TIME = 10   -- the limit for a client to send its request, and again to receive the answer
local REQUEST_MAX = 16384 -- bytes
local TERM = 15
local USAGE = "Usage: http_cache.lua --listen PORT (--upstream ADDRESS:PORT | --slow SECONDS) [--ttl SECONDS]\n"

local now, wait_fd = scheduler.now, scheduler.wait_fd


-- --- sockets -------------------------------------------------------------------------------------------

-- Calls fn(socket, ...) and closes the socket, even if fn fails or its task is cancelled.
local function with_socket(fn, sock, ...)
    local function close(ok, ...)
        sock:close()
        if not ok then
            error((...), 0)
        end
        return ...
    end
    return close(pcall(fn, sock, ...))
end


-- Waits after a socket call has failed with `err`. Returns true if the call can be repeated, otherwise nil and the
-- reason.
local function wait_after(err, sock, mode, deadline)
    if err ~= "timeout" then
        return nil, err
    end
    return wait_fd(sock:getfd(), mode, math.max(deadline - now(), 0))
end


-- Returns at least one received byte, or nil and the reason.
local function receive_some(sock, deadline)
    while true do
        local data, err, part = sock:receive(4096)
        if data or #part > 0 then
            return data or part
        end
        local ready, why = wait_after(err, sock, "r", deadline)
        if not ready then
            return nil, why
        end
    end
end


local function send(sock, text, deadline)
    local sent = 0
    while sent < #text do
        local last, err, partly = sock:send(text, sent + 1)
        sent = last or partly
        if not last then
            last, err = wait_after(err, sock, "w", deadline)
        end
        if not last then
            return nil, err
        end
    end
    return true
end


-- With SO_REUSEPORT, each worker has its own socket on the port, and the kernel distributes the connections.
local function listen(port)
    local listener = assert(socket.tcp4())
    assert(listener:setoption("reuseport", true))
    assert(listener:bind("127.0.0.1", port))
    assert(listener:listen(1024))
    listener:settimeout(0)
    return listener
end


-- --- pages ---------------------------------------------------------------------------------------------

local function ask(server, address, port, path)
    local deadline = now() + FETCH_TIME
    server:settimeout(0)
    local connected, err = server:connect(address, port)
    if not connected then
        connected, err = wait_after(err, server, "w", deadline)
    end
    if connected then
        connected, err = send(server, "GET " .. path .. " HTTP/1.0\r\n\r\n", deadline)
    end
    local parts = {}
    while connected do
        connected, err = receive_some(server, deadline)
        parts[#parts + 1] = connected
    end
    local status, page = table.concat(parts):match("^HTTP/1%.%d (%d+).-\r\n\r\n(.*)$")
    if err ~= "closed" or not status then
        return nil, "the upstream server: " .. (err == "closed" and "no answer" or err)
    elseif status ~= "200" then
        return nil, "the upstream server: status " .. status
    end
    return page
end


-- Returns a function that returns the page for a path, and the source of the page.
local function cached(address, port, ttl)
    local pages = shdict.shared.http_pages or assert(shdict.open("http_pages", { size = "10m" }))
    local _ = shdict.shared.http_locks or assert(shdict.open("http_locks", { size = "1m" }))

    local function fetch(path)
        local page = pages:get(path)  -- another task may have stored it during the wait
        if page then
            return page, "waited"
        end
        local err
        page, err = with_socket(ask, assert(socket.tcp4()), address, port, path)
        if page then
            pages:set(path, page, ttl)
        end
        return page, err or "fetched"
    end

    return function (path)
        local page = pages:get(path)
        if page then
            return page, "cached"
        end
        local lock = assert(resty_lock:new("http_locks", { exptime = FETCH_TIME + 5, timeout = FETCH_TIME }))
        return lock:with(path, fetch, path)
    end
end


-- Runs a slow upstream server, for trying out the cache.
local function slow(seconds)
    local count = 0
    return function (path)
        scheduler.sleep(seconds)
        count = count + 1
        return ("page %s, request %d here\n"):format(path, count), "made"
    end
end


-- --- the server ----------------------------------------------------------------------------------------

local function answer(client, page_of)
    client:settimeout(0)
    local deadline = now() + REQUEST_TIME
    local request = ""
    repeat
        local data = receive_some(client, deadline)
        if not data then
            return
        end
        request = request .. data
    until request:find("\r\n\r\n", 1, true) or #request > REQUEST_MAX
    local path = #request <= REQUEST_MAX and request:match("^GET (/%S*) HTTP/1%.%d\r\n")
    local status, page, from = "400 Bad Request", "GET only\n", nil
    if path then
        page, from = page_of(path)
        status = page and "200 OK" or "502 Bad Gateway"
        page = page or from .. "\n"
    end
    send(client, ("HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\nX-From: %s\r\nX-Worker: %d\r\n\r\n%s")
                 :format(status, #page, page and path and from or "-", worker.id(), page), now() + REQUEST_TIME)
end


local function accept_all(listener, page_of)
    while true do
        local client, err = listener:accept()
        if client then
            scheduler.spawn(with_socket, answer, client, page_of):name("connection")
        elseif err == "timeout" then
            wait_fd(listener:getfd(), "r")
        else
            scheduler.sleep(0.1)  -- no descriptor is free until a connection ends
        end
    end
end


-- TERM would terminate the process immediately. While TERM is blocked, it can be read from a descriptor.
local function stop_at_term()
    ffi.cdef [[
    typedef struct { unsigned long bits[16]; } http_cache_signals;
    int sigemptyset(http_cache_signals *set);
    int sigaddset(http_cache_signals *set, int signal);
    int sigprocmask(int how, const http_cache_signals *set, void *old);
    int signalfd(int fd, const http_cache_signals *set, int flags);
    ]]
    local set = ffi.new("http_cache_signals")
    ffi.C.sigemptyset(set)
    ffi.C.sigaddset(set, TERM)
    ffi.C.sigprocmask(0, set, nil)
    local fd = ffi.C.signalfd(-1, set, 0x80000)  -- SFD_CLOEXEC
    assert(fd >= 0, "no descriptor for signals")
    wait_fd(fd, "r")
    scheduler.stop()
end


local function serve(port, page_of)
    local listener = listen(port)
    local accepting = scheduler.spawn(accept_all, listener, page_of):name("listener")
    local signals = scheduler.spawn(stop_at_term):name("signals")
    scheduler.spawn(function ()
        scheduler.stopping(math.huge)
        scheduler.cancel(accepting)
        scheduler.cancel(signals)
        accepting:join()
        listener:close()
    end)
    return scheduler.run()
end


local function options_of(words)
    local options = {}
    for i = 1, #words, 2 do
        local name = words[i]:match("^%-%-(%l+)$")
        if not (name == "listen" or name == "upstream" or name == "slow" or name == "ttl") or not words[i + 1] then
            return nil, "bad option: " .. words[i]
        end
        options[name] = words[i + 1]
    end
    options.address, options.port = (options.upstream or ""):match("^([%d.]+):(%d+)$")
    options.listen, options.slow = tonumber(options.listen), tonumber(options.slow)
    options.ttl = tonumber(options.ttl or 10)
    if not options.listen or not options.ttl or not options.address == not options.slow then
        return nil, "expected --listen PORT, and --upstream IP:PORT or --slow SECONDS"
    end
    return options
end


local options, err = options_of(arg)
if not options then
    io.stderr:write("http_cache: ", err, "\n", USAGE)
    os.exit(2)
end
local page_of = options.slow and slow(options.slow) or cached(options.address, options.port, options.ttl)
if not serve(options.listen, page_of) then
    os.exit(1)
end
