-- Queues of jobs, by name: holdfast's queue, and the queues of servers over their Unix sockets. Each is a function
-- (folder, options) that returns three functions: push(text); take(seconds), which returns a job or nil; and done(job).
-- With holdfast, take waits as its host waits; with the servers, it blocks the process.

local ffi = require "ffi"
local peers = require "bench.support.peers"

local C = ffi.C

ffi.cdef [[
int socket(int domain, int type, int protocol);
int connect(int file, const void *address, unsigned length);
long read(int file, void *buffer, size_t length);
long write(int file, const void *buffer, size_t length);
typedef struct { unsigned short family; char path[108]; } holdfast_bench_address;
]]

local UNIX, STREAM = 1, 1
local BUFFER = 4096

local _M = {}


-- Returns ask(text), which sends a request and returns the answer.
local function connect(key, folder, is_complete)
    local file = C.socket(UNIX, STREAM, 0)
    local address = ffi.new("holdfast_bench_address", UNIX, peers.socket(key, folder))
    assert(C.connect(file, address, ffi.sizeof(address)) == 0, "cannot connect to " .. key)
    local buffer = ffi.new("char[?]", BUFFER)
    return function (text)
        assert(C.write(file, text, #text) == #text, "cannot write to " .. key)
        local answer = ""
        repeat
            local length = tonumber(C.read(file, buffer, BUFFER))
            assert(length > 0, key .. " has closed the connection")
            answer = answer .. ffi.string(buffer, length)
        until is_complete(answer)
        return answer
    end
end


function _M.holdfast(_, options)
    local queue = assert(require("resty.holdfast.queue").open("bench_queue", {
        size = "1m", persist = false, block = options.host == "none" }))
    return {
        push = function (text)
            return assert(queue:push(text))
        end,
        take = function (seconds)
            return queue:take(seconds)
        end,
        done = function (job)
            return assert(job:done())
        end,
    }
end


-- --- Redis -----------------------------------------------------------------------------------------------------

local function request(...)
    local words = { ... }
    for i, word in ipairs(words) do
        words[i] = "$" .. #word .. "\r\n" .. word .. "\r\n"
    end
    return "*" .. #words .. "\r\n" .. table.concat(words)
end


-- Returns the end of the value that begins at this position in the answer, or nil if the value is incomplete.
local function end_of_value(answer, first)
    local kind, number, last = answer:match("^([^\r])([^\r]*)\r\n()", first)
    number = tonumber(number)
    if kind == "$" and number >= 0 then
        last = last + number + 2
    end
    for _ = 1, kind == "*" and number or 0 do
        last = last and end_of_value(answer, last)
    end
    return last and last <= #answer + 1 and last or nil
end


local function is_redis_answer(answer)
    return end_of_value(answer, 1) ~= nil
end


-- Uses a list of jobs and a list of taken jobs.
function _M.redis(folder)
    local ask = connect("redis", folder, is_redis_answer)
    return {
        push = function (text)
            local answer = ask(request("LPUSH", "jobs", text))
            assert(answer:byte() == 58, answer)  -- ":", a number
        end,
        take = function (seconds)
            local answer = ask(seconds > 0 and request("BRPOPLPUSH", "jobs", "taken", tostring(seconds))
                               or request("RPOPLPUSH", "jobs", "taken"))
            return answer:match("^%$%d+\r\n(.*)\r\n$")
        end,
        done = function (text)
            local answer = ask(request("LREM", "taken", "1", text))
            assert(answer == ":1\r\n", answer)
        end,
    }
end


-- Uses a stream, which the consumers of a group read.
function _M.redis_stream(folder)
    local ask = connect("redis", folder, is_redis_answer)
    ask(request("XGROUP", "CREATE", "stream", "workers", "0", "MKSTREAM"))
    local consumer = tostring({})
    return {
        push = function (text)
            local answer = ask(request("XADD", "stream", "*", "job", text))
            assert(answer:byte() == 36, answer)  -- "$", a string
        end,
        take = function (seconds)
            local words = { "XREADGROUP", "GROUP", "workers", consumer, "COUNT", "1" }
            if seconds > 0 then
                words[7], words[8] = "BLOCK", tostring(seconds * 1000)
            end
            words[#words + 1], words[#words + 2], words[#words + 3] = "STREAMS", "stream", ">"
            return ask(request(unpack(words))):match("(%d+%-%d+)\r\n")
        end,
        done = function (id)
            local answer = ask(request("XACK", "stream", "workers", id)) .. ask(request("XDEL", "stream", id))
            assert(answer == ":1\r\n:1\r\n", answer)
        end,
    }
end


-- --- beanstalkd ---------------------------------------------------------------------------------------------

local function is_beanstalkd_answer(answer)
    local length, first = answer:match("^RESERVED %d+ (%d+)\r\n()")
    if length then
        return #answer >= first + length + 1
    end
    return answer:find("\r\n", 1, true) ~= nil
end


function _M.beanstalkd(folder)
    local ask = connect("beanstalkd", folder, is_beanstalkd_answer)
    return {
        push = function (text)
            local answer = ask("put 1 0 3600 " .. #text .. "\r\n" .. text .. "\r\n")
            assert(answer:find("^INSERTED"), answer)
        end,
        take = function (seconds)
            return ask("reserve-with-timeout " .. seconds .. "\r\n"):match("^RESERVED (%d+)")
        end,
        done = function (id)
            local answer = ask("delete " .. id .. "\r\n")
            assert(answer == "DELETED\r\n", answer)
        end,
    }
end


return _M
