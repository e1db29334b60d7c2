-- A small HTTP client for specs, which connects to unix sockets and local ports. One process can have many requests in
-- flight. Every wait is bounded.

local ffi = require "ffi"
local waits = require "spec.support.waits"

require "spec.support.process"  -- declares close, poll and read

ffi.cdef [[
struct holdfast_spec_sockaddr_un { unsigned short family; char path[108]; };
int socket(int domain, int type, int protocol);
struct holdfast_spec_sockaddr_in { unsigned short family; uint8_t port[2]; uint8_t address[4]; char zero[8]; };
int connect(int socket, const void *address, unsigned int size);
int bind(int socket, const void *address, unsigned int size);
int getsockname(int socket, void *address, unsigned int *size);
ssize_t send(int socket, const void *buffer, size_t count, int flags);
]]

local C = ffi.C

local AF_INET = 2
local AF_UNIX = 1
local POLLIN = 1
local NO_SIGNAL = 16384  -- MSG_NOSIGNAL
local STREAM_CLOSED_ON_EXEC = 524289  -- SOCK_STREAM | SOCK_CLOEXEC
local PATIENCE, now = waits.PATIENCE, waits.now

local _M = {}

local Connection = {}
Connection.__index = Connection

local open = {}


local function local_address(port)
    local bytes = { math.floor(port / 256), port % 256 }
    return ffi.new("struct holdfast_spec_sockaddr_in", AF_INET, bytes, { 127, 0, 0, 1 })
end


-- Returns a port on which no process listens.
function _M.free_port()
    local socket = C.socket(AF_INET, STREAM_CLOSED_ON_EXEC, 0)
    local address = local_address(0)
    local size = ffi.new("unsigned int[1]", ffi.sizeof(address))
    assert(C.bind(socket, address, size[0]) == 0 and C.getsockname(socket, address, size) == 0, "no port")
    C.close(socket)
    return address.port[0] * 256 + address.port[1]
end


-- Connects to the server that listens at this path or, if `path` is a number, at this port.
function _M.connect(path)
    local is_port = type(path) == "number"
    local socket = C.socket(is_port and AF_INET or AF_UNIX, STREAM_CLOSED_ON_EXEC, 0)
    assert(socket >= 0, "no socket")
    local address = is_port and local_address(path) or ffi.new("struct holdfast_spec_sockaddr_un", AF_UNIX, path)
    if C.connect(socket, address, ffi.sizeof(address)) ~= 0 then
        C.close(socket)
        error("nobody listens at " .. path, 0)
    end
    local connection = setmetatable({ socket = socket, text = "" }, Connection)
    open[connection] = true
    return connection
end


function Connection:close()
    if open[self] then
        open[self] = nil
        C.close(self.socket)
    end
end


local function send_bytes(self, bytes)
    assert(C.send(self.socket, bytes, #bytes, NO_SIGNAL) == #bytes, "the server does not listen")
end


-- Sends a request without waiting for the answer.
function Connection:send(path)
    send_bytes(self, "GET " .. path .. " HTTP/1.1\r\nHost: spec\r\n\r\n")
end


local function readable(self, milliseconds)
    local poll = ffi.new("struct holdfast_spec_pollfd[1]", { { fd = self.socket, events = POLLIN } })
    return C.poll(poll, 1, milliseconds) > 0
end


-- Returns whether the answer has begun to arrive.
function Connection:answered()
    return self.text ~= "" or readable(self, 0)
end


-- Reads until the received text begins with the pattern. Returns the captures.
local function expect(self, pattern, deadline)
    local buffer = ffi.new("char[4096]")
    while true do
        local _, last, first, second = self.text:find(pattern)
        if last then
            self.text = self.text:sub(last + 1)
            return first, second
        end
        local left = deadline - now()
        if left <= 0 or not readable(self, left * 1000 + 1) then
            error("no answer in time; so far: " .. self.text, 0)
        end
        local count = tonumber(C.read(self.socket, buffer, 4096))
        if count <= 0 then
            error("the server has closed the connection; before that: " .. self.text, 0)
        end
        self.text = self.text .. ffi.string(buffer, count)
    end
end


local function read_bytes(self, count, deadline)
    local bytes = {}
    while count > 0 do
        local step = math.min(count, 4096)
        bytes[#bytes + 1] = expect(self, "^(" .. ("."):rep(step) .. ")", deadline)
        count = count - step
    end
    return table.concat(bytes)
end


local function read_chunks(self, deadline)
    local chunks = {}
    while true do
        local size = tonumber(expect(self, "^(%x+)\r\n", deadline), 16)
        chunks[#chunks + 1] = read_bytes(self, size, deadline)
        expect(self, "^\r\n", deadline)
        if size == 0 then
            return table.concat(chunks)
        end
    end
end


-- Returns the body and the status of the answer. The connection can be used again.
function Connection:receive(seconds)
    local deadline = now() + (seconds or PATIENCE)
    local status, header = expect(self, "^HTTP/1.1 (%d+)[^\n]*\r\n(.-)\r\n\r\n", deadline)
    header = header:lower()
    local body
    if header:find("transfer%-encoding: chunked") then
        body = read_chunks(self, deadline)
    else
        body = read_bytes(self, tonumber(header:match("content%-length: (%d+)")) or 0, deadline)
    end
    if header:find("connection: close", 1, true) then
        self:close()
    end
    return body, tonumber(status)
end


function Connection:get(path, seconds)
    self:send(path)
    return self:receive(seconds)
end


-- Sends these bytes over a new connection. Returns everything that the server sends before it closes the connection.
function _M.answer_to(path, bytes)
    local connection = _M.connect(path)
    send_bytes(connection, bytes)
    local buffer, text = ffi.new("char[4096]"), ""
    repeat
        assert(readable(connection, PATIENCE * 1000), "no end in time")
        local count = tonumber(C.read(connection.socket, buffer, 4096))
        text = text .. ffi.string(buffer, math.max(count, 0))
    until count <= 0
    connection:close()
    return text
end


-- Closes all connections. Call this function after each test.
function _M.clean_up()
    for connection in pairs(open) do
        connection:close()
    end
end


return _M
