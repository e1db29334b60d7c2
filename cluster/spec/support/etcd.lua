-- Servers of etcd, from Debian's package, on loopback, and the agents of machines. Each machine is a separate runtime
-- directory.
--
-- A server runs from start() to stop(). Agents are processes of spec.support.command, and end with the test.

local command, files, shell = require "spec.support" ("command", "files", "shell")
local daemon = require "cluster.bench.daemon"
local etcd = require "cluster.bench.etcd"

local ATTEMPTS = 5

local _M = {}

local spaces = 0


-- Returns nil, or the reason why there is no etcd or no agent.
function _M.missing()
    return not shell.succeeds("command -v etcd >/dev/null") and "etcd is not installed"
           or not shell.succeeds("command -v curl >/dev/null") and "curl is not installed"
           or not files.find(command.program .. "-agent") and "there is no agent"
           or nil
end


local Server = {}
Server.__index = Server


function _M.free_port()
    return etcd.free_ports(1)[1]
end


-- Sends a request. Returns the body of the answer, or false if there is no answer.
function Server:post(path, body)
    local text = shell.output(("curl -sS -m 5 %s -d '%s' '%s%s' 2>/dev/null"):format(self.curl, body, self.url, path))
    return text ~= "" and text
end


local function base64(text)
    return shell.output("printf %s '" .. text .. "' | base64 -w 0")
end


-- Returns the keys that begin with the prefix, sorted.
function Server:keys(prefix)
    local last = prefix:sub(1, -2) .. string.char(prefix:byte(-1) + 1)
    local body = ('{"key":"%s","range_end":"%s","keys_only":true}'):format(base64(prefix), base64(last))
    local keys = {}
    for key in (self:post("/v3/kv/range", body) or ""):gmatch('"key":"([^"]*)"') do
        keys[#keys + 1] = shell.output("printf %s '" .. key .. "' | base64 -d")
    end
    return keys
end


function Server:erase(key)
    self:post("/v3/kv/deleterange", ('{"key":"%s"}'):format(base64(key)))
end


-- Runs etcdctl with this server. Returns its output, including standard error.
function Server:ctl(arguments)
    return shell.output(("ETCDCTL_API=3 etcdctl --endpoints=%s %s %s 2>&1")
                        :format(self.url, self.ctl_options, arguments))
end


function Server:begin()
    self.daemon = daemon.start(self.command, self.folder .. "/log")
    local function serves()
        self.ended = not self.daemon:runs()
        local answer = not self.ended and self:post("/v3/kv/range", '{"key":"YQ=="}')
        return self.ended or answer and (answer:find("header", 1, true) or answer:find("user name is empty", 1, true))
    end
    return assert(command.await(serves), "etcd does not serve: " .. self.folder) and not self.ended
end


-- Kills the server, as if it had crashed. Its data are kept for begin().
function Server:kill()
    self.daemon:kill()
end


function Server:stop()
    self:kill()
    os.execute("rm -rf '" .. self.folder .. "'")
end


-- Starts a server. options.certificates is the folder with ca.pem, server.pem and server.key, for TLS. The strings in
-- `options` are options for etcd.
function _M.start(options)
    options = options or {}
    local folder = options.certificates
    for _ = 1, ATTEMPTS do
        local self = setmetatable({
            folder = shell.output("mktemp -d /tmp/holdfast-etcd.XXXXXX"),
            url = (folder and "https" or "http") .. "://127.0.0.1:" .. _M.free_port(),
            curl = folder and "--cacert " .. folder .. "/ca.pem" or "",
            ctl_options = folder and "--cacert " .. folder .. "/ca.pem" or "",
        }, Server)
        local more = { "--bcrypt-cost=4", unpack(options) }
        if folder then
            more[#more + 1] = "--cert-file=" .. folder .. "/server.pem"
            more[#more + 1] = "--key-file=" .. folder .. "/server.key"
        end
        local peer = "http://127.0.0.1:" .. _M.free_port()
        self.command = etcd.command("default", self.folder, self.url, peer, { "default=" .. peer }, more)
        if self:begin() then
            return self
        end
        self:stop()
    end
    error "etcd does not start"
end


-- Creates certificates in the folder: ca.pem and, for each name, NAME.pem and NAME.key with the name's subject.
function _M.certificates(folder, subjects)
    local function openssl(arguments)
        assert(shell.succeeds(("cd '%s' && openssl %s >>openssl.log 2>&1"):format(folder, arguments)), arguments)
    end
    local key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    files.write(folder .. "/extensions", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    local sign = "x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -extfile extensions -days 2"
    openssl("req -x509 " .. key .. " -keyout ca.key -out ca.pem -subj /CN=test -days 2")
    for name, subject in pairs(subjects) do
        openssl(("req %s -keyout %s.key -out %s.csr -subj %s"):format(key, name, name, subject))
        openssl(("%s -in %s.csr -out %s.pem"):format(sign, name, name))
    end
end


-- --- machines ---------------------------------------------------------------------------------------------

-- Returns the path of a new runtime directory in the test's folder.
function _M.machine(name)
    local folder = command.world() .. "/" .. name
    assert(shell.succeeds("mkdir -p -m 700 '" .. folder .. "'"))
    return folder
end


-- Returns the output of a process so far, even if it has only just started.
function _M.said(process)
    return process:err() or ""
end


-- Starts an agent of the cluster "main" on this machine with these options, and waits until it has a lease.
function _M.agent(machine, ...)
    local words = { "agent", "main", ... }
    words[#words + 1] = { HOLDFAST_DIR = machine }
    local agent = command.start(unpack(words))
    local function has_lease() return _M.said(agent):find("has lease", 1, true) or agent:wait(0) end
    assert(command.await(has_lease) and not agent.status, agent:err())
    return agent
end


-- Returns a new namespace, so that keys that other tests have left in etcd do not affect this test.
function _M.new_space()
    spaces = spaces + 1
    return "space" .. spaces
end


return _M
