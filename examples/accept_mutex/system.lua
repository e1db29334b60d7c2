-- The system calls of accept_mutex.lua.

local ffi = require "ffi"

ffi.cdef [[
struct address { uint16_t family; char name[108]; };
struct pollfd { int fd; short events; short revents; };
struct rusage { long times[4]; long counts[12]; long voluntary_switches; long involuntary_switches; };
int socket(int family, int type, int protocol);
int bind(int fd, const struct address *address, unsigned length);
int getsockname(int fd, struct address *address, unsigned *length);
int listen(int fd, int backlog);
int connect(int fd, const struct address *address, unsigned length);
int accept(int fd, struct address *address, unsigned *length);
long read(int fd, void *buffer, size_t size);
long write(int fd, const void *buffer, size_t size);
int close(int fd);
int poll(struct pollfd *fds, unsigned long count, int milliseconds);
int fork(void);
int getpid(void);
int getppid(void);
int waitpid(int pid, int *status, int options);
int getrusage(int who, struct rusage *usage);
]]

local C = ffi.C
local AF_UNIX, SOCK_STREAM, SOCK_NONBLOCK, POLLIN = 1, 1, 2048, 1
local BACKLOG = 128

local _M = { close = C.close, fork = C.fork, pid = C.getpid, parent = C.getppid }

local function check(result, what)
    if result < 0 then
        error(what .. ": errno " .. ffi.errno(), 3)
    end
    return result
end


-- Returns a listening socket and its address. The kernel chooses the address. It is not a file, so it need not be
-- removed.
function _M.listen()
    local socket = check(C.socket(AF_UNIX, SOCK_STREAM + SOCK_NONBLOCK, 0), "socket")
    local address = { name = ffi.new("struct address", AF_UNIX), length = ffi.new("unsigned[1]", 2) }
    check(C.bind(socket, address.name, 2), "bind")
    address.length[0] = ffi.sizeof(address.name)
    check(C.getsockname(socket, address.name, address.length), "getsockname")
    check(C.listen(socket, BACKLOG), "listen")
    return socket, address
end


-- Returns a connection, or nil if there is none or another process was faster.
function _M.accept(socket)
    local connection = C.accept(socket, nil, nil)
    return connection >= 0 and connection or nil
end


local fds = ffi.new("struct pollfd[1]")

-- Returns whether the descriptor became readable in time.
function _M.wait_readable(fd, seconds)
    fds[0].fd, fds[0].events = fd, POLLIN
    return C.poll(fds, 1, seconds * 1000) == 1
end


function _M.answer(connection)
    C.write(connection, "hello\n", 6)
    C.close(connection)
end


-- Connects and waits for the answer. Returns whether the answer arrived in time.
function _M.ask(address, seconds)
    local connection = check(C.socket(AF_UNIX, SOCK_STREAM, 0), "socket")
    check(C.connect(connection, address.name, address.length[0]), "connect")
    local answered = _M.wait_readable(connection, seconds) and C.read(connection, ffi.new("char[6]"), 6) == 6
    C.close(connection)
    return answered
end


local usage = ffi.new("struct rusage")

-- Returns how often this process has gone to sleep: the number of its voluntary context switches.
function _M.count_sleeps()
    C.getrusage(0, usage)
    return tonumber(usage.voluntary_switches)
end


function _M.wait_for_child(pid)
    C.waitpid(pid, nil, 0)
end


return _M
