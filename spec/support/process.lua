-- Real child processes for specs, which run `luajit -e SOURCE` or any program, and exchange lines with the spec. Every
-- wait is bounded. A process that still runs when a test ends is killed by its pid.

local files, waits = require "spec.support" ("files", "waits")
local ffi = require "ffi"

ffi.cdef [[
int fork(void);
int execvp(const char *file, char *const arguments[]);
int setenv(const char *name, const char *value, int overwrite);
int unsetenv(const char *name);
int pipe(int descriptors[2]);
int dup2(int from, int to);
int close(int descriptor);
ssize_t read(int descriptor, void *buffer, size_t count);
ssize_t write(int descriptor, const void *buffer, size_t count);
void _exit(int status);
int waitpid(int pid, int *status, int options);
int kill(int pid, int signal);
struct holdfast_spec_pollfd { int fd; short events; short revents; };
int poll(struct holdfast_spec_pollfd *fds, unsigned long count, int timeout);
]]

local C = ffi.C

local POLLIN, POLLOUT, POLLERR = 1, 4, 8
local WNOHANG = 1
local PATIENCE, now = waits.PATIENCE, waits.now

local _M = { CONT = 18, KILL = 9, STOP = 19, TERM = 15 }

local Child = {}
Child.__index = Child

local running = {}

