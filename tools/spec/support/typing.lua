-- Types into a shell with job control, in its own terminal. The script is Python. until(text) waits until the terminal
-- shows the text, and sets `before` to what the terminal showed before the text. say(keys) types. `program` is the
-- command.

local command, world = require "spec.support" ("command", "tools/world")

local SHELL = [[
import os, pty, select, sys, time
program = sys.argv[1]
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(PS1="ready> ", TERM="xterm")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
text = before = ""
def until(wanted):
    global text, before
    end = time.time() + 60
    while wanted not in text:
        if time.time() > end:
            sys.exit("no " + repr(wanted) + " in " + repr(text))
        if select.select([fd], [], [], 0.05)[0]:
            text += os.read(fd, 4096).decode()
    before = text[:text.index(wanted)]
    text = text[text.index(wanted) + len(wanted):]
def say(keys):
    os.write(fd, keys.encode())
until("ready> ")
]]


return function (script)
    local indent = script:match "^ *"
    local path = command.write("typing.py", SHELL .. ("\n" .. script):gsub("\n" .. indent, "\n"):gsub("\n +$", "\n"))
    world.output(path, command.program, { PROGRAM = "/usr/bin/python3" })
end
