-- Fills a runtime directory with processes that hold locks or wait for them, and runs the holdfast command there.

local assert = require "luassert"
local command = require "spec.support.command"

local await, run, start = command.await, command.run, command.start

local _M = {}


-- Starts a process that runs the code, and then stays alive until the test ends. Returns when the code has called
-- ready(). ready() collects garbage, which releases each lock whose object is neither referenced nor kept with
-- keep(object). keep() returns its argument.
function _M.keep(code, ...)
    local name = ("ready%d"):format(#command.files("^ready%d+$") + 1)
    local script = command.write(name .. ".lua", ([[
        local kept = {}
        local function keep(object)
            kept[#kept + 1] = object
            return object
        end
        local function ready()
            collectgarbage()
            os.execute("touch '%s.new' && mv '%s.new' '%s'")
        end
        %s
        while true do
            require("resty.holdfast.scheduler").sleep(0.05)
        end
    ]]):format(command.path(name), command.path(name), command.path(name), code))
    local process = start("run", "--workers", "1", script, ...)
    assert(await(function () return command.read(name) or process.status or process:wait(0) end), "not ready")
    assert(command.read(name), process:err())
    return process
end


-- Returns the pid of the only worker of a process from keep().
function _M.worker_of(process)
    local children = command.read(("/proc/%d/task/%d/children"):format(process.pid, process.pid))
    return assert(tonumber(children:match "%d+"))
end


-- Starts `holdfast lock` with these words before "--". Returns when the command holds the lock. The command then
-- continues to run.
function _M.hold(...)
    local words = { "lock", ... }
    for _, word in ipairs { "--", "sh", "-c", "echo on; exec sleep 600" } do
        words[#words + 1] = word
    end
    local process = start(unpack(words))
    await(function () return process:out() == "on\n" or process:wait(0) end)
    assert.equal("on\n", process:out(), process:err())
    return process
end


-- Kills the process and waits until its only worker is dead. Returns the worker's pid.
function _M.kill(process)
    local pid = _M.worker_of(process)
    process:signal(command.KILL)
    assert(await(function () return not command.alive(pid) end))
    return pid
end


-- Writes the bytes at this position in a file of the runtime directory.
function _M.overwrite(name, at, bytes)
    local file = assert(io.open(command.world() .. "/" .. name, "r+"))
    file:seek("set", at)
    file:write(bytes)
    file:close()
end


-- Damages the lock of the key so that it cannot be read.
function _M.damage_lock(dictionary, key)
    local text = command.read(command.world() .. "/" .. dictionary .. ".dict")
    local at = assert(text:find(key .. ("\0"):rep(8 - #key), 1, true)) - 1
    _M.overwrite(dictionary .. ".dict", at + 8 + 48, "\255\255\0\0")  -- LockFields.reason
end


-- Returns the output of a command, which must succeed.
function _M.output(...)
    local ended, out, err = run(...)
    assert.same({ code = 0 }, ended, err .. out)
    return out
end


-- Checks that a command ends with this status, and prints only a message that contains the text. Returns the message.
function _M.refused(status, text, ...)
    local ended, out, err = run(...)
    assert.same({ { code = status }, "" }, { ended, out }, err)
    assert.truthy(err:find(text, 1, true), err)
    return err
end


-- Returns the fields of each line.
function _M.rows(text)
    local rows = {}
    for line in text:gmatch "([^\n]*)\n" do
        local row = {}
        for field in (line .. "\t"):gmatch "([^\t]*)\t" do
            row[#row + 1] = field
        end
        rows[#rows + 1] = row
    end
    return rows
end


-- Runs a command in its own terminal, `columns` wide. Returns what it shows, and its exit status.
function _M.in_terminal(columns, ...)
    local script = command.write("terminal.py", [[
import fcntl, os, pty, struct, sys, termios
columns, program = int(sys.argv[1]), sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    os.environ["TERM"] = "xterm"
    os.execv(program[0], program)
text = b""
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    if not part:
        break
    text += part
sys.stdout.buffer.write(text.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
]])
    local words = { ... }
    local environment = type(words[#words]) == "table" and table.remove(words) or {}
    environment.PROGRAM = "/usr/bin/python3"
    words[#words + 1] = environment
    local ended, out, err = run(script, tostring(columns), command.program, unpack(words))
    assert.equal("", err)
    return out, ended
end

return _M