-- Prepended to each child's source. say() collects garbage, which releases each lock whose object is neither referenced
-- nor kept with keep(). keep() returns its argument.
local PREAMBLE = [[
io.stdout:setvbuf("line")
local function hear() return io.read("*l") end
local function say(...)
    collectgarbage()
    print(...)
end
local kept = {}
local function keep(object)
    kept[#kept + 1] = object
    return object
end
]]

-- Prepended to the source of children that fork. in_child(fn) runs fn in a forked child, and returns when the forked
-- child has ended. The forked child does not close its Lua state, unless fn calls os.exit(0, true).
_M.FORK = [[
    local ffi = require "ffi"
    ffi.cdef "int fork(void); int waitpid(int, int *, int); void _exit(int);"
    local function in_child(fn)
        local pid = ffi.C.fork()
        if pid == 0 then
            fn()
            io.stdout:flush()
            ffi.C._exit(0)
        end
        ffi.C.waitpid(pid, nil, 0)
    end
]]


local function pipe()
    local ends = ffi.new("int[2]")
    assert(C.pipe(ends) == 0, "no pipe")
    return ends[0], ends[1]
end


-- Starts a program, which `words` names with its arguments, after running prepare() in the new process. `env` has the
-- variables to set, or to unset if they are false. Returns the process id.
function _M.spawn(words, env, prepare)
    local pid = C.fork()
    assert(pid >= 0, "no process")
    if pid ~= 0 then
        return pid
    end
    prepare()
    for name, value in pairs(env) do
        if value == false then
            C.unsetenv(name)
        else
            C.setenv(name, value, 1)
        end
    end
    local arguments = ffi.new("const char *[?]", #words + 1)
    for i, word in ipairs(words) do
        arguments[i - 1] = word
    end
    C.execvp(words[1], ffi.cast("char *const *", arguments))
    local message = "cannot start " .. words[1] .. ": is it built?\n"
    C.write(1, message, #message)
    C._exit(127)
end


-- Starts a child that runs Lua source, or a program that is given as a list with its arguments. options.env has the
-- variables to set, or to unset if they are false. With options.stderr, hear() also returns the lines of the child's
-- standard error.
function _M.start(what, options)
    options = options or {}
    local child_in, input = pipe()
    local output, child_out = pipe()
    local words = type(what) == "table" and what or { "luajit", "-e", PREAMBLE .. what }
    local pid = _M.spawn(words, options.env or {}, function ()
        C.dup2(child_in, 0)
        C.dup2(child_out, 1)
        if options.stderr then
            C.dup2(child_out, 2)
        end
        for descriptor = 3, 63 do
            C.close(descriptor)
        end
    end)
    C.close(child_in)
    C.close(child_out)
    local child = setmetatable({ pid = pid, input = input, output = output, text = "" }, Child)
    running[child] = true
    return child
end


-- Returns the path of a file with the source, for programs that run Lua files. The source can call say() and hear(),
-- and the file removes itself.
function _M.script(source)
    local path = os.tmpname()
    return files.write(path, ([[
os.remove(%q)
io.stdout:setvbuf("line")
local hear = function () return io.read("*l") end
local function say(...)
    local words = { ... }
    for i = 1, select("#", ...) do words[i] = tostring(words[i]) end
    io.stdout:write(table.concat(words, "\t"), "\n")
end
]]):format(path) .. source)
end


-- Starts a child that takes "key" by calling a method of the object that this Lua code creates. When it gets a line,
-- the child releases the key, reports the result, and stays alive.
function _M.start_holder(made, take, give)
    local child = _M.start(([[
        local object = %s
        say(object:%s("key"))
        hear()
        say(object:%s("key"))
        hear()
    ]]):format(made, take, give))
    local taken = child:hear()
    assert(taken == "0" or taken == "true", taken)
    return child
end


-- Sends a line. Raises an error if the child has ended, because writing would then raise SIGPIPE here.
function Child:say(line)
    line = line .. "\n"
    local poll = ffi.new("struct holdfast_spec_pollfd[1]", { { fd = self.input, events = POLLOUT } })
    assert(C.poll(poll, 1, PATIENCE * 1000) == 1 and bit.band(poll[0].revents, POLLERR) == 0
           and C.write(self.input, line, #line) == #line, "the child does not listen")
end


-- Reads more input. Returns false at the end.
local function fill(self, deadline)
    local left = deadline - now()
    local poll = ffi.new("struct holdfast_spec_pollfd[1]", { { fd = self.output, events = POLLIN } })
    if left <= 0 or C.poll(poll, 1, left * 1000 + 1) == 0 then
        error("child " .. self.pid .. " sent nothing in time; before that: " .. self.text, 0)
    end
    local buffer = ffi.new("char[4096]")
    local count = tonumber(C.read(self.output, buffer, 4096))
    if count > 0 then
        self.text = self.text .. ffi.string(buffer, count)
    end
    return count > 0
end


-- Returns the next line of the child, or nil at its end.
function Child:hear(seconds)
    local deadline = now() + (seconds or PATIENCE)
    while true do
        local line, rest = self.text:match("^(.-)\n(.*)$")
        if line then
            self.text = rest
            return line
        end
        if not fill(self, deadline) then
            local last = self.text
            self.text = ""
            return last ~= "" and last or nil
        end
    end
end


-- Expects this line as the next line. Otherwise, the error contains the child's other lines and, if the child has
-- ended, how it ended.
function Child:expect(line, seconds)
    local heard = self:hear(seconds)
    if heard ~= line then
        local ok, rest = pcall(self.hear_all, self, 1)
        local status = select(2, pcall(self.wait, self, 1))
        error(("expected %q, heard %q; then %q; its end: %s"):format(line, tostring(heard), ok and rest or self.text,
                                                                    tostring(status)), 2)
    end
end


-- Returns the child's remaining lines. The child must end with status 0.
function Child:expect_end(...)
    for _, line in ipairs { ... } do
        self:expect(line)
    end
    local rest, status = self:hear_all(), self:wait()
    if rest ~= "" or status ~= 0 then
        error(("expected the end, heard %q; status %d"):format(rest, status), 2)
    end
end


-- Returns all output until the child ends.
function Child:hear_all(seconds)
    local deadline = now() + (seconds or PATIENCE)
    while fill(self, deadline) do end
    local text = self.text
    self.text = ""
    return text
end


function Child:kill(signal)
    C.kill(self.pid, signal or _M.KILL)
end


local function forget(self)
    running[self] = nil
    C.close(self.input)
    C.close(self.output)
end


-- Returns the exit status, or the negated number of the signal that ended the child.
function Child:wait(seconds)
    local status = ffi.new("int[1]")
    local deadline = now() + (seconds or PATIENCE)
    while C.waitpid(self.pid, status, WNOHANG) == 0 do
        if now() > deadline then
            error("child " .. self.pid .. " did not end in time", 0)
        end
        waits.sleep(0.001)
    end
    forget(self)
    local signal = status[0] % 128
    if signal ~= 0 then
        return -signal
    end
    return math.floor(status[0] / 256) % 256
end


-- Runs a child to its end. Returns its output and its status.
function _M.run(source, options)
    local child = _M.start(source, options)
    C.close(child.input)
    child.input = -1
    local text = child:hear_all()
    return text, child:wait()
end


-- Runs children concurrently. Each child must send only "done", and exit with 0.
function _M.run_together(sources)
    local children = {}
    for i, source in ipairs(sources) do
        children[i] = _M.start(source .. ' say "done"', { stderr = true })
    end
    for _, child in ipairs(children) do
        child:expect "done"
        local text, status = child:hear_all(), child:wait()
        assert(text == "" and status == 0, text .. status)
    end
end


-- Kills all children. Call this function after each test.
function _M.clean_up()
    for child in pairs(running) do
        C.kill(child.pid, _M.KILL)
        C.waitpid(child.pid, nil, 0)
        forget(child)
    end
end


return _M
