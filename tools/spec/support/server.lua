-- Starts `holdfast serve`, and sends requests to it.

local command, shell, world = require "spec.support" ("command", "shell", "tools/world")

local _M = {}


-- Starts the server. Returns the process and its port.
function _M.serve(...)
    local process = command.start("serve", "--listen", "127.0.0.1:0", ...)
    local port = command.await(function ()
        return (process:out() or ""):match "^listening on http://127%.0%.0%.1:(%d+)/\n$" or process:wait(0)
    end)
    assert(type(port) == "string", process:err())
    return process, tonumber(port)
end


-- Sends a request with these options for curl. Returns the body, the status and the whole header.
function _M.get(port, path, ...)
    local words = { "-s", "-i", "-m", "30", "--noproxy", "*", "--path-as-is",
                    ("http://127.0.0.1:%d%s"):format(port, path), ... }
    words[#words + 1] = { PROGRAM = shell.output "command -v curl" }
    local out = world.output(unpack(words))
    local head, body = out:match "^(.-\r\n)\r\n(.*)$"
    return body, tonumber(head:match "^HTTP/1.1 (%d+) "), head
end


return _M
